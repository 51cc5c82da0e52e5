"""Reversed updates: a client whose updates go against the loss that it reports is found."""

from typing import Any

import numpy as np
import pytest
import torch

import autofgl
from autofgl.errors import FederationError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.method import Method
from autofgl.runtime.reversal import WINDOW, FollowedAdam, ReversalCheck, flattened, is_reversed
from bad_clients import reverse
from federations import make, parties, to_the_end

BAD = "client-2"


@pytest.fixture(scope="module")
def unlike_clients() -> list[ClientGraph]:
    """Every client has a class of its own: their gradients pull against each other."""
    settings = DataSettings(nodes=200, features=50, homophily=0.3, topic_strength=0.5)
    graph = autofgl.load("synthetic", seed=0, settings=settings)
    return autofgl.partition(graph, clients=5, method="labels", seed=0)


class TestRuns:
    @pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
    @pytest.mark.parametrize("factor", [-1.0, -10.0])
    def test_a_client_with_reversed_updates_is_left_out_and_no_other(
        self, unlike_clients: list[ClientGraph], aggregate: str, factor: float
    ) -> None:
        # Averaged parameters of local epochs do not always give a client away, on any scaling.
        about = {"aggregate": aggregate, "normalize_features": True}
        method = make("fedavg", unlike_clients, rounds=20, hidden=8, **about)
        method.setup()
        reverse(parties(method)[BAD], factor)
        rows = to_the_end(method)
        dropped = method.clients.dropped
        assert [*dropped] == [BAD]
        assert "opposite way" in dropped[BAD]
        assert [row["clients"] for row in rows].index(4) <= WINDOW + 5

    @pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
    @pytest.mark.parametrize("lr", [0.01, 0.2])
    def test_honest_clients_stay_though_they_are_unlike(
        self, unlike_clients: list[ClientGraph], aggregate: str, lr: float
    ) -> None:
        method = make("fedavg", unlike_clients, rounds=30, hidden=8, aggregate=aggregate, lr=lr)
        method.setup()
        to_the_end(method)
        assert not method.clients.dropped

    def test_a_run_can_end_instead(self, unlike_clients: list[ClientGraph]) -> None:
        method = make("fedavg", unlike_clients, rounds=20, hidden=8, on_bad_client="end")
        method.setup()
        reverse(parties(method)[BAD])
        with pytest.raises(FederationError, match=f"{BAD}: its updates go the opposite way"):
            to_the_end(method)

    def test_the_server_follows_the_clients_steps(self, unlike_clients: list[ClientGraph]) -> None:
        """It knows them up to the penalty on the initial weights."""
        method = make("fedavg", unlike_clients, rounds=5, hidden=8, select="last")
        method.setup()
        local = parties(method)["client-0"].sharing.local
        start = flattened(local.weights())
        to_the_end(method)
        method.finish()  # takes the last gradient in
        server = method.training.sharing
        moved, known = flattened(local.weights()) - start, server._followed._moved
        assert moved @ known / np.linalg.norm(moved) / np.linalg.norm(known) > 0.98

    def test_steps_are_followed_on_trial_too(self, unlike_clients: list[ClientGraph]) -> None:
        """Who is promoted goes on with the moments that it has: so must the server."""
        method = make("fedavg", unlike_clients, rounds=30, hidden=8)
        training = Method.engine(method, stage="tried-")
        method.connect()
        training.start(trial=True)
        local = parties(method)["client-0"].sharing.local
        start = flattened(local.weights())
        for _ in range(6):
            training.step()
        training.before_checkpoint()
        moved, known = flattened(local.weights()) - start, training.sharing._followed._moved
        assert training.sharing._followed._count == 6
        assert moved @ known / np.linalg.norm(moved) / np.linalg.norm(known) > 0.9


def test_statistics_of_a_normalization_are_not_compared() -> None:
    weights = {
        "b.weight": np.ones((2, 2)),
        "b.running_mean": np.full(3, 7.0),
        "a.bias": np.zeros(2),
        "b.num_batches_tracked": np.ones(()),
    }
    assert flattened(weights).tolist() == [0, 0, 1, 1, 1, 1]
    assert flattened({"norm.running_var": np.ones(3)}).tolist() == []


@pytest.mark.slow
def test_clients_without_a_rare_class_stay() -> None:
    """Biases that move toward the class raise their losses, which all matrices lower."""
    data = DataSettings(nodes=3000, classes=2, minority=0.03, homophily=0.98)
    clients = autofgl.partition(autofgl.load("synthetic", seed=1, settings=data), clients=3, seed=1)
    assert sorted((graph.y == 1).any() for graph in clients) == [False, False, True]
    method = make("fedavg", clients, rounds=110, hidden=64, seed=1)
    method.setup()
    to_the_end(method)
    assert not method.clients.dropped


