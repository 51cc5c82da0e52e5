"""Differential privacy of whole clients, in runs: what is released, counted, kept and refused."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import FederationError, UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.private import FIGURES, LARGEST_LOSS, UNTOLD, within_bounds
from autofgl.secure.accountant import PrivacyPlan, Releases
from autofgl.secure.noise import row_noise
from federations import make, parties, rounds

DP: dict[str, Any] = {"secure": "shares", "dp_epsilon": 8.0}
AGGREGATES = ["parameters", "gradients"]


def spent(method: Any) -> Releases:
    told = method.clients.privacy()["releases"]
    return Releases(told["updates"], told["figures"])


def plan_of(run: Any) -> PrivacyPlan:
    values = run.figures["hyperparameters"]
    releases = FederatedSettings(rounds=values["rounds"]).releases
    assert releases is not None
    return PrivacyPlan(values["dp_epsilon"], values["dp_delta"], releases)


class TestRun:
    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_says_what_it_spent(
        self, small_clients: list[ClientGraph], tmp_path: Path, aggregate: str
    ) -> None:
        run = autofgl.run(
            "fedavg",
            small_clients,
            dp="epsilon=8",
            rounds=4,
            aggregate=aggregate,
            out=tmp_path / "r",
        )
        told = run.figures["dp"]
        assert run.figures["secure"] == "shares"
        assert told["epsilon"] == pytest.approx(8.0)
        assert told["releases"] == {"updates": 4, "figures": 1}
        assert told["delta"] == 1e-5
        assert told["accuracy_deviation"] > 0
        assert 0 <= run.test_accuracy <= 1
        assert "differential privacy" in (run.folder / "report.html").read_text().lower()

    def test_an_early_end_has_spent_less(
        self, small_clients: list[ClientGraph], tmp_path: Path
    ) -> None:
        run = autofgl.run("fedavg", small_clients, dp=8, rounds=50, budget="0s", out=tmp_path / "r")
        made = run.figures["dp"]["releases"]
        assert made == {"updates": 0, "figures": 1}
        assert run.figures["dp"]["epsilon"] == pytest.approx(plan_of(run).spent(Releases(0, 1)))
        assert run.figures["dp"]["epsilon"] < 3

    def test_rounds_report_nothing(self, small_clients: list[ClientGraph], tmp_path: Path) -> None:
        run = autofgl.run("fedavg", small_clients, dp=8, rounds=3, out=tmp_path / "r")
        assert all(row["val_accuracy"] is None for row in run.history)
        assert all(row["train_loss"] is None for row in run.history)

    def test_search_trials_and_training_are_one_budget(
        self, small_clients: list[ClientGraph], tmp_path: Path
    ) -> None:
        run = autofgl.run(
            "fl-random", small_clients, dp=8, out=tmp_path / "r", rounds=9, candidates=2,
            candidate_rounds=2, finalists=2, inits=1, tune=0, hidden=8,
        )  # fmt: skip
        # Two rounds of each candidate with figures after both, which count as rounds when it goes
        # on; figures of each finalist, and of the one that is kept.
        spent = {"updates": 2 * 2 + 2 * (9 - 2 - 2), "figures": 2 * 2 + 2 + 1}
        assert run.figures["dp"]["releases"] == spent
        assert 4.0 < run.figures["dp"]["epsilon"] <= 8.0, "noise is planned for what may come"

    @pytest.mark.parametrize(
        ("method", "settings", "releases"),
        [
            ("sfgnn", {"rounds": 3}, Releases(3, 1)),
            ("graphfl", {"rounds": 2}, Releases(2, 1)),
            ("fedgraph", {"rounds": 2, "share": "none"}, Releases(2, 1)),
            (
                "asfgnn",
                {"rounds": 2, "trials": 2, "trial_rounds": 2, "startup": 1, "tune_hidden": "8"},
                Releases(6, 3),
            ),
        ],
    )
    def test_other_methods_count_alike(
        self,
        small_clients: list[ClientGraph],
        tmp_path: Path,
        method: str,
        settings: dict[str, Any],
        releases: Releases,
    ) -> None:
        run = autofgl.run(method, small_clients, dp=8, out=tmp_path / "r", **settings)
        told = run.figures["dp"]["releases"]
        assert Releases(**told) == releases
        assert run.figures["dp"]["epsilon"] == pytest.approx(8.0)

    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_hardly_any_noise_is_a_run_without(
        self, small_clients: list[ClientGraph], aggregate: str
    ) -> None:
        """With a huge epsilon what is left is the normalized update, alike for all clients."""
        method = make(
            "fedavg", small_clients, rounds=2, aggregate=aggregate, dp_clip=0.5, dropout=0.0,
            secure="shares", dp_epsilon=1e9, dp_delta=1e-5,
        )  # fmt: skip
        start = next(iter(parties(method).values())).sharing.local.weights()
        rounds(method, 1)
        method.training.evaluate_last(report=False)
        clients = [party.sharing.local.weights() for party in parties(method).values()]
        assert all(
            np.allclose(one[name], clients[0][name], atol=1e-6) for one in clients for name in start
        )
        moved = math.sqrt(sum(float(((clients[0][n] - start[n]) ** 2).sum()) for n in start))
        if aggregate == "parameters":  # a mean of steps of that length
            assert 0.05 < moved <= 0.5 + 1e-3


class TestClient:
    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_one_client_moves_the_sum_by_its_bound_at_most(
        self, small_clients: list[ClientGraph], aggregate: str
    ) -> None:
        """Neighboring runs: one client's data against none; the others send the very same."""
        updates = []
        for clients in (small_clients, [_scaled(small_clients[0]), *small_clients[1:]]):
            method = make("fedavg", clients, rounds=1, aggregate=aggregate, dp_clip=0.5, **DP)
            sent: dict[str, Any] = {}
            for name, party in parties(method).items():
                _watch(party, name, sent)
            rounds(method, 1)
            updates.append(sent)
        changed = small_clients[0].name
        for name, own in updates[1].items():
            norm = math.sqrt(sum(float((value**2).sum()) for value in own.values()))
            assert norm <= 0.5 + 1e-9
            same = all(np.array_equal(own[key], updates[0][name][key]) for key in own)
            assert same == (name != changed)

    def test_size_does_not_tell(self, small_clients: list[ClientGraph]) -> None:
        """Counts and weights are those of any client, however many nodes it has."""
        method = make("fedavg", small_clients, rounds=1, **DP)
        rounds(method, 1)
        totals = method.training.totals
        assert totals == [4096 * len(small_clients)] * 3

    def test_a_server_that_asks_for_more_is_refused(self, small_clients: list[ClientGraph]) -> None:
        method = make("fedavg", small_clients, rounds=2, **DP)
        rounds(method, 2)
        with pytest.raises(FederationError, match="budget of epsilon=8 is spent"):
            method.step()
        assert spent(method) == Releases(2, 0)

    def test_a_server_that_asks_for_figures_every_round_is_refused(
        self, small_clients: list[ClientGraph]
    ) -> None:
        method = make("fedavg", small_clients, rounds=2, **DP)
        rounds(method, 1)
        method.training.evaluate_last()
        with pytest.raises(FederationError, match="is spent"):
            method.training._exchange(9, set(), contribute=False)

    def test_what_nothing_bounds_is_refused(self, small_clients: list[ClientGraph]) -> None:
        method = make("fedavg", small_clients, rounds=2, **DP)
        method.setup()
        party = next(iter(parties(method).values()))
        with pytest.raises(autofgl.secure.SumRefused, match="no bound of 'salaries'"):
            party.contribute("t", {"salaries": np.ones(3)})
        with pytest.raises(autofgl.secure.SumRefused, match="without noise"):
            party.sums.protect("t", {"salaries": np.ones(3)})


