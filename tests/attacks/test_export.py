"""Finding 4: 'export' after 'round' handed out locally trained weights, in every secure mode.

The server asks a client for weights at every moment of a training, honest or not, and gets only
those that everybody has.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federations import close, make, parties, rounds

sys.path.insert(0, str(Path(__file__).parent))
from watching import clients_of

from autofgl.federation.party import Failure
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.secure import MODES

CASES: dict[str, dict[str, Any]] = {
    "fedavg": {"aggregate": "parameters"},
    "fedavg/gradients": {"aggregate": "gradients"},
    "graphfl": {"inner_steps": 1, "adapt_steps": 1},
    "graphfl-ga": {"population": 2, "iterations": 1, "inner_steps": 1, "adapt_steps": 1},
    "sfgnn": {},
}


def begin(name: str, clients: list[ClientGraph], secure: str = "shares", **settings: Any) -> Any:
    about = {"rounds": 4, "hidden": 4, **CASES[name], **settings}
    return make(name.partition("/")[0], clients, secure=secure, **about)


def refusals(method: Any, op: str, payload: Payload | None = None) -> dict[str, str]:
    replies = method.federation.call(op, payload)
    assert not replies.ok, f"'{op}' was answered"
    assert {failure.kind for failure in replies.failed.values()} == {"refused"}
    return {name: failure.message for name, failure in replies.failed.items()}


@pytest.mark.parametrize("secure", MODES)
@pytest.mark.parametrize("name", CASES)
def test_no_weights_leave_a_client_within_a_training(
    small_clients: list[ClientGraph], name: str, secure: str
) -> None:
    if name == "graphfl-ga" and secure == "ckks":
        pytest.skip("as graphfl")
    method = begin(name, small_clients, secure)
    rounds(method, 1)
    for _ in range(2):
        for message in refusals(method, "export").values():
            assert message == "operation 'export' is not answered in phase 'training'"
        method.step()


@pytest.mark.parametrize("aggregate", ["parameters", "gradients"])
def test_before_and_after_a_training_everybody_has_the_same(
    small_clients: list[ClientGraph], aggregate: str
) -> None:
    method = make("fedavg", small_clients, secure="shares", rounds=2, aggregate=aggregate, hidden=4)
    method.setup()
    for _ in range(2):
        exported = [reply["weights"] for reply in method.federation.call("export").ok.values()]
        assert len(exported) == 3
        assert all(close(exported[0], other, 0.0) for other in exported)
        if method.round == 0:
            method.step()
            method.step()
            outcome = method.finish()
    assert close(exported[0], outcome.models["model"], 0.0)


def test_a_conclusion_without_weights_does_not_make_local_ones_public(
    small_clients: list[ClientGraph],
) -> None:
    """The server leaves out the weights that clients are to settle on, then asks for theirs."""
    method = begin("fedavg", small_clients)
    rounds(method, 1)
    message = {"stage": "", "totals": method.training.totals, "session": "x"}
    replies = method.federation.call("conclude", message)
    assert not replies.ok
    refusals(method, "export")


def test_a_start_that_fails_or_is_refused_does_not_make_local_weights_public(
    small_clients: list[ClientGraph],
) -> None:
    method = begin("fedavg", small_clients)
    rounds(method, 1)
    assert "was there before" in refusals(method, "start", {"stage": ""})["client-0"]
    refusals(method, "export")
    trained = parties(method)["client-0"].sharing.local.weights()
    broken = {"stage": "other-", "settings": {"lr": "many"}}
    replies = method.federation.call("start", broken)
    assert not replies.ok
    refusals(method, "export")
    method.federation.call("start", {"stage": "another-"})
    fresh = method.federation.call("export").ok["client-0"]["weights"]
    assert not close(fresh, trained, 1e-6)


def test_weights_handed_out_alone_are_not_taken_and_handed_back(
    small_clients: list[ClientGraph],
) -> None:
    method = begin("fedavg", small_clients)
    rounds(method, 1)
    assert "for sums that clients open" in refusals(method, "take", {})["client-0"]


def test_rounds_go_forward_and_stages_serve_once(small_clients: list[ClientGraph]) -> None:
    method = begin("fedavg", small_clients)
    rounds(method, 2)
    about = {"totals": method.training.totals, "contribute": True, "train": True}
    weights = method.training.sharing.handout()
    for at in (2, 1, 0, -1, 2.5, "3", True):
        message = {"stage": "", "round": at, **about, **weights}
        assert "not after 2" in refusals(method, "round", message)["client-1"]
    message = {"stage": "elsewhere-", "round": 3, **about, **weights}
    assert "not the present one" in refusals(method, "round", message)["client-1"]
    method.step()
    method.step()
    method.finish()
    refusals(method, "round", {"stage": "", "round": 9, **about, **weights})
    refusals(method, "conclude", {"stage": ""})


def test_personal_models_are_collected_by_the_owners_leave_only(
    small_clients: list[ClientGraph],
) -> None:
    method = begin("sfgnn", small_clients)
    rounds(method, 4)
    method.finish()
    assert "stays with its client" in refusals(method, "export")["client-0"]
    method = begin("sfgnn", small_clients, collect_models=True)
    rounds(method, 2)
    refusals(method, "export")
    method.finish()
    assert len(method.federation.call("export").ok) == 3


def test_a_search_goes_forward_too(small_clients: list[ClientGraph]) -> None:
    small = {"generations": 3, "population": 4, "layers": 2, "warmup": 1, "weight_steps": 2}
    method = make("fl-agcns", small_clients, secure="shares", hidden=4, **small, trials=0)
    rounds(method, 2)
    codes, totals = method.search.population, method.search._totals
    again = {"generation": 2, "step": 1, "codes": codes, "totals": totals}
    assert "not after" in refusals(method, "weights", again)["client-0"]
    evolve = {"generation": 2, "shared": codes, "children": 1, "tables": {}, "quota": 2}
    assert "not after" in refusals(method, "evolve", {**evolve, "totals": totals})["client-0"]
    refusals(method, "begin_search", {"stage": "search-"})
    refusals(method, "round", {"stage": "", "round": 1})


def test_passes_across_clients_are_made_once(small_graph: ClientGraph) -> None:
    method = make("fedgraph", clients_of(small_graph, 3), secure="shares", rounds=2, hidden=4)
    rounds(method, 1)
    refusals(method, "start")
    refusals(method, "advance")
    tag = f"{method._schedule.name(1)}-0"
    message = {"purpose": "train", "tag": tag, "report": "x", "batch": 4, "keep": []}
    assert "was made before" in refusals(method, "begin", message)["client-0"]
    method.step()
    method.finish()
    refusals(method, "conclude")


def test_alone_means_alone_until_the_end(small_clients: list[ClientGraph]) -> None:
    method = make("separate", small_clients, rounds=2)
    rounds(method, 1)
    refusals(method, "export")
    refusals(method, "round", {"round": 1})
    method.step()
    assert len(method.finish().models) == 3
    refusals(method, "round", {"round": 3})


def test_who_fails_in_a_round_gives_no_weights_either(small_clients: list[ClientGraph]) -> None:
    method = begin("fedavg", small_clients)
    method.setup()
    wrong = {"stage": "", "round": 1, "totals": method.training.totals, "contribute": True}
    bad = {"weights": {}, "train": True}
    replies = method.federation.call("round", {**wrong, **bad})
    assert isinstance(replies.failed["client-0"], Failure)
    refusals(method, "export")
    trained = parties(method)["client-0"].sharing.local.weights()
    assert all(np.isfinite(value).all() for value in trained.values())
