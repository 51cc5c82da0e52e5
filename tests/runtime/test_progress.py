"""Losses that do not fall as gradients foretell: who is found, and who is left alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runtime.bounds import Suspects
from autofgl.runtime.progress import CLIMBING, CLIMBS, ENOUGH, NOT_AS_FORETOLD, Progress
from bad_clients import reverse
from federations import close, make, parties, to_the_end

NAMES = [f"client-{number}" for number in range(10)]
BAD = "client-3"
#: Of 10 clients so many may be left aside, as with shares.
MOST = 3
#: Of the regressions.
SIZE = 40


class Regressions:
    """Logistic regressions on data that are unlike, with dropout; clients follow the mean gradient
    of those that take part, in which one may have the sign reversed.
    """

    def __init__(self, seed: int, factor: float = -1.0, tells: bool = True) -> None:
        rng = self._rng = np.random.default_rng(seed)
        common = rng.normal(size=SIZE)
        self._rows = {
            name: rng.normal(size=(8, SIZE)) + 0.3 * common + rng.normal(size=SIZE)
            for name in NAMES
        }  # of nodes of one class; those of the other are mirrored
        self._factor, self._tells = factor, tells
        self.progress, self.suspects = Progress(), Suspects()
        self.weights: Any = np.zeros(SIZE)
        self._step: Any = None
        self._foretold: float | None = None
        self.names, self.dropped, self.asked = list(NAMES), list[str](), 0

    def losses(self, names: list[str]) -> float:
        return float(np.mean([np.logaddexp(0, -self._rows[n] @ self.weights) for n in names]))

    def gradient(self, name: str) -> Any:
        rows = self._rows[name] * self._rng.binomial(1, 0.5, self._rows[name].shape) * 2
        errors = -1 / (1 + np.exp(rows @ self.weights))
        return errors @ rows / len(rows) * (self._factor if name == BAD else 1)

    def round(self) -> None:
        taking_part = [name for name in self.names if name not in self.suspects.aside]
        asked = self.progress.doubtful and self._tells
        self.asked += asked
        told = self._foretold if asked else None
        suspecting = self.suspects.active
        verdict = self.progress.observe(self.losses(taking_part), told, taking_part, suspecting)
        gradient = np.mean([self.gradient(name) for name in taking_part], axis=0)
        self._foretold = None if self._step is None else float(gradient @ self._step)
        self._step = -0.1 * gradient
        self.weights = self.weights + self._step
        if verdict is not None:
            about = (taking_part, self.names, MOST)
            spoiled, cleared = self.suspects.spoiled, self.suspects.cleared
            if culprit := spoiled(*about, certain=False) if verdict else cleared(*about):
                self.dropped.append(culprit)
                self.names.remove(culprit)


@pytest.mark.parametrize("seed", range(8))
class TestRegressions:
    @pytest.mark.parametrize("reversed_by", [-2.0, -8.0])
    def test_the_reversed_one_is_found_and_no_other(self, seed: int, reversed_by: float) -> None:
        clients = Regressions(seed, reversed_by)
        for _ in range(150):
            clients.round()
        assert clients.dropped == [BAD]

    def test_unlike_clients_with_noisy_gradients_are_left_alone(self, seed: int) -> None:
        """Though the loss stays high: nobody's minimum is that of another."""
        clients = Regressions(seed, 1.0)
        for _ in range(300):
            clients.round()
        assert not clients.dropped
        assert not clients.suspects.active

    def test_without_foretelling_a_climb_finds_it(self, seed: int) -> None:
        clients = Regressions(seed, -20.0, tells=False)
        for _ in range(80):
            clients.round()
        assert clients.dropped == [BAD]


def test_nothing_is_asked_while_the_loss_falls() -> None:
    progress = Progress()
    for made in range(30):
        progress.observe(2 - 0.04 * made, None, NAMES, False)
        assert not progress.doubtful
    for _ in range(4):
        progress.observe(0.8, None, NAMES, False)
    assert progress.doubtful


def test_a_low_loss_is_not_worth_a_question() -> None:
    progress = Progress()
    for made in range(30):
        progress.observe(max(2 - 0.1 * made, 0.5), None, NAMES, False)
    assert not progress.doubtful


