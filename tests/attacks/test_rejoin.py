"""Finding 2: a site that was lost and came back made the run redo rounds *with* it.

The difference of two sums of one round was its update. Now it is brought up to date and joins the
next round: no name of a sum ever stands for two sets of clients. A server that goes back all the
same gets no second sum.
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from families import family
from federations import close, make, parties, to_the_end

sys.path.insert(0, str(Path(__file__).parent))
from watching import Notebook, clients_of

from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs import checkpoint
from autofgl.runtime.state import moments

ALL = tuple(f"client-{number}" for number in range(4))
GONE = "client-3"
LEFT = ALL[:3]

FEW = {"finalists": 1, "inits": 1, "tune": 1}
SEARCH = {"layers": 2, "hidden": 4, "rounds": 9, **FEW}
DARTS = {"layers": 1, "hidden": 4, "trials": 2, "trial_rounds": 2, **FEW}
CASES: dict[str, dict[str, Any]] = {
    "fedavg/parameters": {"aggregate": "parameters", "rounds": 7},
    "fedavg/gradients": {"aggregate": "gradients", "rounds": 7},
    "sfgnn": {"rounds": 7},
    "graphfl": {"inner_steps": 1, "adapt_steps": 1, "rounds": 7},
    "graphfl-ga": {"inner_steps": 1, "adapt_steps": 1, "rounds": 7}
    | {"population": 2, "iterations": 1},
    "fedgraph": {"rounds": 7},
    "fl-agcns": SEARCH | {"generations": 6, "population": 4, "weight_steps": 2, "warmup": 1}
    | {"trials": 1, "trial_rounds": 2},
    "fl-agcns/trial": SEARCH | {"generations": 1, "population": 4, "weight_steps": 1, "warmup": 1}
    | {"trials": 2, "trial_rounds": 8},
    "fl-agcns/search": SEARCH | {"generations": 6, "population": 4, "weight_steps": 2, "warmup": 1}
    | {"trials": 1, "trial_rounds": 2, "known": False},
    "fl-darts": DARTS | {"rounds": 3, "generations": 6},
    "fl-darts/final": DARTS | {"rounds": 7, "generations": 1, "trials": 1, "tune": 0},
    "fl-random": SEARCH | {"candidates": 2, "candidate_rounds": 8},
    "asfgnn": {"trials": 2, "trial_rounds": 3, "searcher": "random", "tune_hidden": "4"}
    | {"rounds": 6, "hidden": 4},
}  # fmt: skip


class Story:
    """A run over several sessions, as a coordinator would have it."""

    def __init__(self, name: str, graph: ClientGraph, folder: Path, secure: str) -> None:
        self.book = Notebook()
        self._name, self._folder, self._secure = name.partition("/")[0], folder, secure
        self._clients = clients_of(graph, 4)
        self._settings = {"hidden": 4, **CASES[name]}

    def begin(self, *, absent: str = "", redo: bool = False, setup: bool = False) -> Any:
        """A session of all clients, or of all but one."""
        here = [client for client in self._clients if client.name != absent]
        about = {**self._settings, "secure_threshold": 3}
        method = make(self._name, here, secure=self._secure, folder=self._folder, **about)
        self.book.watch(method)
        if setup:
            method.setup()
            return method
        state = checkpoint.load_latest(self._folder, method.federation, redo=redo)
        method.connect()
        method.load_state(state["method"])
        method.catch_up(state["behind"])
        return method

    def save(self, method: Any) -> None:
        method.before_checkpoint()
        state = {"method": method.state(), "round": method.round}
        checkpoint.save(self._folder, method.round, state, method.federation)


@pytest.fixture
def tell(small_graph: ClientGraph, tmp_path: Path) -> Callable[..., Story]:
    return lambda name, secure="shares": Story(name, small_graph, tmp_path, secure)


#: Those that the fast tests also let a client join afresh; the slow ones do so with all.
BEGIN_ANEW = ("fedavg/gradients", "fedavg/parameters", "sfgnn", "graphfl", "fedgraph", "fl-darts")


@pytest.mark.parametrize(
    ("name", "fresh"),
    family(
        itertools.product(CASES, (False, True)),
        [*((name, False) for name in CASES), *((name, True) for name in BEGIN_ANEW)],
    ),
)
def test_no_sum_is_made_twice_with_others(
    tell: Callable[..., Story], name: str, fresh: bool
) -> None:
    story = tell(name)
    method = story.begin(setup=True)
    method.step()
    if not fresh:
        story.save(method)
    method.federation.drop(GONE)
    method.step()
    method.step()
    story.save(method)
    before = set(story.book.contributors)
    method.federation.close()

    method = story.begin()
    assert list(method.federation.parties) == list(ALL)
    made = method.round
    to_the_end(method)
    outcome = method.finish()
    assert 0 <= outcome.test_accuracy <= 1
    assert method.round > made
    for tag, sets in story.book.contributors.items():
        assert len(sets) == 1, f"'{tag}' stands for two sums"
        assert tag in before or sets <= {ALL, LEFT}
    after = {sets for tag in story.book.contributors if tag not in before
             for sets in story.book.contributors[tag]}  # fmt: skip
    assert ALL in after, "it never took part again"
    if name != "asfgnn":  # whose trial fails when a client is lost, and the next one begins anew
        assert after == {ALL}
    method.federation.close()


@pytest.mark.parametrize("secure", ["shares", "ckks", "none"])
def test_gradients_go_on_from_the_very_same_weights(
    tell: Callable[..., Story], secure: str
) -> None:
    story = tell("fedavg/gradients", secure)
    method = story.begin(setup=True)
    method.step()
    story.save(method)
    method.federation.drop(GONE)
    method.step()
    method.step()
    story.save(method)
    method.federation.close()
    method = story.begin()
    for _ in range(3):
        locals_ = {name: party.sharing.local for name, party in parties(method).items()}
        first = locals_["client-0"]
        for other in locals_.values():
            assert close(first.weights(), other.weights(), 0.0)
            ours, theirs = moments(first._optimizer), moments(other._optimizer)
            assert ours.keys() == theirs.keys() != set()
            for key in ours:
                assert all(np.array_equal(ours[key][k], theirs[key][k]) for k in ours[key])
        method.step()
    method.federation.close()


def test_the_server_relays_a_state_that_it_cannot_read(
    tell: Callable[..., Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    story = tell("fedavg/gradients")
    method = story.begin(setup=True)
    method.federation.drop(GONE)
    method.step()
    story.save(method)
    weights = parties(method)["client-0"].sharing.local.weights()
    method.federation.close()
    seen: list[bytes] = []
    kind = type(method.clients)
    first = kind.first

    def watched(self: Any, op: str, *form: Any) -> Any:
        reply = first(self, op, *form)
        if op == "common_state":
            seen.append(reply["state"])
        return reply

    monkeypatch.setattr(kind, "first", watched)
    method = story.begin()
    [box] = seen
    for value in weights.values():
        assert value.tobytes()[:32] not in box
    spoiled = bytes([*box[:-1], box[-1] ^ 1])
    for state in (spoiled, box[:20], b""):
        message = {"stage": "", "round": 9, "state": state}
        replies = method.federation.call("catch_up", message, to=[GONE])
        assert GONE in replies.failed
    method.federation.close()


def test_a_server_that_goes_back_gets_no_second_sum(tell: Callable[..., Story]) -> None:
    """The former behaviour: back to the last checkpoint of all, and the rounds again with all."""
    story = tell("fedavg/parameters")
    method = story.begin(setup=True)
    method.step()
    story.save(method)
    method.federation.drop(GONE)
    method.step()
    method.federation.close()
    method = story.begin(redo=True)
    assert method.round == 1
    method.step()  # by what it has noted itself it asks for the very same sum, without the victim
    first, second = story.book.sums["update-2"]
    assert all(np.array_equal(first[key], second[key]) for key in first)
    method.federation.close()
    (story._folder / "server.sums").unlink()
    method = story.begin(redo=True)  # it forgets that, but the clients do not
    assert "a name of a sum stands for" in method.step()["refused"]
    assert story.book.contributors["update-2"] == {LEFT}
    assert len(story.book.sums["update-2"]) == 2
    method.federation.close()


@pytest.mark.parametrize("name", ["fedavg/parameters", "fedavg/gradients", "sfgnn", "graphfl"])
def test_rounds_after_an_older_checkpoint_are_made_again_alike(
    tell: Callable[..., Story], name: str
) -> None:
    """Killed after rounds without a client, and resumed with it: it stays out of those rounds."""
    story = tell(name)
    method = story.begin(setup=True)
    method.step()
    method.federation.drop(GONE)
    story.save(method)
    method.step()
    method.step()
    method.federation.close()
    method = story.begin()
    assert method.round == 1
    to_the_end(method)
    method.finish()
    book = story.book
    assert all(len(sets) == 1 for sets in book.contributors.values())
    for tag, sums in book.sums.items():
        for other in sums[1:]:
            assert all(np.array_equal(sums[0][key], other[key]) for key in sums[0]), tag
    assert ALL in book.contributors["conclude"]
    method.federation.close()


def test_nobody_is_brought_back_to_a_round_that_it_made(tell: Callable[..., Story]) -> None:
    story = tell("fedavg/parameters")
    method = story.begin(setup=True)
    method.step()
    method.step()
    for message in ({"stage": "", "round": 1}, {"stage": "", "round": "x"}):
        replies = method.federation.call("catch_up", message)
        assert {failure.kind for failure in replies.failed.values()} == {"refused"}
        assert len(replies.failed) == 4
    method.federation.close()
