"""FL-AGCNS: a generation by hand, the search, trials and finalists, budgets."""

import json
from collections.abc import Callable
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.nn import functional

import autofgl
from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import SharedSuperNet, cost_of
from autofgl.methods.fl_agcns.controller import OPENING_SHARE
from autofgl.methods.fl_agcns.nodes import SearchNodes
from autofgl.methods.fl_agcns.portfolio import KNOWN
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, genotypes, make_space
from autofgl.nn.models.networks import build_network
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.selection import FINALS_FROM
from autofgl.runtime.variants import variants
from autofgl.search.halving import bracket_rounds
from autofgl.secure import MODES, make_client
from autofgl.sharing.common import network_spec
from families import family
from federations import leaves, make, parties, rounds, without

SMALL: dict[str, Any] = {
    "population": 8, "layers": 2, "generations": 3, "weight_steps": 2, "rounds": 10, "hidden": 8,
    "warmup": 0, "trials": 0, "finalists": 1, "inits": 1, "objectives": "loss",
}  # fmt: skip


def search(clients: list[ClientGraph], count: int, **settings: Any) -> Any:
    """A method after so many generations."""
    method = make("fl-agcns", clients, **{**SMALL, **settings})
    return method, rounds(method, count)


def test_the_federated_loss_is_the_weighted_sum_of_the_clients(
    small_clients: list[ClientGraph],
) -> None:
    """Eq. 1: FLL_a = Σ_i |val_i| / Σ_j |val_j| · L_val_i(W_a, a), at the initial weights."""
    method = make("fl-agcns", small_clients, **SMALL)
    method.setup()
    population = method.search.population
    figures = method.search.measure(population)
    settings = FLAGCNSSettings(**SMALL)
    space = make_space(settings)
    expected = np.zeros(len(population))
    total = sum(int(client.val_mask.sum()) for client in small_clients)
    for client in small_clients:
        supernet = SharedSuperNet(ClientData(client, 0), settings).network
        for row, genotype in enumerate(genotypes(space, population)):
            network = supernet.extract(genotype).eval()
            data = client.to_pyg()
            x = functional.normalize(data.x)
            scores = network(x, data.edge_index)[data.val_mask].log_softmax(1)
            loss = -scores.gather(1, data.y[data.val_mask][:, None]).sum()
            expected[row] += float(loss.detach()) / total
    assert np.allclose(figures["losses"], expected, atol=1e-5)


def test_a_weights_step_is_training_on_the_union(small_clients: list[ClientGraph]) -> None:
    """Eq. 2: the summed gradient is that of all training nodes together, over |P|."""
    settings = FLAGCNSSettings(**{**SMALL, "dropout": 0.0})
    method = make("fl-agcns", small_clients, **{**SMALL, "dropout": 0.0})
    method.setup()
    codes = method.search.population
    message = {
        "generation": 1,
        "step": 0,
        "codes": codes,
        "totals": method.search._totals,
    }
    replies = method.federation.call("weights", message).ok
    sealed = method.clients.seal("gradient-1-0", replies, "gradient")
    reader = make_client("none", name="client-0", parties=list(method.federation.parties))
    found = reader.open(sealed)
    space = make_space(settings)
    population = genotypes(space, codes)
    total = sum(int(client.train_mask.sum()) for client in small_clients)
    expected: dict[str, Any] = {}
    for client in small_clients:
        supernet = SharedSuperNet(ClientData(client, 0), settings).network
        field = SearchNodes(ClientData(client, 0), settings).train_field(1, 0)
        gradient, _ = supernet.gradient(population, field)
        share = client.train_mask.sum() / total / len(population)
        for name, value in gradient.items():
            expected[name] = expected.get(name, 0) + share * value
    assert float(found.pop("share")) == pytest.approx(1)
    assert found.keys() == expected.keys()
    assert all(np.allclose(found[name], expected[name], atol=1e-5) for name in found)


def test_all_clients_hold_the_same_supernet(
    small_clients: list[ClientGraph],
) -> None:
    method, _ = search(small_clients, 2)
    first, *others = (party._supernet.network.state_dict() for party in parties(method).values())
    for name, value in first.items():
        assert all(value.equal(other[name]) for other in others)


