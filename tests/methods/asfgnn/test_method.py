"""ASFGNN: trials, lost clients, kills, budgets."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl.errors import AutoFGLError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.asfgnn.method import ASFGNN
from federations import make, parties, rounds, to_the_end

#: Few genes and small networks; the Gaussian process begins with the third trial.
SMALL: dict[str, Any] = {
    "trials": 3, "trial_rounds": 3, "rounds": 4, "startup": 2, "hidden": 8, "joint": False,
    "tune_hidden": "", "tune_dropout": "", "tune_weight_decay": "",
}  # fmt: skip
CHANCE = {**SMALL, "searcher": "random"}


def test_the_best_trial_is_trained_and_its_score_was_right(
    small_clients: list[ClientGraph], out: Path
) -> None:
    result = autofgl.run("asfgnn", small_clients, out=out, **SMALL)
    assert result.figures["secure"] == "shares"
    ends = [row for row in result.history if "score" in row]
    assert [row["trial"] for row in ends] == [1, 2, 3]
    for row in ends:
        own = [r for r in result.history if r.get("trial") == row["trial"]]
        assert len(own) == 3
        assert row["score"] >= max(r["mean_val_accuracy"] for r in own) - 1e-9
        assert row["test_accuracy"] is None
    best = max(ends, key=lambda row: row["score"])
    assert result.figures["best_score"] == best["score"]
    hyper = result.figures["client_hyperparameters"]
    assert all(own["lr"] == best["hyper"]["lr"] for own in hyper.values())
    # The training repeats the trial, and goes on.
    trained = [row for row in result.history if row["phase"] == "train"]
    losses = [row["train_loss"] for row in result.history if row.get("trial") == best["trial"]]
    assert [row["train_loss"] for row in trained][:3] == pytest.approx(losses, rel=1e-5)
    with sqlite3.connect(out / "study.db") as study:
        states = study.execute("select state from trials").fetchall()
    study.close()
    assert [state for (state,) in states] == ["COMPLETE"] * 3


@pytest.mark.slow
def test_a_killed_run_goes_on_with_its_trials(
    small_clients: list[ClientGraph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = autofgl.run("asfgnn", small_clients, out=tmp_path / "whole", **SMALL)
    step = ASFGNN.step

    def dies(self: ASFGNN) -> Any:
        if self.round == 7:  # in the third trial; the last checkpoint is that after the second
            raise KeyboardInterrupt
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(ASFGNN, "step", dies)
        with pytest.raises(KeyboardInterrupt):
            autofgl.run("asfgnn", small_clients, out=tmp_path / "cut", **SMALL)
    made: list[int] = []
    monkeypatch.setattr(ASFGNN, "step", lambda self: made.append(self.round + 1) or step(self))
    resumed = autofgl.resume(tmp_path / "cut", small_clients)
    assert made[0] == 7, "two trials of three rounds are not repeated"
    assert resumed.test_accuracy == expected.test_accuracy
    assert resumed.figures["top"] == expected.figures["top"]
    assert resumed.figures["trials"] == 3
    with sqlite3.connect(tmp_path / "cut" / "study.db") as study:
        assert study.execute("select count(*) from trials").fetchall() == [(3,)]
    study.close()


def test_a_trial_whose_client_is_lost_has_failed_and_the_study_goes_on(
    small_clients: list[ClientGraph],
) -> None:
    method = make("asfgnn", small_clients, secure="shares", secure_threshold=2, **CHANCE)
    rounds(method, 1)
    method.federation.drop("client-1")
    row = method.step()
    assert (row["trial_ended"], row["score"]) == ("failed", None)
    to_the_end(method)
    outcome = method.finish()
    assert outcome.extra["trials"] == 3
    assert outcome.extra["failed_trials"] == 1
    assert [one["failed"] for one in outcome.extra["top"]] == [False, False]
    assert set(outcome.extra["client_hyperparameters"]) == {"client-0", "client-2"}


def test_if_no_trial_comes_to_anything_the_run_says_so(small_clients: list[ClientGraph]) -> None:
    method = make("asfgnn", small_clients, **{**CHANCE, "tune_lr": "1e30"})
    rows = rounds(method, 6)  # each is seen to have diverged in its second round
    assert [row.get("trial_ended") for row in rows] == [None, "diverged"] * 3
    with pytest.raises(AutoFGLError, match="none of the 3 trials has a result: all diverged"):
        method.step()


def test_the_budget_ends_the_search_and_the_best_is_trained(
    small_clients: list[ClientGraph],
) -> None:
    method = make("asfgnn", small_clients, **{**CHANCE, "trials": 50})
    rounds(method, 5)
    method.wrap_up()
    to_the_end(method)
    assert method.round == 5 + 4
    assert method.rounds == 9
    assert method.finish().extra["trials"] == 1


def test_a_grid_that_is_used_up_ends_the_search(small_clients: list[ClientGraph]) -> None:
    grid = {**SMALL, "searcher": "grid", "trials": 50, "tune_layers": "1,2", "tune_lr": "0.01"}
    method = make("asfgnn", small_clients, **grid)
    method.setup()
    to_the_end(method)
    assert method.finish().extra["trials"] == 2
    assert method.round == 2 * 3 + 4


@pytest.mark.slow
def test_hopeless_trials_are_ended_early(small_clients: list[ClientGraph]) -> None:
    pruned = {
        **CHANCE, "trials": 8, "trial_rounds": 14, "startup": 2, "pruning": True,
        "tune_lr": "1e-5..0.1 log",
    }  # fmt: skip
    method = make("asfgnn", small_clients, **pruned)
    method.setup()
    rows = to_the_end(method)
    ends = [row for row in rows if row.get("trial_ended") == "pruned"]
    outcome = method.finish()
    assert outcome.extra["pruned_trials"] == len(ends) > 0
    assert all(row["trial_round"] >= 10 for row in ends)
    assert outcome.extra["search_rounds"] < 8 * 14


#: Each client tunes its own rate, and all of them vote for the width.
LOCAL = {**SMALL, "searcher": "local", "joint": True, "trials": 4, "tune_hidden": "4,8"}


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_clients_that_tune_at_home_tell_no_hyperparameters_before_the_end(
    small_clients: list[ClientGraph], secure: str
) -> None:
    seen: list[Any] = []
    method = make(
        "asfgnn", small_clients, secure=secure, observer=lambda *call: seen.append(call), **LOCAL
    )
    method.setup()
    rows = to_the_end(method)
    homes = parties(method)
    own = {name: party.trainings.recipe["settings"] for name, party in homes.items()}
    rates = {one["lr"] for one in own.values()}
    assert len(rates) > 1
    assert len({one["hidden"] for one in own.values()}) == 1
    drawn = [str(rate) for rate in rates if 5e-4 < rate < 0.02]  # ends of the range are no secret
    assert seen
    assert drawn
    assert not any(rate in str(call) for rate in drawn for call in seen)
    ends = [row for row in rows if "score" in row]
    assert [sorted(row["hyper"]) for row in ends] == [["hidden", "trial"]] * 4
    best = max(ends, key=lambda row: row["score"])["trial"]
    for name, party in homes.items():
        assert party._tried[str(best)].items() <= own[name].items()
    told = method.finish().extra["client_hyperparameters"]
    assert {name: one["lr"] for name, one in told.items()} == {
        name: one["lr"] for name, one in own.items()
    }


def test_the_last_trial_repeats_what_was_best_for_each_client(
    small_clients: list[ClientGraph],
) -> None:
    settings = {**LOCAL, "tune_hidden": "", "common": True, "common_layers": 1}
    method = make("asfgnn", small_clients, **settings)
    method.setup()
    to_the_end(method)
    for party in parties(method).values():
        tried = party._part._tried
        assert len(tried) == 3, "of the last trial nothing is told"
        assert party._tried["4"] == min(tried, key=lambda one: one["loss"])["candidate"]


def test_who_tunes_at_home_has_no_figure_of_privacy() -> None:
    assert ASFGNN.Settings(**LOCAL).releases is None
    assert ASFGNN.Settings(**{**LOCAL, "searcher": "bayes"}).releases is not None
