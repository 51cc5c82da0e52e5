"""The round engine by hand: counts, figures, best round, patience, sums, lost clients."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from autofgl.errors import FederationError
from autofgl.federation import require
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Failure, Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.metrics import Metrics, scale_up
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.summing import average, weighted
from autofgl.secure.plain import readable
from federations import make, parties, rounds, to_the_end


class StepModel:
    """A number in place of a network: the loss of every node is its distance to a goal."""

    spec = SimpleNamespace(to_json=lambda: {})

    settings = FederatedSettings()

    def __init__(self, name: str, counts: Any) -> None:
        self.value, self.diverged = 0.0, False
        self.goal, self.counts = GOALS[name], counts

    def evaluate(self) -> Any:
        loss = abs(self.value - self.goal)
        return np.stack([loss * self.counts, (loss < 1) * self.counts, self.counts], 1).reshape(-1)

    def evaluate_counting(self, kinds: Any, splits: Any) -> Any:
        return self.evaluate(), {}

    def logits(self) -> None:
        """It has none."""

    def counts_of(self, logits: None, kinds: Any, splits: Any) -> dict[str, Any]:
        classes, rows = 2, len(splits)
        shapes = {"confusion": (classes, classes), "scores": (1, 2, 8), "calibration": (15, 3)}
        return {kind: np.zeros((rows, *shapes[kind])) for kind in kinds}

    parameters = 1

    def flags(self) -> dict[str, Any]:
        return {"diverged": np.array([float(self.diverged)])}

    def inference_seconds(self) -> float:
        return 0.5

    def state(self) -> Payload:
        return {"value": self.value}

    def load_state(self, state: Payload) -> None:
        self.value = state["value"]


GOALS = {"client-0": 2.0, "client-1": 4.0, "client-2": 6.0}


class StepClient(SharingClient):
    """One step further in every round."""

    def __init__(self, data: Any, recipe: Any, settings: Any, secure: str, trial: bool) -> None:
        self.local: Any = StepModel(data.graph.name, data.counts())

    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        self.local.value = float(payload["value"])

    def update(self, payload: Payload) -> dict[str, Any]:
        share = self.local.counts[0] / payload["totals"][0] if payload["train"] else 0.0
        return weighted({"value": np.array([self.local.value + 1])}, share)

    def settle(self, payload: Payload) -> None:
        self.local.value = float(payload["value"])


class StepServer(SharingServer):
    """Hands the mean out, and writes down what the engine asks of it."""

    saved = ("value", "best")

    def __init__(self, clients: Any, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self.value = self.best = 0.0
        self.kept: list[bool] = []

    def handout(self) -> Payload:
        return {"value": self.value}

    def keep(self, best: bool) -> None:
        self.kept.append(best)
        self.best = self.value if best else self.best

    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Any:
        mean = average({name: total[name] for name in ("share", "value")})
        self.value = float(mean["value"][0])
        return {"value": self.value}

    def settle(self, last_is_best: bool) -> Payload:
        return {"value": self.best, "last_is_best": last_is_best}

    def outcome(self, end: Ending) -> Any:
        metrics = Metrics.of(scale_up(end.total["metrics"], end.totals))
        spec = ModelSpec("gcn", in_features=1, classes=2).to_json()
        models = {"model": {"value": np.array(self.best)}}
        return Outcome.of(metrics, end.own, end.total["seconds"], end.best_round, spec, models)


class Steps(SharedTraining):
    Settings = FederatedSettings
    ways: ClassVar = {"steps": Sharing("steps", StepServer, StepClient, lambda *_: None)}  # type: ignore[arg-type, return-value]


def val_loss(clients: list[ClientGraph], value: float) -> float:
    """Mean over all validation nodes of the distance to their client's goal."""
    nodes = {client.name: int(client.val_mask.sum()) for client in clients}
    return sum(n * abs(value - GOALS[name]) for name, n in nodes.items()) / sum(nodes.values())


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_round_evaluates_what_it_begins_with(
    small_clients: list[ClientGraph], secure: str
) -> None:
    """The figures of round t are those after t - 1 updates, of all nodes of the federation."""
    calls: Counter[tuple[str, str]] = Counter()

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        calls[op, party] += way == "down"

    method = make(Steps, small_clients, secure=secure, rounds=9, observer=watch)
    rows = rounds(method, 4)
    masks = ("train_mask", "val_mask", "test_mask")
    totals = [sum(int(getattr(c, mask).sum()) for c in small_clients) for mask in masks]
    assert method.training.totals == totals
    assert method.training.parties == ["client-0", "client-1", "client-2"]
    for at, row in enumerate(rows):
        assert row["round"] == at + 1
        assert row["val_loss"] == pytest.approx(val_loss(small_clients, at), abs=1e-5)
        assert row["value"] == pytest.approx(at + 1, abs=1e-5)
        assert row["clients"] == 3
        assert ("client_val_accuracy" in row) == (secure == "none")
        assert "diverged" not in row
    assert {calls["start", name] for name in GOALS} == {1}
    assert {calls["round", name] for name in GOALS} == {4}