@pytest.mark.parametrize("optimizers", ["both", "controller", "clients"])
def test_the_population_keeps_its_size_and_has_no_repeats(
    small_clients: list[ClientGraph], optimizers: str
) -> None:
    method, rows = search(small_clients, 3, optimizers=optimizers)
    assert method.search.population.shape == (8, 6)
    assert [row["unique_codes"] for row in rows] == [8, 8, 8]
    shares = {"controller": [0.0] * 3, "clients": [1.0] * 3}
    usual = [0.5 * 0.99**t for t in (1, 2, 3)]
    assert [row["gamma"] for row in rows] == pytest.approx(shares.get(optimizers, usual))


@pytest.mark.slow
def test_the_search_gets_better(small_clients: list[ClientGraph]) -> None:
    _, rows = search(small_clients, 12, generations=12, population=16, lr=0.02)
    assert rows[-1]["best_fll"] < rows[0]["best_fll"] - 0.1


@pytest.fixture(scope="module")
def runs(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Any]:
    """A run of every secure mode, made once."""

    @cache
    def run(secure: str) -> Any:
        out = tmp_path_factory.mktemp("agcns") / secure
        settings = {**SMALL, "finalists": 2}
        return autofgl.run("fl-agcns", small_clients, secure=secure, out=out, **settings)

    return run


@pytest.mark.parametrize("secure", family(MODES, ["none", "shares"]))
def test_a_run_ends_with_a_trained_network(
    small_clients: list[ClientGraph], runs: Callable[[str], Any], secure: str
) -> None:
    result = runs(secure)
    figures = result.figures
    assert figures["rounds"] == 3 + 2 * 10
    assert len(figures["finalists"]) == 2
    best = min(figures["finalists"], key=lambda one: one["score"])
    assert figures["architecture"] == figures["recipe"] == best["genotype"]
    phases = [row["phase"] for row in result.history]
    assert phases == ["search"] * 3 + ["train"] * 20
    data = small_clients[0].to_pyg()
    assert result.model(data.x, data.edge_index).shape == (len(data.y), 3)


def test_a_secure_mode_searches_the_same_network(runs: Callable[[str], Any]) -> None:
    assert runs("shares").figures["architecture"] == runs("none").figures["architecture"]


def test_a_spent_budget_ends_the_search_and_trains_what_was_found(
    small_clients: list[ClientGraph], out: Path
) -> None:
    settings = {**SMALL, "generations": 10**6}
    result = autofgl.run("fl-agcns", small_clients, out=out, budget="1s", **settings)
    assert result.figures["stopped_by"] == "budget"
    assert result.history[-1]["phase"] == "train"
    assert sum(row["phase"] == "train" for row in result.history) == 10


@pytest.mark.parametrize("secure", ["ckks", "shares"])
def test_the_server_sees_no_clients_losses_or_gradient(
    small_clients: list[ClientGraph], secure: str
) -> None:
    arrays: list[Any] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        if way == "up" and op in ("weights", "losses"):
            arrays.extend(value for value in leaves(payload) if isinstance(value, np.ndarray))

    search(small_clients, 1, secure=secure, observer=watch)
    floats = [array for array in arrays if array.dtype.kind == "f"]
    assert not floats, "losses and gradients travel as masked integers or ciphertexts only"


def test_clients_without_validation_or_training_nodes_take_part(
    small_clients: list[ClientGraph],
) -> None:
    empty = without(small_clients[1], "train_mask", "val_mask", "test_mask")
    _, rows = search([small_clients[0], empty, small_clients[2]], 2)
    assert all(np.isfinite(row["best_fll"]) for row in rows)


def test_a_lost_client_is_dropped(small_clients: list[ClientGraph]) -> None:
    method, _ = search(small_clients, 1)
    method.federation.drop("client-1")
    assert np.isfinite(method.step()["best_fll"])


def test_bad_settings_are_named(small_clients: list[ClientGraph], out: Path) -> None:
    with pytest.raises(UserError, match="did you mean generations"):
        autofgl.run("fl-agcns", small_clients, out=out, generation=3)
    with pytest.raises(UserError, match="population=1"):
        autofgl.run("fl-agcns", small_clients, out=out, population=1)


