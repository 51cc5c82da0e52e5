"""Networks on trial, then the training of the best, with the searchers of FL-Random and FL-RL."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import autofgl
from autofgl.errors import AutoFGLError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import CandidateSettings
from autofgl.runtime.local_model import LocalModel, Weights
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.race import calibrate
from autofgl.runtime.recipe import Recipe
from autofgl.secure import MODES
from autofgl.sharing.common import COMMON
from families import family
from federations import leaves, make, to_the_end

SMALL: dict[str, Any] = {
    "candidates": 3, "candidate_rounds": 3, "layers": 2, "hidden": 8, "rounds": 5, "finalists": 1,
    "tune": 0, "inits": 1, "compress": "none",
}  # fmt: skip
TRIALS = ["fl-random", "fl-rl"]


def search(name: str, clients: list[ClientGraph], count: int, **settings: Any) -> Any:
    """A method after so many rounds, and the rows."""
    method = make(name, clients, **{**SMALL, **settings})
    method.setup()
    return method, [method.step() for _ in range(count)]


class Averaging(SharedTraining):
    """Federated averaging of a network of the search space."""

    Settings = CandidateSettings
    ways: ClassVar = {"common": COMMON}


def trained_by_hand(clients: list[ClientGraph], recipe: str, **settings: Any) -> Any:
    """Federated averaging that is over, with rounds compared as in a search."""
    method = make(Averaging, clients, **settings)
    method.training = calibrate(method.engine(Recipe.parse(recipe)))
    method.training.start(Recipe.parse(recipe))
    to_the_end(method)
    return method


@pytest.mark.parametrize(
    ("fitness", "aggregate"), [("accuracy", "gradients"), ("loss", "parameters")]
)
def test_the_searcher_is_told_what_plain_federated_training_comes_to(
    small_clients: list[ClientGraph], fitness: str, aggregate: str
) -> None:
    """The best round's figure, whatever the other candidates did; patience ends no trial. The last
    average is evaluated when the training goes on.
    """
    same: dict[str, Any] = {"fitness": fitness, "aggregate": aggregate, "lr": 0.3}
    same["compress"] = "none"
    method, _ = search("fl-random", small_clients, 0, **same, patience=1, select=fitness)
    told: list[float] = []
    tell = method.searcher.tell
    method.searcher.tell = lambda codes, losses: (told.extend(losses), tell(codes, losses))
    rows = [method.step() for _ in range(6)]
    ended = [row for row in rows if "score" in row]
    assert [(row["candidate"], row["candidate_round"]) for row in ended] == [(1, 3), (2, 3)]
    assert ended[0]["score"] != ended[1]["score"]
    for row, score in zip(ended, told, strict=True):
        plain = trained_by_hand(
            small_clients, row["code"], layers=2, hidden=8, rounds=3, select=fitness, **same
        )
        best = plain.training.best
        expected = best.loss if fitness == "loss" else 1 - best.accuracy + 1e-6 * best.loss
        assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", TRIALS)
def test_the_finalists_are_the_best_by_score(small_clients: list[ClientGraph], name: str) -> None:
    method, rows = search(name, small_clients, 15, candidates=5, finalists=2)
    by_score = sorted((row["score"], row["code"]) for row in rows if "score" in row)
    rows += to_the_end(method)
    outcome = method.finish()
    finalists = {one["genotype"] for one in outcome.extra["finalists"]}
    assert finalists == {code for _, code in by_score[:2]}
    assert [one["genotype"] for one in outcome.extra["top"]] == [code for _, code in by_score]
    assert outcome.extra["best_score"] == by_score[0][0]
    assert outcome.extra["candidates"] == 5
    assert outcome.extra["diverged"] == 0
    assert rows[14]["best_code"] == by_score[0][1]
    assert [row["phase"] for row in rows] == ["search"] * 15 + ["train"] * (2 * 2), (
        "each goes on where its trial ended"
    )
    assert len(rows) == method.round == method.rounds


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_the_network_is_that_of_plain_federated_training(
    small_clients: list[ClientGraph], secure: str
) -> None:
    """From a trial over other settings to the end: as if it had been trained alone."""
    about = {"tune": 3, "finalists": 2, "inits": 2, "secure": secure}
    method, _ = search("fl-random", small_clients, 0, **about)
    rows = to_the_end(method)
    outcome = method.finish()
    phases = [row["phase"] for row in rows]
    bracket = 3 + 2 + 1  # three recipes, rungs after 1, 2 and 3 rounds
    assert phases[: 9 + bracket] == ["search"] * 9 + ["trial"] * bracket
    assert set(phases[9 + bracket :]) == {"train"}
    told = outcome.extra
    recipe = Recipe.parse(told["recipe"])
    init = {"init": told["init"]} if told["init"] else {}
    recipe = recipe.model_copy(update={"settings": {**recipe.settings, **init}})
    same = {"layers": 2, "hidden": 8, "rounds": 5, "secure": secure, "compress": "none"}
    plain = trained_by_hand(small_clients, str(recipe), **same).finish()
    assert outcome.test_accuracy == plain.test_accuracy
    for key, value in plain.models["model"].items():
        assert np.array_equal(outcome.models["model"][key], value)
    assert outcome.parameters == plain.parameters
    assert outcome.features == recipe.settings.get("normalize_features", "unit")


def test_a_spent_budget_keeps_the_best_so_far(small_clients: list[ClientGraph]) -> None:
    method, rows = search("fl-random", small_clients, 5, finalists=2)
    method.wrap_up()
    assert to_the_end(method) == []
    extra = method.finish().extra
    best = min((row["best_score"], row["best_code"]) for row in rows)[1]
    assert [one["genotype"] for one in extra["finalists"]] == [best]
    assert extra["candidates"] == 2
    assert [one["rounds"] for one in extra["top"]] in ([3, 2], [2, 3])
    assert method.round == method.rounds == 5


def test_the_first_candidate_is_trained_in_any_case(small_clients: list[ClientGraph]) -> None:
    method, _ = search("fl-random", small_clients, 0)
    method.wrap_up()
    assert [row["phase"] for row in to_the_end(method)] == ["search"] * 3 + ["train"] * 2
    assert method.finish().extra["candidates"] == 1


def test_a_budget_has_time_for_other_settings_and_for_the_finals(
    small_clients: list[ClientGraph],
) -> None:
    method, _ = search("fl-random", small_clients, 4, candidates=10**6, tune=8)
    assert not method.pace(0.5)
    assert method.step()["phase"] == "search"
    assert method.pace(0.6)
    assert not method.pace(0.6), "that was no news"
    assert method.step()["phase"] == "search", "the candidate that is tried now"
    assert [method.step()["phase"] for _ in range(2)] == ["trial", "trial"]
    assert method.pace(0.8)
    assert method.step()["phase"] == "train"
    assert not method.pace(0.9)
    to_the_end(method)
    assert method.round == method.rounds


def test_a_run_keeps_its_budget(small_clients: list[ClientGraph], out: Path) -> None:
    settings = {**SMALL, "candidates": 10**6}
    result = autofgl.run("fl-random", small_clients, out=out, budget="1s", **settings)
    assert 1 <= result.figures["candidates"] < 10**6
    phases = [row["phase"] for row in result.history]
    assert phases == ["search"] * phases.count("search") + ["train"] * phases.count("train")
    assert result.figures["test_accuracy"] > 0


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_diverged_candidate_is_worst(small_clients: list[ClientGraph], secure: str) -> None:
    """This learning rate is too much for some networks and others bear it."""
    method, _ = search("fl-random", small_clients, 0, candidates=6, lr=1e20, secure=secure)
    rows = to_the_end(method)
    ended = [row for row in rows if "diverged" in row]
    diverged = [row for row in ended if row["diverged"]]
    assert len(ended) == 6
    assert 1 <= len(diverged) <= 5
    assert all(row["score"] is None for row in diverged)
    assert min(row["candidate_round"] for row in diverged) < 3, "it is not trained any further"
    extra = method.finish().extra
    assert extra["diverged"] == len(diverged)
    lost = {row["code"] for row in diverged}
    assert not lost & {one["genotype"] for one in extra["top"] + extra["finalists"]}
    assert method.round == method.rounds


@pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
def test_one_client_is_enough_to_diverge(
    small_clients: list[ClientGraph], aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, rows = search("fl-rl", small_clients, 4)
    bad = rows[3]["code"]
    gradient, train = LocalModel.gradient, LocalModel.train

    def broken(model: LocalModel) -> bool:
        return model.name == "client-1" and getattr(model.spec, "genotype", "") == bad

    def broken_gradient(model: LocalModel, at: int) -> Weights:
        found = gradient(model, at)
        return {key: value * np.nan for key, value in found.items()} if broken(model) else found

    def broken_train(model: LocalModel, epochs: int, at: int, *about: Any) -> None:
        train(model, epochs, at, *about)
        if broken(model):
            model.load_weights({key: value * np.nan for key, value in model.weights().items()})

    monkeypatch.setattr(LocalModel, "gradient", broken_gradient)
    monkeypatch.setattr(LocalModel, "train", broken_train)
    method, _ = search("fl-rl", small_clients, 0, aggregate=aggregate)
    rows = to_the_end(method)
    ended = {row["code"]: row for row in rows if "diverged" in row}
    assert [code for code, row in ended.items() if row["diverged"]] == [bad]
    assert ended[bad]["candidate_round"] == 2, "the round after the one that went wrong"
    rewards = method.state()["searcher"]["rewards"]
    assert rewards[1] == rewards[0], "the lowest reward so far"
    assert all(np.isfinite(row["val_loss"]) for row in rows)


def test_if_all_diverge_the_run_says_so(small_clients: list[ClientGraph]) -> None:
    method, _ = search("fl-random", small_clients, 0, candidates=2, lr=1e30)
    method.wrap_up()  # nothing to train yet, so it goes on
    with pytest.raises(AutoFGLError, match="all 2 candidates diverged: lower 'lr'"):
        to_the_end(method)


def test_test_labels_play_no_part_in_the_search(small_clients: list[ClientGraph]) -> None:
    other = [replace(c, y=np.where(c.test_mask, (c.y + 1) % 3, c.y)) for c in small_clients]
    runs = [search("fl-random", clients, 9 + 4, tune=2)[1] for clients in (small_clients, other)]
    assert runs[0] == runs[1]
    assert [row["phase"] for row in runs[0]] == ["search"] * 9 + ["trial"] * 4
    assert all(row["test_accuracy"] is None for row in runs[0])


@pytest.mark.parametrize(
    ("name", "secure"),
    family(
        [*(("fl-random", mode) for mode in MODES), ("fl-rl", "shares")],
        [("fl-random", "ckks"), ("fl-rl", "shares")],
    ),
)
def test_a_run_ends_with_a_trained_network(
    small_clients: list[ClientGraph], tmp_path: Path, name: str, secure: str
) -> None:
    runs = {
        mode: autofgl.run(name, small_clients, secure=mode, out=tmp_path / mode, **SMALL)
        for mode in {"none", secure}
    }
    plain, result = runs["none"], runs[secure]
    assert result.figures["rounds"] == 3 * 3 + 2
    assert result.figures["architecture"] == plain.figures["architecture"]
    assert [row.get("code") for row in result.history] == [row.get("code") for row in plain.history]
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (len(data.y), 3)


@pytest.mark.parametrize("every", [8, 12], ids=["third candidate", "other settings"])
def test_a_resumed_secure_run_equals_an_undisturbed_one(
    small_clients: list[ClientGraph], tmp_path: Path, every: int
) -> None:
    settings = {**SMALL, "secure": "shares", "checkpoint_every": every}
    settings |= {"tune": 3, "finalists": 2, "inits": 2}
    whole = autofgl.run("fl-rl", small_clients, out=tmp_path / "whole", **settings)
    cut = autofgl.run("fl-rl", small_clients, out=tmp_path / "cut", **settings)
    (cut.folder / "result.json").unlink()  # as if killed after the checkpoint
    resumed = autofgl.resume(cut.folder, small_clients)
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (whole, resumed)]
    assert weights[0] == weights[1]
    assert resumed.figures["top"] == whole.figures["top"]


@pytest.mark.parametrize("secure", ["none", "ckks", "shares"])
def test_the_server_sees_no_clients_losses_or_gradient(
    small_clients: list[ClientGraph], secure: str
) -> None:
    floats: list[Any] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        own = {key: value for key, value in payload.items() if key != "foretold"}  # all the same
        for value in leaves(own) if way == "up" and op != "secure" else ():
            # Steps of a grid that only the clients know stand as 1.
            number = isinstance(value, float) and value != 1.0
            if number or getattr(value, "dtype", np.dtype("i8")).kind == "f":
                floats.append((party, op))

    search("fl-random", small_clients, 4, secure=secure, observer=watch)
    seen = {("client-0", "round"), ("client-1", "round"), ("client-2", "round")}
    assert (seen <= set(floats)) == (secure == "none"), "in the clear they show, else they do not"
    assert secure == "none" or not floats


def test_a_lost_client_is_dropped(small_clients: list[ClientGraph]) -> None:
    method, _ = search("fl-random", small_clients, 2)
    method.federation.drop("client-1")
    rows = to_the_end(method)
    assert all(row["clients"] == 2 for row in rows)