class TestCheck:
    def quadratic(self, sign: float, gradients: bool, rounds: int = WINDOW + 1) -> list[str]:
        """Two clients with parabolas about 1 and -1; one of them sends ``sign`` times its own."""
        check, weights, found = ReversalCheck(), np.full(3, 4.0), []
        goals = {"a": 1.0, "b": -1.0}
        for _ in range(rounds):
            slopes = {name: weights - goal for name, goal in goals.items()}
            losses = {name: float(one @ one) / 2 for name, one in slopes.items()}
            step = -0.02 * sum(slopes.values())
            sent = slopes if gradients else {name: -0.3 * one for name, one in slopes.items()}
            found = check.observe({**sent, "b": sign * sent["b"]}, losses, step, gradients)
            check.load_state(decode(encode(check.state())))
            weights = weights + step
        return found

    @pytest.mark.parametrize("gradients", [True, False])
    def test_a_parabola(self, gradients: bool) -> None:
        assert self.quadratic(1.0, gradients) == []
        assert self.quadratic(-1.0, gradients) == ["b"]
        assert self.quadratic(-1.0, gradients, rounds=WINDOW) == [], "too early to tell"

    def test_rounds_count_while_the_loss_is_high(self) -> None:
        """A client's loss of 1 falls by a hundredth in every round, and it sends that it climbs."""
        step, slope = np.array([1.0]), np.array([0.01])
        for first, found in ((1.0, ["a"]), (5.0, [])):
            check = ReversalCheck()
            check.observe({"a": slope}, {"a": first}, step, gradients=True)
            for at in range(WINDOW + 1):
                named = check.observe({"a": slope}, {"a": 1 - slope[0] * at}, step, gradients=True)
            assert named == found

    @pytest.mark.parametrize(("slope", "found"), [(0.01, ["a"]), (0.001, [])])
    def test_a_loss_at_rest_says_nothing(self, slope: float, found: list[str]) -> None:
        """As with a sigmoid at the output: the loss stays near its first one, and drifts a bit."""
        check, step, named = ReversalCheck(), np.array([1.0]), []
        for at in range(WINDOW + 1):
            sent, loss = np.array([slope]), 1 - slope * at
            named = check.observe({"a": sent}, {"a": loss}, step, gradients=True)
        assert named == found

    def test_one_round_that_fits_clears(self) -> None:
        pairs = [[1.0, -1.0]] * WINDOW
        assert is_reversed(pairs)
        assert not is_reversed([*pairs[1:], [0.01, 0.01]])
        assert not is_reversed([[0.0, 0.0]] * WINDOW), "nothing happens"
        assert not is_reversed([[float("nan"), 1.0]] * WINDOW)

    @pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
    def test_steps_equal_those_of_torch(self, kind: Any) -> None:
        rng = np.random.default_rng(0)
        weights = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        optimizer = kind([weights], lr=0.02, weight_decay=0.1)
        followed = FollowedAdam(0.02, 0.1, decoupled=kind is torch.optim.AdamW)
        for _ in range(7):
            gradient, before = rng.normal(size=4), weights.detach().numpy().copy()
            weights.grad = torch.from_numpy(gradient)
            optimizer.step()
            step = weights.detach().numpy() - before
            assert np.allclose(followed.step(gradient), step, rtol=1e-9)
            followed.load_state(decode(encode(followed.state())))


def test_half_of_the_clients_are_not_accused(small_clients: list[ClientGraph]) -> None:
    """Of three, one may be left out: two that seem reversed, at once or one by one, are not."""
    names = [client.name for client in small_clients]
    for seen, left_out in (([names[:2]], []), ([names[:1], names[1:2]], names[:1])):
        method = make("fedavg", small_clients, rounds=20, aggregate="gradients")
        method.setup()
        answers = iter(seen)
        method.training.oversight._reversals.observe = lambda *_, it=answers, **__: next(it, [])
        to_the_end(method)
        assert list(method.clients.dropped) == left_out


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_clients_that_descend_more_than_they_report_are_not_judged_by_it(
    unlike_clients: list[ClientGraph], secure: str
) -> None:
    about = {"model": "appnp", "consistency": 3.0, "weight_decay": 0.01}
    method = make("fedavg", unlike_clients, secure=secure, rounds=40, hidden=8, **about)
    method.setup()
    reverse(parties(method)[BAD])
    to_the_end(method)
    assert not method.clients.dropped


def test_a_client_alone_is_not_accused(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients[:1], rounds=3 * WINDOW, aggregate="gradients")
    method.setup()
    training = method.training
    training.oversight._reversals.observe = lambda *_, **__: [small_clients[0].name]
    for _ in range(3):
        training.step()
    assert method.clients.dropped == {}
