"""The whole of `auto` on small federations: what it leaves, what the clock does, odd clients."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import Interrupted, UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.method import Auto
from autofgl.methods.auto.portfolio import FEDAVG
from autofgl.runs.export import model_names, read_description
from autofgl.sites.join import keep_own_model
from federations import die_in, empty_client, intercept, make, parties, to_the_end, without

TINY: dict[str, Any] = {"recipes": 4, "trial_rounds": 4, "tune": 2, "trials": 2, "rounds": 6}
TINY |= {"finalists": 2, "hidden": 8, "lr": 0.05}


def test_what_a_run_leaves(small_clients: list[ClientGraph], out: Path) -> None:
    result = autofgl.auto(small_clients, out=out, **TINY)
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate == result.figures["certificate"]
    assert list(certificate["against"]) == ["alone", "fedavg", "fixed"]
    assert sum(one["sites"] for one in certificate["taken"]) == 3
    stages = [one["stage"] for one in result.figures["stages"]]
    assert stages == ["race", "search", "finals"]
    assert sum(one["rounds"] for one in result.figures["stages"]) == len(result.history)
    decided = [row for row in result.history if "decision" in row]
    assert all(row["reason"] for row in decided)
    assert all(row["test_accuracy"] is None for row in result.history)

    right = tested = 0  # what the clients have in hand is what the certificate is of
    assert sorted(result.models) == ["client-0", "client-1", "client-2"]
    assert model_names(read_description(out)) == [*sorted(result.models), "model"]
    for graph in small_clients:
        label = autofgl.predict(out, graph, graph.name).label
        right += (label == graph.y)[graph.test_mask].sum()
        tested += graph.test_mask.sum()
    assert result.test_accuracy == pytest.approx(right / tested)
    assert certificate["test_nodes"] == tested
    assert result.model is not None
    page = (out / "report.html").read_text()
    assert certificate["sentence"].split(" (")[0] in page
    assert "could not be shown" not in page


@pytest.mark.slow
def test_the_mode_changes_nothing_but_what_is_seen(small_clients: list[ClientGraph]) -> None:
    found = {}
    for secure in ("none", "shares"):
        method = make("auto", small_clients, secure=secure, **{**TINY, "tune": 0, "trials": 0})
        method.setup()
        to_the_end(method)
        found[secure] = method.finish()
    plain, hidden = found["none"], found["shares"]
    assert plain.test_accuracy == hidden.test_accuracy
    for name, one in plain.extra["certificate"]["against"].items():
        assert one == hidden.extra["certificate"]["against"][name]
    assert hidden.per_client == [{"name": one.name} for one in small_clients]
    assert {"takes", "alone_test_accuracy"} <= plain.per_client[0].keys()


def test_test_nodes_are_asked_for_once_and_after_the_choice(
    small_clients: list[ClientGraph],
) -> None:
    method = make("auto", small_clients, **{**TINY, "tune": 0, "trials": 0})
    ops: list[str] = []
    intercept(parties(method)["client-0"], lambda op, _: ops.append(op))
    method.setup()
    to_the_end(method)
    refused = method.federation.call("prove", {"totals": [1, 1, 1], "against": {}}).failed
    assert all("is not answered in phase" in one.message for one in refused.values())
    method.finish()
    last = [op for op in ops if op in ("rate", "choose", "decide", "prove")]
    assert last[-4:] == ["rate", "choose", "decide", "prove"]
    again = method.federation.call("prove", {"totals": [1, 1, 1], "against": {}}).failed
    assert len(again) == 3


def test_the_clock_moves_it_on(small_clients: list[ClientGraph]) -> None:
    """Whenever the time is over, there is a result from what has been trained so far."""
    for after in (1, 9, 20):
        method = make("auto", small_clients, **{**TINY, "rounds": 40, "patience": 0})
        method.setup()
        for _ in range(after):
            method.step()
        assert method.pace(0.35) or method.pace(0.35) is False
        method.wrap_up()
        rows = to_the_end(method)
        assert len(rows) <= 4
        outcome = method.finish()
        assert outcome.models["model"]
        assert outcome.extra["certificate"]["against"]


@pytest.mark.slow
def test_the_shares_of_the_time(small_clients: list[ClientGraph]) -> None:
    method = make(
        "auto", small_clients, **{**TINY, "trial_rounds": 20, "rounds": 50, "patience": 0}
    )
    method.setup()
    rows = []
    for at in range(1, 200):
        if method.done:
            break
        method.pace(at / 100)
        if at == 100:
            method.wrap_up()
        rows.append(method.step())
    said = " ".join(row["decision"] for row in rows if "decision" in row)
    assert "go on with 3" in said
    first = next(at for at, row in enumerate(rows, 1) if row["phase"] == "finals")
    assert 48 <= first <= 52
    assert len(rows) < 110
    assert method.finish().extra["certificate"]["against"].keys() >= {"alone", "fedavg"}


def test_ctrl_c_gives_the_best_so_far(
    small_clients: list[ClientGraph], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Auto.step

    def interrupted(method: Auto) -> dict[str, Any]:
        if method.round == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return step(method)

    monkeypatch.setattr(Auto, "step", interrupted)
    result = autofgl.auto(small_clients, out=out, **{**TINY, "rounds": 200})
    assert result.figures["stopped_by"] == "interrupt"
    assert result.figures["rounds"] < 20
    assert "alone" in result.figures["certificate"]["against"]


def test_a_run_that_was_ended_goes_on_as_if_nothing_had_happened(
    small_clients: list[ClientGraph], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = autofgl.auto(small_clients, out=out.with_name("whole"), **TINY)
    step = Auto.step

    def ended(method: Auto) -> dict[str, Any]:
        if method.round == 9:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(method)

    monkeypatch.setattr(Auto, "step", ended)
    with pytest.raises(Interrupted):
        autofgl.auto(small_clients, out=out, **TINY)
    monkeypatch.setattr(Auto, "step", step)
    result = autofgl.resume(out, small_clients)
    assert result.figures["certificate"] == expected.figures["certificate"]
    names = ("model.safetensors", "certificate.json")
    for name in names:
        whole = expected.folder / name
        assert (out / name).read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("odd", ["empty", "unlabeled", "untested", "single", "lost"])
def test_odd_clients(small_clients: list[ClientGraph], odd: str) -> None:
    clients = list(small_clients)
    if odd == "single":
        one = clients[0]
        of_class = one.y == one.y[one.train_mask][0]
        clients[0] = one.with_masks(one.train_mask & of_class, one.val_mask, one.test_mask)
    if odd == "empty":
        clients.append(empty_client(clients[0], "client-3"))
    if odd == "unlabeled":
        clients[0] = without(clients[0], "train_mask", "val_mask")
    if odd == "untested":
        clients[0] = without(clients[0], "test_mask")
    method = make("auto", clients, **TINY)
    if odd == "lost":
        die_in(parties(method)["client-1"], 3)
    method.setup()
    to_the_end(method)
    outcome = method.finish()
    sites = outcome.extra["certificate"]["against"]["alone"]["sites"]
    many = sites["better"] + sites["same"] + sites["worse"]
    assert many == {"empty": 3, "unlabeled": 3, "untested": 2, "single": 3, "lost": 2}[odd]
    assert outcome.extra["look"]["unlabeled"] == {"empty": 1, "unlabeled": 1}.get(odd, 0)
    assert outcome.extra["look"]["single_class"] >= (odd == "single")


@pytest.mark.parametrize("stage", ["race", "finals"])
def test_a_client_that_is_back_with_nothing_takes_part_again(
    small_clients: list[ClientGraph], stage: str
) -> None:
    about: dict[str, Any] = {**TINY, "tune": 0, "trials": 0, "ways": False}
    method = make("auto", small_clients, **about)
    method.setup()
    rows = [method.step() for _ in range(3)]
    while rows[-1]["phase"] != stage:
        rows.append(method.step())
    method.before_checkpoint()
    fresh = make("auto", small_clients, **about)
    parties(method)["client-1"].load_state(parties(fresh)["client-1"].state())
    method.catch_up(["client-1"])
    rows += to_the_end(method)
    outcome = method.finish()
    assert not method.clients.dropped
    assert {row["clients"] for row in rows if "clients" in row} == {3}
    sites = outcome.extra["certificate"]["against"]["fedavg"]["sites"]
    assert sites["better"] + sites["same"] + sites["worse"] == 3


def test_a_client_that_was_away_gets_the_common_models(small_clients: list[ClientGraph]) -> None:
    method = make("auto", small_clients, **{**TINY, "tune": 0, "trials": 0, "ensemble": 0})
    method.setup()
    to_the_end(method)
    party = parties(method)["client-1"]
    before = dict(party._shelf._candidates)
    party._shelf.load_state({})
    method.finish()
    common = [name for name in party._shelf._candidates if name.endswith("+0")]
    assert len(common) >= 2
    for name in common:
        assert np.allclose(party._shelf[name].logits, before[name].logits)


def test_a_site_keeps_its_own_model(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    method = make("auto", small_clients, **{**TINY, "tune": 0, "trials": 0})
    method.setup()
    to_the_end(method)
    party, graph = parties(method)["client-1"], small_clients[1]
    keep_own_model(party, tmp_path / "early")
    assert not (tmp_path / "early").exists()
    method.finish()
    keep_own_model(party, tmp_path / "model")
    expected = party._shelf.log_probabilities(party._entries[party._chosen]).argmax(1)
    assert np.array_equal(autofgl.predict(tmp_path / "model", graph).label, expected)


def test_an_objective_decides(small_clients: list[ClientGraph]) -> None:
    method = make("auto", small_clients, objective="macro_f1", **TINY)
    method.setup()
    to_the_end(method)
    outcome = method.finish()
    assert outcome.objective == "macro_f1"
    against = outcome.extra["certificate"]["against"]
    assert all(0 <= one["test_macro_f1"] <= 1 for one in against.values())
    best = max(outcome.extra["candidates"], key=lambda one: one["score"])
    assert outcome.extra["choice"]["score"] == best["score"]


def test_a_client_keeps_its_model_unless_it_is_allowed(small_clients: list[ClientGraph]) -> None:
    method = make("auto", small_clients, **{**TINY, "tune": 0, "trials": 0})
    method.setup()
    to_the_end(method)
    outcome = method.finish()
    assert list(outcome.models) == ["model"]
    refused: Payload = method.federation.call("hand_over", {}).failed  # type: ignore[assignment]
    assert all("stays with it" in one.message for one in refused.values())


def test_differential_privacy_is_refused(small_clients: list[ClientGraph], out: Path) -> None:
    with pytest.raises(UserError, match="the choice of each client's own model"):
        autofgl.run("auto", small_clients, dp=8, secure="shares", out=out)


def test_recipes_that_diverge_do_not_matter(small_clients: list[ClientGraph]) -> None:
    method = make("auto", small_clients, **{**TINY, "tune": 0, "trials": 0})
    method.setup()
    race = method._selection.race
    race.entries[2].recipe = f"{FEDAVG}; lr=1e30"
    to_the_end(method)
    assert race.entries[2].ending in ("diverged", "pruned")
    assert np.isfinite(method.finish().extra["choice"]["loss"])