def test_the_best_round_is_kept_and_reported(small_clients: list[ClientGraph]) -> None:
    method = make(
        Steps, small_clients, rounds=8, min_clients=3
    )  # its loss climbs, and nobody can be spared
    rounds(method, 8)
    losses = [val_loss(small_clients, value) for value in range(9)]
    best = int(np.argmin(losses))
    assert 2 <= best <= 6, "neither the first nor the last"
    sharing = method.training.sharing
    outcome = method.finish()
    kept = [value for value, yes in enumerate(sharing.kept) if yes]
    assert kept == list(range(best + 1)), "as long as it gets better; the last update counts, too"
    assert len(sharing.kept) == 9
    assert (method.training.best.round, sharing.best) == (best, best)
    right = sum(
        client.test_mask.sum() for client in small_clients if abs(best - GOALS[client.name]) < 1
    )
    assert outcome.test_accuracy == pytest.approx(right / method.training.totals[2])
    assert outcome.inference_s == 0.5, "half a second each, and how many"


@pytest.mark.parametrize(("made", "last"), [(2, True), (8, False)])
def test_who_settles_knows_whether_the_last_is_the_best(
    small_clients: list[ClientGraph], made: int, last: bool
) -> None:
    seen: list[bool] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "down" and op == "conclude":
            seen.append(payload["last_is_best"])

    method = make(Steps, small_clients, rounds=made, observer=watch, min_clients=3)
    rounds(method, made)
    method.finish()
    assert seen == [last] * 3


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_by_hand(small_clients: list[ClientGraph], patience: int) -> None:
    method = make(Steps, small_clients, rounds=50, patience=patience)
    method.setup()
    to_the_end(method)
    losses = [val_loss(small_clients, value) for value in range(50)]
    best = int(np.argmin(losses))
    # Round t evaluates the weights after t - 1 updates: those that are no better end with it.
    assert method.round == best + patience + 1


def test_a_resumed_engine_goes_on_alike(small_clients: list[ClientGraph]) -> None:
    first, second = (make(Steps, small_clients, rounds=9) for _ in range(2))
    rounds(first, 5)
    second.load_state(first.state())
    assert [second.step() for _ in range(3)] == [first.step() for _ in range(3)]
    assert second.training.best == first.training.best
    assert second.training.totals == first.training.totals


SUMMING: dict[str, dict[str, Any]] = {
    "fedavg": {"aggregate": "gradients"},
    "fedavg/parameters": {"aggregate": "parameters"},
    "sfgnn": {},
    "graphfl": {"inner_steps": 1, "adapt_steps": 1, "participation": 0.5, "new_clients": 1}
    | {"secure_threshold": 2},
    "graphfl-ga": {"population": 2, "iterations": 1, "inner_steps": 1, "adapt_steps": 1},
    "fl-random": {"candidates": 2, "candidate_rounds": 2, "layers": 2, "finalists": 2, "tune": 2},
    "fl-agcns": {"generations": 2, "population": 4, "layers": 2, "warmup": 1, "weight_steps": 1}
    | {"trials": 2, "trial_rounds": 2, "finalists": 2, "tune": 2},
    "fl-darts": {"generations": 2, "layers": 1, "trials": 3, "trial_rounds": 2, "tune": 2},
    "asfgnn": {"trials": 2, "trial_rounds": 2, "searcher": "random", "tune_hidden": "4"},
}


@pytest.mark.parametrize("name", SUMMING)
def test_no_sum_has_the_name_of_another(small_clients: list[ClientGraph], name: str) -> None:
    """Masks are made of names: two sums of one name would show their difference."""
    settings = {"rounds": 3, "hidden": 4, **SUMMING[name]}
    method = make(name.partition("/")[0], small_clients, secure="shares", **settings)
    names: dict[str, list[str]] = {party: [] for party in GOALS}

    def watched(party: str, protect: Any) -> Any:
        return lambda tag, *args, **more: (names[party].append(tag), protect(tag, *args, **more))[1]

    for party, client in parties(method).items():
        client.sums.protect = watched(party, client.sums.protect)
    method.setup()
    to_the_end(method)
    method.finish()
    assert len(names["client-0"]) > 4
    for used in names.values():
        assert len(set(used)) == len(used)
        assert set(used) == set(names["client-0"])