def test_a_climb_that_gradients_foretell_is_nobodys_fault() -> None:
    """Of a learning rate that is too high."""
    progress = Progress()
    for made in range(40):
        foretold = 0.3 if progress.doubtful else None
        verdict = progress.observe(2 + 0.2 * made, foretold, NAMES, False)
        assert verdict != NOT_AS_FORETOLD
        assert verdict != CLIMBS or made < CLIMBING + 3, "before anything was foretold"


def test_a_group_is_judged_by_rounds_of_its_own() -> None:
    progress = Progress()
    verdicts = [progress.observe(loss, None, NAMES, False) for loss in (1.0, 1.5, 1.6, 1.7)]
    assert verdicts == ["", None, None, CLIMBS]
    group = NAMES[:7]
    losses = [9.0, *(9.0 - made for made in range(1, ENOUGH + 2))]
    verdicts = [progress.observe(loss, None, group, True) for loss in losses]
    assert verdicts == [None] * (ENOUGH + 1) + [""], "its first loss is compared with none before"


def test_it_is_resumed() -> None:
    progress, again = Progress(), Progress()
    for made in range(12):
        progress.observe(2 / (1 + made), None, NAMES, False)
    again.load_state(progress.state())
    again.observe(1.0, None, NAMES, False)
    progress.observe(1.0, None, NAMES, False)
    assert (again._first, again._least, again._largest_fall) == (2.0, 2 / 12, pytest.approx(5 / 3))


@pytest.fixture(scope="module")
def ten_unlike_clients(small_graph: ClientGraph) -> list[ClientGraph]:
    return autofgl.partition(small_graph, clients=10, method="metis", seed=0)


class TestRuns:
    def test_a_reversed_client_behind_secure_sums_is_left_out_and_no_other(
        self, ten_unlike_clients: list[ClientGraph]
    ) -> None:
        about = {"secure": "shares", "rounds": 36, "hidden": 8, "lr": 0.03}
        method = make("fedavg", ten_unlike_clients, **about)
        method.setup()
        reverse(parties(method)[BAD], -3.0)
        rows = to_the_end(method)
        assert [*method.clients.dropped] == [BAD]
        assert [row["round"] for row in rows if "anew" in row] == [], "too few rounds are left"

    @pytest.mark.slow
    def test_honest_clients_stay(self, ten_unlike_clients: list[ClientGraph]) -> None:
        about = {"secure": "shares", "rounds": 90, "hidden": 8, "lr": 0.03}
        method = make("fedavg", ten_unlike_clients, **about)
        method.setup()
        to_the_end(method)
        assert not method.clients.dropped
        assert not method.clients.suspecting

    def test_a_training_that_was_led_astray_begins_anew(
        self, ten_unlike_clients: list[ClientGraph], tmp_path: Path
    ) -> None:
        about = {"secure": "shares", "rounds": 50, "hidden": 8, "lr": 0.03}
        method = make("fedavg", ten_unlike_clients, **about, folder=tmp_path)
        method.setup()
        first = parties(method)["client-0"].sharing.local.weights()
        reverse(parties(method)[BAD], -3.0)
        rows = [method.step()]
        while "anew" not in rows[-1]:
            rows.append(method.step())
        assert [*method.clients.dropped] == [BAD]
        again = parties(method)["client-0"].sharing.local.weights()
        assert not close(first, again, 1e-3), (
            "two sums of the same weights would tell of the bad one"
        )
        method.before_checkpoint()
        digests = method.federation.checkpoint("anew")
        state = decode(encode(method.state()))
        rows += to_the_end(method)
        assert [row["round"] for row in rows] == [*range(1, 51)]
        end = method.finish()

        resumed = make("fedavg", ten_unlike_clients, **about, folder=tmp_path)
        resumed.clients.go_on_without({BAD: "it was left out"})
        resumed.federation.restore("anew", digests)
        resumed.load_state(state)
        to_the_end(resumed)
        assert close(resumed.finish().models["model"], end.models["model"], 0.0)