class TestResume:
    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_keeps_the_noise_and_the_count(
        self, small_clients: list[ClientGraph], tmp_path: Path, aggregate: str
    ) -> None:
        run = autofgl.run(
            "fedavg", small_clients, dp=8, rounds=6, aggregate=aggregate, out=tmp_path / "r"
        )
        weights = (run.folder / "model.safetensors").read_bytes()
        (run.folder / "result.json").unlink()  # as if killed in the end
        resumed = autofgl.resume(run.folder, small_clients)
        assert resumed.figures["dp"] == run.figures["dp"]
        assert (run.folder / "model.safetensors").read_bytes() == weights

    def test_rounds_made_again_are_the_same_releases(
        self, small_clients: list[ClientGraph], tmp_path: Path
    ) -> None:
        method = make("fedavg", small_clients, folder=tmp_path, rounds=5, **DP)
        rounds(method, 2)
        method.before_checkpoint()
        digests = method.federation.checkpoint("two")
        state = method.state()
        sums: list[list[Payload]] = [[], []]
        for attempt in sums:
            while not method.done:
                method.step()
                attempt.append(_weights(method))
            assert spent(method).updates == 5
            method.federation.restore("two", digests)
            method.connect()
            method.load_state(state)
        for first, second in zip(*sums, strict=True):
            assert all(np.array_equal(first[name], second[name]) for name in first)
        assert spent(method).updates == 5  # a checkpoint takes nothing back

    def test_two_runs_of_one_seed_have_other_noise(
        self, small_clients: list[ClientGraph], tmp_path: Path
    ) -> None:
        runs = [
            autofgl.run("fedavg", small_clients, dp=8, rounds=2, out=tmp_path / name)
            for name in "ab"
        ]
        weights = [(run.folder / "model.safetensors").read_bytes() for run in runs]
        assert weights[0] != weights[1]