def test_a_start_is_part_of_the_first_population(small_clients: list[ClientGraph]) -> None:
    known = ["relu | gcn<0 gat<1 | identity", "tanh | - | relu"]
    method = make("fl-agcns", small_clients, **SMALL, start="; ".join(known))
    method.setup()
    space = make_space(FLAGCNSSettings(**SMALL))
    population = [str(code) for code in genotypes(space, method.search.population)]
    assert population[:2] == known
    assert len(set(population)) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objectives": "params"}, "comes first"),
        ({"objectives": "loss,speed"}, "comes first"),
        ({"objectives": "loss,params,params"}, "once"),
        ({"start": "relu | gcn<7 | identity"}, "predecessor"),
        ({"start": "relu | gcn<0 | identity", "types": "gat,sage"}, "gcn"),
        ({"types": "gcn,gnc"}, "gnc"),
    ],
)
def test_settings_that_make_no_sense(
    small_clients: list[ClientGraph], tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        autofgl.run("fl-agcns", small_clients, out=tmp_path / "run", **{**SMALL, **settings})


def test_a_search_among_other_kinds_of_layers(small_clients: list[ClientGraph]) -> None:
    _, rows = search(small_clients, 2, types="gcn, appnp3,gat6")
    assert set(rows[-1]["operations"]) == {"appnp3", "gat6", "gcn"}


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_several_objectives_give_a_front(
    small_clients: list[ClientGraph], tmp_path: Path, secure: str
) -> None:
    result = autofgl.run(
        "fl-agcns", small_clients, secure=secure, out=tmp_path / "run",
        **{**SMALL, "population": 10, "objectives": "loss, params, latency"},
    )  # fmt: skip
    front = result.figures["front"]
    assert [set(code) for code in front] == [{"genotype", "loss", "params", "latency"}] * len(front)
    for code in front:
        network = build_network(
            network_spec(small_clients[0], FLAGCNSSettings(**SMALL), code["genotype"])
        )
        assert code["params"] == sum(value.numel() for value in network.parameters())
        assert not any(
            all(other[key] < code[key] for key in ("loss", "params", "latency")) for other in front
        )
    assert result.figures["hyperparameters"]["objectives"] == "loss,params,latency"


def test_a_front_by_accuracy_tells_accuracies(small_clients: list[ClientGraph]) -> None:
    method, _ = search(small_clients, 2, objectives="accuracy,params")
    codes = method.search.best_codes()
    front = method.search.front()
    space = method.search.space
    encoded = np.stack([space.encode(space.parse(code["genotype"])) for code in front])
    found = method.search.measure(encoded)["correct"]
    assert [code["accuracy"] for code in front] == pytest.approx(found, abs=1e-4)
    assert {code["genotype"] for code in front} & set(codes)


def test_size_as_an_objective_keeps_smaller_networks(small_clients: list[ClientGraph]) -> None:
    about = {"generations": 5, "population": 10, "known": False}  # known networks are small
    method, _ = search(small_clients, 5, **about, objectives="loss,params")
    table = method.search._tables["params"]
    space = make_space(FLAGCNSSettings(**SMALL))
    found = cost_of(table, space, method.search.population)
    plain, _ = search(small_clients, 5, **about)
    assert np.mean(found) < np.mean(cost_of(table, space, plain.search.population))


def test_bytes_by_phase_add_up(small_clients: list[ClientGraph]) -> None:
    method = make("fl-agcns", small_clients, **SMALL)
    method.setup()
    meter = method.federation.meter
    before = meter.total("up") + meter.total("down")
    row = method.step()
    phases = sum(row[f"{phase}_bytes"] for phase in ("weights", "losses", "evolve"))
    assert phases == meter.total("up") + meter.total("down") - before
    assert row["weights_bytes"] > row["losses_bytes"]


@pytest.mark.parametrize(("trials", "ends"), [(4, 2 / 3 * 0.4), (0, 2 / 3)])
def test_a_budget_leaves_time_to_evolve(
    small_clients: list[ClientGraph], trials: int, ends: float
) -> None:
    """By hand: the warm-up of 9 generations ends at two thirds of the generations' time."""
    about = {"warmup": 9, "trials": trials, "known": False}
    method = make("fl-agcns", small_clients, **{**SMALL, **about})
    method.setup()
    sampled = []
    for spent in (0.0, ends - 0.01, ends + 0.01):
        method.pace(spent)
        sampled.append(method.search.population)
        assert method.step()["phase"] == "search"
    first = np.array_equal(method.search._sample(2), sampled[2])
    assert first, "the second generation sampled its codes"
    assert not np.array_equal(method.search.population, sampled[2]), "the third evolved them"
    assert method.search.warmup == 2


RACES: dict[str, Any] = {**SMALL, "trials": 5, "trial_rounds": 4, "finalists": 2, "tune": 4}


@pytest.fixture(scope="module")
def raced(small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run with known networks, a search, races and finals."""
    out = tmp_path_factory.mktemp("agcns") / "races"
    return autofgl.run("fl-agcns", small_clients, out=out, **RACES)


def test_known_networks_race_then_the_search_then_its_networks_and_settings(raced: Any) -> None:
    phases = [
        (phase, len(list(rows))) for phase, rows in groupby(raced.history, itemgetter("phase"))
    ]
    opening = bracket_rounds(len(KNOWN), 4)
    assert phases[:2] == [("trial", opening), ("search", 3)]
    races = bracket_rounds(5, 4) + bracket_rounds(4, 4)
    assert phases[2] == ("trial", races)
    made = {
        one.get("genotype", one.get("recipe")): one["rounds"] for one in raced.figures["trials"]
    }
    finalists = [one.get("genotype", one.get("recipe")) for one in raced.figures["finalists"]]
    left = sum(10 - made[one] for one in finalists)
    assert phases[3] == ("train", left), "finalists go on where their trials ended"
    assert len(phases) == 4
    assert raced.figures["stopped_by"] == "rounds"
    assert raced.figures["rounds"] == sum(count for _, count in phases)


def test_test_nodes_play_no_part_before_the_finals(raced: Any) -> None:
    for row in raced.history:
        assert (row.get("test_accuracy") is not None) == (row["phase"] == "train")


def test_what_is_best_goes_on_wherever_it_came_from(raced: Any) -> None:
    trials, rows = raced.figures["trials"], raced.history
    recipes = list(dict.fromkeys(row["code"] for row in rows if row["phase"] == "trial"))
    assert recipes[: len(KNOWN)] == list(map(str, KNOWN))
    assert len(recipes) == len(KNOWN) + 5 + 4
    assert len(trials) == len(recipes)
    told = [one.get("genotype", one.get("recipe")) for one in trials]
    assert set(told) == set(recipes)
    scores = [one["score"] for one in trials]
    assert scores == sorted(scores)
    finalists = {one.get("genotype", one.get("recipe")) for one in raced.figures["finalists"]}
    assert told[0] in finalists
    assert len({Recipe.parse(one).network for one in finalists}) == 2, "of two networks"
    space = make_space(FLAGCNSSettings(**SMALL))
    networks = [Recipe.parse(one).network for one in recipes[len(KNOWN) :]]
    searched = {space.parse(code).shape()[1] for code in raced.figures["population"]}
    first = next(one for one in networks if "|" in one)
    assert space.parse(first).shape()[1] in searched


def test_other_settings_are_those_of_the_best_so_far(raced: Any) -> None:
    """Each recipe of the races after the search differs from an earlier one in a setting, or has
    another network.
    """
    settings = FLAGCNSSettings(**RACES)
    rows = [row for row in raced.history if row["phase"] == "trial"]
    recipes = [Recipe.parse(one) for one in dict.fromkeys(row["code"] for row in rows)]
    tuned = [
        one for at, one in enumerate(recipes) if any(
            one == variant for other in recipes[:at] for variant in variants(other, settings)
        )
    ]  # fmt: skip
    assert len(tuned) >= 4


def test_the_result_names_the_recipe_and_the_model_knows_its_scaling(
    raced: Any, small_clients: list[ClientGraph]
) -> None:
    figures = raced.figures
    recipe = Recipe.parse(figures["recipe"])
    scaling = recipe.settings.get("normalize_features", "unit")
    described = json.loads((raced.folder / "model.json").read_text())
    assert described["normalize_features"] == scaling
    spec = network_spec(small_clients[0], recipe.apply(FLAGCNSSettings(**RACES)), recipe.network)
    network = build_network(spec)
    assert figures["parameters"] == sum(value.numel() for value in network.parameters())
    data = small_clients[0].to_pyg()
    assert raced.model(data.x, data.edge_index).shape == (len(data.y), 3)


def test_a_budget_that_ends_in_the_races_keeps_the_best_so_far(
    small_clients: list[ClientGraph],
) -> None:
    about = {"trials": 4, "trial_rounds": 4, "known": False}
    method = make("fl-agcns", small_clients, **{**SMALL, **about})
    rows = rounds(method, 3 + 6)
    method.wrap_up()
    assert method.done
    outcome = method.finish()
    assert outcome.extra["recipe"] == rows[-1]["best_code"]
    assert method.round == method.rounds == 9


def test_a_budget_that_ends_in_the_opening_keeps_the_best_known_network(
    small_clients: list[ClientGraph],
) -> None:
    method = make("fl-agcns", small_clients, **RACES)
    rows = rounds(method, 7)
    method.wrap_up()
    assert method.done
    outcome = method.finish()
    assert outcome.extra["recipe"] == rows[-1]["best_code"]
    assert outcome.extra["recipe"] in map(str, KNOWN)
    assert (outcome.extra["generations"], outcome.extra["front"]) == (0, [])


def test_a_budget_that_ends_in_the_search_keeps_the_best_known_network(
    small_clients: list[ClientGraph],
) -> None:
    method = make("fl-agcns", small_clients, **RACES)
    rows = rounds(method, bracket_rounds(len(KNOWN), 4) + 2)
    assert rows[-1]["phase"] == "search"
    method.wrap_up()
    assert method.done
    outcome = method.finish()
    assert (
        outcome.extra["recipe"]
        == [row for row in rows if "best_code" in row and row["phase"] == "trial"][-1]["best_code"]
    )
    assert outcome.extra["generations"] == 2


def test_every_part_has_its_share_of_a_budget(small_clients: list[ClientGraph]) -> None:
    """Known networks, generations, races and finals."""
    method = make("fl-agcns", small_clients, **RACES)
    method.setup()
    phases = []
    for spent in (0.0, 0.1, *[OPENING_SHARE] * 4, 0.3, 0.35, 0.41, 0.5, 0.7, FINALS_FROM, 0.9):
        method.pace(spent)
        phases.append(method.step()["phase"])
    assert sum(one.rounds > 0 for one in method._selection.race.entries[: len(KNOWN)]) == 2
    assert sorted(one.rounds for one in method._selection.race.entries[:2]) == [2, 4]
    assert phases == ["trial"] * 6 + ["search"] * 2 + ["trial"] * 3 + ["train"] * 2
    assert method.search.count == 2
    plain = make("fl-agcns", small_clients, **SMALL)
    plain.setup()
    plain.pace(0.9)
    assert [plain.step()["phase"] for _ in range(4)] == ["search"] * 3 + ["train"]


def test_without_trials_the_finalists_are_those_of_shared_weights(
    small_clients: list[ClientGraph],
) -> None:
    method, _ = search(small_clients, 3, finalists=2, known=False)
    codes = method.search.best_codes()
    rows = [method.step() for _ in range(20)]
    assert [row["phase"] for row in rows] == ["train"] * 20
    assert method.done
    extra = method.finish().extra
    assert {one["genotype"] for one in extra["finalists"]} == set(codes[:2])
    assert extra["trials"] == []


def test_candidates_are_the_networks_of_the_last_population(
    small_clients: list[ClientGraph],
) -> None:
    method, _ = search(small_clients, 3, population=12)
    population, space = method.search.population, method.search.space
    losses = method.search.measure(population)["losses"]
    codes = method.search.best_codes()
    assert codes[0] == str(genotypes(space, population[[np.argmin(losses)]])[0])
    shapes = [space.parse(code).shape() for code in codes]
    assert len(set(shapes)) == len(shapes)
    assert set(shapes) == {code.shape() for code in genotypes(space, population)}


def test_candidates_of_several_objectives_begin_with_the_first_front(
    small_clients: list[ClientGraph],
) -> None:
    method, _ = search(small_clients, 3, population=12, objectives="loss,params")
    codes = method.search.best_codes()
    front = {code["genotype"] for code in method.search.front()}
    assert set(codes[: len(front)]) <= front