def test_only_a_trial_speaks_of_divergence_and_none_of_test_nodes(
    small_clients: list[ClientGraph],
) -> None:
    """A finalist goes on where its trial ended: it may diverge, and has test nodes from then on."""
    sent: dict[str, list[Any]] = {"candidate": [], "final": []}

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "up" and op == "round":
            phase = "final" if method._selection.finals.begun else "candidate"
            sent[phase].append(readable(payload["metrics"]))

    small = {"candidates": 2, "candidate_rounds": 3, "layers": 2, "hidden": 4, "rounds": 5}
    method = make("fl-random", small_clients, **small, finalists=1, tune=1, observer=watch)
    method.setup()
    to_the_end(method)
    assert len(sent["candidate"]) == (2 * 3 + 3) * 3
    assert len(sent["final"]) == 2 * 3
    for vectors in sent["candidate"]:
        assert vectors["metrics"].reshape(3, 3)[2].tolist() == [0, 0, 0]
        assert vectors["metrics"].reshape(3, 3)[1, 2] > 0
        assert vectors["diverged"].tolist() == [0]
    for vectors in sent["final"]:
        assert vectors["diverged"].tolist() == [0]
        assert vectors["metrics"].reshape(3, 3)[2, 2] > 0


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_large_loss_is_no_divergence_and_one_client_is_enough_to_say_so(
    small_clients: list[ClientGraph], secure: str
) -> None:
    method = make(Steps, small_clients, secure=secure, rounds=9)
    method.training.start(trial=True)
    clients = {name: party.sharing.local for name, party in parties(method).items()}
    clients["client-1"].goal = 5000.0
    row = method.training.step()
    assert row["test_loss"] > 1000
    assert not method.training.diverged
    clients["client-2"].diverged = True
    method.training.step()
    assert method.training.diverged
    clients["client-2"].diverged = False
    method.training.evaluate_last()
    assert not method.training.diverged


def test_a_trial_with_wild_validation_nodes_is_done_and_not_diverged(
    small_clients: list[ClientGraph],
) -> None:
    """Finite, however large: it is worth little, and says so in its figures."""
    wild = [replace(client, x=np.asarray(client.to_pyg().x) * 1e6) for client in small_clients]
    method = make("fl-random", wild, candidate_rounds=1, hidden=4, normalize_features=False)
    race = method._selection.race
    race.begin([Recipe(network="identity | gcn<0 | identity")])
    row, entry = race.step()
    assert min(row["val_loss"], entry.val_loss) > 10
    assert entry.ending == "done"
    assert race.best_first == [entry]


class Unreliable(InProcess):
    """Parties that do not answer some calls, and never get to know of them."""

    absent: Any = staticmethod(lambda op, payload: {})
    timeouts: list[tuple[str, float | None]]

    def call(
        self,
        op: str,
        payload: Payload | None = None,
        *,
        each: Mapping[str, Payload] | None = None,
        to: Collection[str] | None = None,
        timeout: float | None = None,
        min_ok: int | None = None,
    ) -> Replies:
        self.timeouts = [*getattr(self, "timeouts", []), (op, timeout)]
        absent = {k: v for k, v in self.absent(op, payload or {}).items() if k in self.parties}
        present = [name for name in to or self.parties if name not in absent]
        replies = super().call(op, payload, each=each, to=present, timeout=timeout)
        failed = {name: Failure(kind, "not here") for name, kind in absent.items()}
        return require(op, Replies(replies.ok, {**replies.failed, **failed}), min_ok)


def with_finalists(
    clients: list[ClientGraph], absent: dict[str, str], at: str = "go_on", **settings: Any
) -> Any:
    """A search whose second finalist goes on, or a candidate begins, without some clients."""
    small = {"candidates": 2, "candidate_rounds": 2, "layers": 2, "hidden": 4, "finalists": 2}
    small |= {"tune": 0, "inits": 1, "rounds": 4}
    method = make("fl-random", clients, engine=Unreliable, **small, **settings)
    finals = method._selection.finals

    def missing(op: str, payload: Payload) -> dict[str, str]:
        return absent if op == at and (op == "start" or (finals.begun and finals._at == 1)) else {}

    method.federation.absent = missing
    method.setup()
    return method


@pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
def test_a_finalist_goes_on_without_a_client_that_is_lost(
    small_clients: list[ClientGraph], aggregate: str
) -> None:
    method = with_finalists(small_clients, {"client-1": "lost"}, aggregate=aggregate)
    rows = to_the_end(method)
    assert [row["clients"] for row in rows] == [3] * (2 * 2 + 2) + [2] * 2
    assert [one["name"] for one in method.finish().per_client]
    assert list(method.federation.parties) == ["client-0", "client-2"]


@pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
@pytest.mark.parametrize("at", ["start", "go_on"])
def test_who_is_late_for_a_training_trains_no_other_network_than_the_rest(
    small_clients: list[ClientGraph], at: str, aggregate: str
) -> None:
    """It has not built this network, or another is its present one: it is left out."""
    late = {"client-1": "timeout"}
    method = with_finalists(small_clients, late, at, aggregate=aggregate, timeout=60)
    rows = to_the_end(method)
    assert list(method.federation.parties) == ["client-0", "client-2"]
    networks = {str(parties(method)[name].sharing.local.spec) for name in method.federation.parties}
    assert len(networks) == 1
    assert all(np.isfinite(row["val_loss"]) for row in rows)
    steps = [(op, timeout) for op, timeout in method.federation.timeouts if op != "export"]
    assert {timeout for _, timeout in steps} == {60.0}
    calls = [op for op, _ in steps]
    assert (calls.count("start"), calls.count("go_on")) == (2, 2)


def test_too_few_clients_for_a_finalist_end_the_run(small_clients: list[ClientGraph]) -> None:
    method = with_finalists(small_clients, {"client-1": "lost"}, min_clients=3)
    with pytest.raises(FederationError, match="'go_on' needs 3 parties, 2 answered"):
        to_the_end(method)