class TestRows:
    """Noise on the rows that fedgraph's clients show each other."""

    def test_every_row_that_travels_has_it(self, small_clients: list[ClientGraph]) -> None:
        sent: list[tuple[str, Any]] = []
        method = make("fedgraph", small_clients, rounds=2, dp_rows_epsilon=8.0, dropout=0.0)
        for party in parties(method).values():
            _note_rows(party._around.exchange, sent)
        rounds(method, 2)
        rows = [array for topic, array in sent if "/rows-" in topic]
        assert rows
        plain = make("fedgraph", small_clients, rounds=2, dropout=0.0)
        shown: list[tuple[str, Any]] = []
        for party in parties(plain).values():
            _note_rows(party._around.exchange, shown)
        rounds(plain, 2)
        scale = row_noise(8.0, 1e-5, method.settings.rows_of_a_node)
        first = {topic for topic, _ in shown if "/rows-" in topic and topic.startswith("train-1")}
        assert first
        noisy = np.concatenate([array.ravel() for topic, array in sent if topic in first])
        exact = np.concatenate([array.ravel() for topic, array in shown if topic in first])
        assert noisy.shape == exact.shape
        assert (noisy - exact).std() == pytest.approx(scale, rel=0.25)

    def test_the_run_plans_enough_and_says_so(
        self, small_clients: list[ClientGraph], tmp_path: Path
    ) -> None:
        run = autofgl.run(
            "fedgraph", small_clients, dp="rows=8", rounds=3, share="all", out=tmp_path / "r"
        )
        told = run.figures["dp_rows"]
        assert told["epsilon"] == 8
        assert told["rows_of_a_node"] == 2 * (3 + 3 + 2)
        assert "dp" not in run.figures


class TestRefusal:
    @pytest.mark.parametrize(
        ("method", "settings", "message"),
        [
            ("fedavg", {"secure": "none", "dp": 8}, "add --secure shares"),
            ("separate", {"dp": 8}, "sums nothing that --dp could put noise into"),
            ("centralized", {"dp": 8}, "sums nothing that --dp could put noise into"),
            ("fedgraph", {"dp": 8}, "tell more than sums"),
            ("fl-agcns", {"dp": 8}, "tell more than sums"),
            ("sfgnn", {"dp": 8, "collect_models": True}, "tell more than sums"),
            ("fedavg", {"dp": {"epsilon": 8, "delta": 0.5}}, "less than 1/3"),
            ("fedavg", {"dp": {"epsilon": 8, "colluders": 9}}, "leave no noise"),
            ("fedavg", {"dp": "eps=8"}, "did you mean epsilon"),
            ("fedavg", {"dp": "8"}, "takes key=value"),
            ("fedavg", {"dp": "clip=8"}, "takes epsilon=8"),
            ("fedavg", {"dp": "epsilon=much"}, "dp_epsilon=much"),
            ("fedavg", {"dp": "rows=2"}, "sends no rows"),
        ],
    )
    def test_is_one_line(
        self,
        small_clients: list[ClientGraph],
        tmp_path: Path,
        method: str,
        settings: dict[str, Any],
        message: str,
    ) -> None:
        with pytest.raises(UserError, match=message) as error:
            autofgl.run(method, small_clients, out=tmp_path / "r", rounds=1, **settings)
        assert "\n" not in str(error.value)


class TestFigures:
    def test_metrics_are_those_of_one_node_each(self) -> None:
        sums = np.array([10.0, 3, 5, 90.0, 1, 4, 0, 0, 0])  # loss, correct, count of each split
        values, bounds = FIGURES["metrics"](sums / 7, 3)
        assert values.tolist() == [0, 0, 1, pytest.approx(22.5), 0.25, 1, 0, 0, 0]
        assert bounds.tolist() == [0, 0, 0, LARGEST_LOSS, 1, 0, LARGEST_LOSS, 1, 0]

    def test_noise_never_makes_an_accuracy_that_there_is_not(self) -> None:
        total = within_bounds({"metrics": np.array([0, 0, 1, -3.0, 2, 1, 99, -1, 1])})
        assert total["metrics"].tolist() == [0, 0, 1, 0, 1, 1, LARGEST_LOSS, 0, 1]

    def test_untold_names_are_no_parameters(self, small_clients: list[ClientGraph]) -> None:
        method = make("fedavg", small_clients, rounds=1)
        party = next(iter(parties(method).values()))
        assert not set(UNTOLD) & set(party.sharing.local.weights())


def test_plain_runs_know_nothing_of_it(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    run = autofgl.run("fedavg", small_clients, rounds=2, out=tmp_path / "r")
    assert "dp" not in run.figures
    assert "noise" not in json.dumps(run.figures)


def _scaled(client: ClientGraph) -> ClientGraph:
    """A client with other labels and far larger features."""
    return replace(client, x=client.x * 1000, y=client.y[::-1].copy())


def _watch(party: Any, name: str, sent: dict[str, Any]) -> None:
    """Keep what a party is about to put noise on."""
    client = party.sums
    usual = client._update

    def update(vectors: Any) -> Any:
        values, scale = usual(vectors)
        if values:
            sent[name] = values
        return values, scale

    client._update = update


def _note_rows(exchange: Any, sent: list[tuple[str, Any]]) -> None:
    """Keep what a party lays out for its peers."""
    usual = exchange.publish

    def publish(topic: str, messages: Any) -> None:
        sent.extend((topic, np.asarray(array)) for array in messages.values())
        usual(topic, messages)

    exchange.publish = publish


def _weights(method: Any) -> Payload:
    method.before_checkpoint()
    return dict(next(iter(parties(method).values())).sharing.local.weights())
