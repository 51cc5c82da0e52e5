"""What a chromosome means, and how it is judged."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import autofgl
from autofgl.errors import AutoFGLError, UserError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Configurations
from autofgl.methods.graphfl.configurator import Configurator, weight_left, weights_by_shape
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.slices import Shape, take
from autofgl.methods.graphfl.vicinity import measure, reach
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import ModelSpec
from autofgl.runtime.settings import model_spec
from autofgl.search.genetic import Genetic, RandomChromosomes
from autofgl.search.searcher import SearchError
from autofgl.seeding import torch_generator
from autofgl.sharing.meta.model import MetaModel, unseen

QUICK: dict[str, Any] = {"population": 4, "iterations": 2, "inner_steps": 2, "adapt_steps": 2}
QUICK |= {"hidden": 8, "dropout": 0.0, "measure": "accuracy", "structure_after": 0}
QUICK |= {"structure_margin": 0.0}


def space(**settings: Any) -> Configurations:
    checked = GraphFLGASettings(**settings)
    own = {"hidden": checked.hidden, "layers": checked.layers, "hops": checked.hops or None}
    return Configurations(ModelSpec(checked.model, 30, 4, dropout=checked.dropout, **own), checked)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model": "gcn", "layers": 4, "hidden": 10, "dropout": 0.33},
        {"model": "appnp", "hops": 7, "inner_lr": 5.0, "lr": 1e-5, "support": 3, "query": 7},
        {"inner_steps": 0, "tasks": 9, "hidden": 1},
        {"evolve_structure": False, "model": "sage"},
    ],
)
def test_the_environment_is_of_the_space_and_means_itself(settings: dict[str, Any]) -> None:
    found = space(**settings)
    own = {gene.name: found.environment[gene.name] for gene in found.genes.genes}
    assert found.genes.check(own) == own
    environment = GraphFLGASettings(**settings)
    assert found.settings_of(own) == environment
    spec = found.spec_of(own)
    assert (spec.family, spec.hidden, spec.dropout) == (
        environment.model, environment.hidden, environment.dropout,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(50):
        drawn = found.genes.draw(rng)
        assert found.shape_of(drawn) in found.shapes
        network = build_network(found.spec_of(drawn), torch_generator(0, "x"))
        parts = found.parts_of(drawn)
        weights = {name: tuple(value.shape) for name, value in network.named_parameters()}
        assert {name: part.sizes for name, part in parts.items()} == weights
        assert all(part.block in found.sizes for part in parts.values())


def test_genes_that_are_not_read_make_no_difference() -> None:
    found = space(families="sgc,gcn,appnp", deepest=3)
    own = found.environment
    key = found.genes.key
    assert key({**own, "hidden": 16, "activation": "elu", "layers": 3}) == key(own)
    other = {**own, "model": "appnp"}
    assert key({**other, "hops": 3}) != key(other)
    one = space(model="appnp", layers=1)
    assert one.genes.key({**one.environment, "hidden": 32}) == one.genes.key(one.environment)
    deep = {**own, "model": "gcn", "layers": 2}
    assert key({**deep, "hops": 5}) == key(deep)
    assert key({**deep, "hidden": 32}) != key(deep)
    assert key({**own, "inner_lr": 0.3}) != key(own)


def test_shapes_and_blocks() -> None:
    found = space(families="sgc,gcn", hidden=8, deepest=3)
    assert set(found.shapes) == {
        Shape("sgc", 1, 8),
        *(Shape("gcn", layers, hidden) for layers in (2, 3) for hidden in (2, 4, 8)),
    }  # fmt: skip
    assert Shape("gcn", 1, 8) in space(model="gcn", layers=1, hidden=8).shapes
    assert found.sizes["gcn/hidden.0.lin.weight"] == (30, 8)
    assert found.sizes["gcn/hidden.1.lin.weight"] == (8, 8)
    assert found.sizes["gcn/out.2.lin.weight"] == (8, 4)
    assert found.sizes["sgc/out.0.lin.weight"] == (30, 4)
    whole = found.initial(3)
    assert {name: value.shape for name, value in whole.items()} == found.sizes
    fixed = space(evolve_structure=False, model="gcn")
    assert fixed.shapes == (Shape("gcn", 2, 64),)


@pytest.mark.parametrize("model", ["sgc", "gcn", "sage", "appnp"])
def test_the_environment_begins_as_in_graphfl(model: str) -> None:
    found = space(model=model)
    expected = build_network(found.spec_of(found.environment), torch_generator(3, "weights"))
    weights = take(found.initial(3), found.parts_of(found.environment))
    for name, value in expected.state_dict().items():
        assert np.array_equal(weights[name], value.numpy())


@pytest.mark.parametrize("settings", [{"model": "gat"}, {"families": "sgc,arma"}, {"mode": "x"}])
def test_wrong_settings(settings: dict[str, Any]) -> None:
    with pytest.raises((UserError, ValueError)):
        GraphFLGASettings(**settings)


def configurator(client: ClientGraph, **settings: Any) -> Configurator:
    return Configurator(client, GraphFLGASettings(**{**QUICK, **settings}), seed=0)


def full_stakes(search: Configurator) -> list[float]:
    """Of a client that is alone with whatever it trains."""
    return [1.0] * len(search.space.shapes)


def test_each_optimiser_has_a_rate_of_its_own() -> None:
    found = space(optimizer="adam", lr=0.02, optimizers="adam,sgd")
    own = found.environment
    assert own["adam_lr"] == 0.02
    assert own["sgd_lr"] == pytest.approx(1.0), "the middle of its range"
    descends = {**own, "optimizer": "sgd", "sgd_lr": 4.0, "adam_lr": 0.1}
    settings = found.settings_of(descends)
    assert (settings.optimizer, settings.lr) == ("sgd", 4.0)
    assert found.full(descends) == {**descends, "adam_lr": 0.02}, "a rate that is not read"
    assert found.settings_of(own).lr == 0.02
    with pytest.raises(SearchError, match=r"'sgd_lr' is 0\.02"):
        found.genes.check({**own, "sgd_lr": 0.02})
    names = {gene.name for gene in space(optimizers="sgd").genes.genes}
    assert "sgd_lr" in names
    assert "adam_lr" not in names
    with pytest.raises(UserError, match="unknown optimizer 'rmsprop'"):
        GraphFLGASettings(optimizers="sgd,rmsprop")


@pytest.mark.parametrize(
    "genes",
    [
        {},
        {"model": "gcn", "layers": 2, "hidden": 4, "activation": "tanh"},
        {"model": "appnp", "layers": 2, "hops": 2},
    ],
)
def test_a_trial_is_a_round_on_the_whole_graph(
    small_clients: list[ClientGraph], genes: dict[str, Any]
) -> None:
    """By hand with the client's own model: train, adapt, count right validation nodes."""
    client = small_clients[1]
    search = configurator(client)
    chromosome = {**search.space.environment, "inner_lr": 0.4, "sgd_lr": 2.0, **genes}
    whole = search.space.initial(0)
    value, trained = search.trial(chromosome, 3, whole, 1.0)
    spec = search.space.spec_of(chromosome)
    model = MetaModel(client, spec, search.space.settings_of(chromosome), 0)
    model.load_weights(take(whole, search.space.parts_of(chromosome)))
    model.learn(3)
    assert trained is not None
    for name, weights in trained.weights().items():
        np.testing.assert_allclose(weights, model.weights()[name], atol=2e-5)
    ways = [model.evaluate().reshape(3, 3)[1], model.evaluate_adapted().reshape(3, 3)[1]]
    (loss, right, count), (other_loss, other_right, _) = ways
    mean = (right + other_right) / 2 / count
    assert value == pytest.approx(-mean + 1e-4 * (loss + other_loss) / 2 / count, abs=1e-6)
    for fitness, (loss, right, count) in zip(("trained", "adapted"), ways, strict=True):
        value, _ = configurator(client, fitness=fitness).trial(
            chromosome, 3, whole, 1.0
        )  # fmt: skip
        assert value == pytest.approx(-right / count + 1e-4 * loss / count, abs=1e-6)
    assert reach(spec) == {"sgc": 2, "gcn": 2, "appnp": 2}[spec.family]


def test_a_search_sees_neither_test_nodes_nor_unseen_classes(small_graph: ClientGraph) -> None:
    client = autofgl.partition(small_graph, clients=3, method="random", seed=0)[0]
    whole = configurator(client).space.initial(0)

    def found(graph: ClientGraph, **settings: Any) -> Any:
        search = configurator(graph, **settings)
        winner = search.evolve(1, whole, full_stakes(search))
        return winner.chromosome, winner.loss

    def relabelled(nodes: Any) -> ClientGraph:
        return replace(client, y=np.where(nodes, (client.y + 1) % client.classes, client.y))

    assert found(client) == found(relabelled(client.test_mask))
    assert found(client) != found(relabelled(client.val_mask))
    gone = unseen(client.classes, 1, 0)
    hidden = np.isin(client.y, gone)
    train, val = client.train_mask & ~hidden, client.val_mask & ~hidden
    assert train.sum() < client.train_mask.sum()
    assert val.sum() < client.val_mask.sum()
    blank = replace(client, y=np.where(hidden, -1, client.y), train_mask=train, val_mask=val)
    assert found(client, unseen_classes=1) == found(blank, unseen_classes=1)
    other = int(np.setdiff1d(np.arange(client.classes), gone)[0])
    shown = replace(client, y=np.where(hidden, other, client.y))
    assert found(client, unseen_classes=1) != found(shown, unseen_classes=1)


def test_a_search_goes_on_from_the_last_population(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0])
    whole = search.space.initial(0)
    search.evolve(1, whole, full_stakes(search))
    last = search.population_state()["population"]
    asked: list[Any] = []
    trial = search.trial
    search.trial = lambda *args: (asked.append(args[0]), trial(*args))[1]  # type: ignore[method-assign]
    second = search.evolve(2, whole, full_stakes(search))
    assert asked[:3] == last[:3], "the last population is measure again"
    home = search.space.shape_of(search.space.environment)
    assert home in map(search.space.shape_of, asked[:4]), "with a network like the environment's"
    assert second.trials == len(asked)
    assert len({search.space.genes.key(one) for one in asked}) == len(asked), "each is tried once"


def test_the_best_trained_network_is_kept(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0])
    whole = search.space.initial(0)
    winner = search.evolve(1, whole, full_stakes(search))
    value, model = search.trial(winner.chromosome, 1, whole, 1.0)
    assert model is not None
    assert winner.loss == value
    for name, weights in model.state()["weights"].items():
        assert np.array_equal(winner.trained["weights"][name], weights)


def test_the_first_population_has_the_environment_unless_told(
    small_clients: list[ClientGraph],
) -> None:
    def first(**settings: Any) -> list[Any]:
        search = configurator(small_clients[0], iterations=1, **settings)
        search.evolve(1, search.space.initial(0), full_stakes(search))
        return list(search.population_state()["population"])

    own = configurator(small_clients[0]).space.environment
    assert own in first()
    assert own not in first(environment=False)


def test_random_search_tries_as_many_and_draws_them(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0], searcher="random", iterations=4, retention=0.5)
    winner = search.evolve(1, search.space.initial(0), full_stakes(search))
    assert 4 + 3 <= winner.trials <= 4 + 3 * 2
    genes = search.space.genes
    bred = RandomChromosomes(genes, np.random.default_rng(0), 6)
    drawn = Genetic(genes, np.random.default_rng(0), 6)
    for one in (bred, drawn):
        one.tell(one.ask(), np.arange(6.0))
    kept = [one["inner_lr"] for one in drawn.population]
    assert all(child["inner_lr"] not in kept for child in bred.ask()), "a continuum has no repeats"
    assert sum(child["inner_lr"] in kept for child in drawn.ask()) >= 2, "children inherit"


def test_time_may_count(small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("autofgl.methods.configurator.time.perf_counter", lambda: next(clock))
    free, dear = configurator(small_clients[0]), configurator(small_clients[0], time_weight=0.5)
    own, whole = free.space.environment, free.space.initial(0)
    assert dear.trial(own, 1, whole, 1.0)[0] == pytest.approx(
        free.trial(own, 1, whole, 1.0)[0] + 0.5
    )


def test_another_shape_must_be_better_by_more_than_chance(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    free, bound = configurator(client), configurator(client, structure_margin=2.0)
    own, whole = free.space.environment, free.space.initial(0)
    for other, moves in (({"sgd_lr": 0.5}, False), ({"hops": 1}, False), ({"model": "gcn"}, True)):
        chromosome = {**own, **other}
        toll = 2 * 0.5 / np.sqrt(client.val_mask.sum()) if moves else 0.0
        losses = [one.trial(chromosome, 1, whole, 1.0)[0] for one in (free, bound)]
        assert losses[1] == pytest.approx(losses[0] + toll)
    stays = configurator(client, structure_margin=1e3)
    found = stays.evolve(1, whole, full_stakes(stays)).chromosome
    assert stays.space.shape_of(found) == stays.space.shape_of(own)


def test_diverging_chromosomes_lose(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    broken = replace(client, x=np.full(client.x.shape, np.nan, "f4"))
    search = configurator(broken)
    assert search.trial(search.space.environment, 1, search.space.initial(0), 1.0) == (
        np.inf,
        None,
    )
    with pytest.raises(AutoFGLError, match="client-0: all configurations diverge"):
        search.evolve(1, search.space.initial(0), full_stakes(search))


def test_activations_differ(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    data = client.to_pyg()
    outputs = []
    for activation in ("relu", "tanh", "elu"):
        spec = replace(model_spec(client, GraphFLGASettings(model="gcn")), activation=activation)
        outputs.append(build_network(spec, torch_generator(0, "x")).eval()(data.x, data.edge_index))
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    with pytest.raises(UserError, match="unknown activation"):
        replace(spec, activation="relo")


def test_moments_are_kept_by_shape_and_optimiser(small_clients: list[ClientGraph]) -> None:
    both = {"optimizer": "adam", "lr": 0.01, "optimizers": "adam,sgd"}
    search = configurator(small_clients[0], **both)
    own, whole = {**search.space.environment, "adam_lr": 0.05}, search.space.initial(0)
    fresh = search.trial(own, 2, whole, 1.0)[1]
    model = search.trial(own, 1, whole, 1.0)[1]
    assert fresh is not None
    assert model is not None
    search.remember(own, model)
    later = search.trial({**own, "inner_lr": 0.1, "hops": 2}, 2, whole, 1.0)[1]
    assert later is not None
    assert int(later.state()["moments"]["0"]["step"]) == 2
    assert not np.array_equal(
        later.weights()["convs.0.lin.weight"], fresh.weights()["convs.0.lin.weight"]
    )
    for other in ({"model": "gcn"}, {"optimizer": "sgd"}):
        trained = search.trial({**own, **other}, 2, whole, 1.0)[1]
        assert trained is not None
        assert int(trained.state()["moments"].get("0", {}).get("step", 1)) == 1
    copy = configurator(small_clients[0], **both)
    copy.load_state(decode(encode(search.state())))
    again = copy.trial({**own, "inner_lr": 0.1, "hops": 2}, 2, whole, 1.0)[1]
    assert again is not None
    for name, value in later.weights().items():
        assert np.array_equal(again.weights()[name], value)


def test_a_trial_is_judged_as_it_moves_the_average(small_clients: list[ClientGraph]) -> None:
    """With a stake of 0.3: 0.7 of the weights before and 0.3 of the trained ones."""
    client = small_clients[1]
    search = configurator(client, fitness="trained")
    chromosome = {**search.space.environment, "sgd_lr": 5.0}
    whole, parts = search.space.initial(0), search.space.parts_of(chromosome)
    _, trained = search.trial(chromosome, 3, whole, 1.0)
    assert trained is not None
    weights = trained.weights()
    value, kept = search.trial(chromosome, 3, whole, 0.3)
    assert kept is not None
    model = MetaModel(client, search.space.spec_of(chromosome), GraphFLGASettings(**QUICK), 0)
    before = take(whole, parts)
    model.load_weights({name: 0.7 * before[name] + 0.3 * weights[name] for name in before})
    loss, right, count = model.evaluate().reshape(3, 3)[1]
    assert value == pytest.approx(-right / count + 1e-4 * loss / count, abs=1e-6)
    assert all(np.array_equal(kept.weights()[name], weights[name]) for name in weights)
    assert weight_left(1 / 9) == pytest.approx(1 / 3)
    assert weight_left(1.5) == 1, "more clients than usual failed"


def test_a_client_has_more_to_say_where_fewer_train_the_shape() -> None:
    """A quarter of the nodes, in a half that trains the first shape; none train the last."""
    stakes = weights_by_shape(0.25, [0.5, 0.5, 0.0], own=0)
    assert stakes == pytest.approx([0.5**0.5, (1 / 3) ** 0.5, 1.0])
    assert weights_by_shape(0.25, [1.0, 0.0], own=0) == pytest.approx([0.5, 1.0])
    assert weights_by_shape(0.5, [0.25, 0.75], own=0)[0] == 1, "it was not in the last average"
    assert weights_by_shape(0.0, [1.0, 0.0], own=0) == [0.0, 0.0]


def test_the_measures_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]]))
    labels = torch.tensor([0, 1])
    assert measure("accuracy", logits, labels) == 0.5
    loss = -(np.log(0.5) + np.log(0.3)) / 2
    assert measure("score", logits, labels) == pytest.approx((0.5 + 1 - loss / np.log(3)) / 2)
    guess = measure("score", torch.zeros(2, 3), torch.tensor([1, 2]))
    assert guess == pytest.approx(0, abs=1e-6)


def test_shapes_wait_until_there_is_something_to_beat(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0], structure_after=2, iterations=3)
    whole, shapes = search.space.initial(0), []
    trial = search.trial
    for at in (1, 2, 3):
        tried: list[Any] = []
        search.trial = lambda *args: (tried.append(args[0]), trial(*args))[1]  # type: ignore[method-assign]  # noqa: B023
        winner = search.evolve(at, whole, full_stakes(search))
        assert winner.chromosome in tried
        shapes.append({search.space.shape_of(one) for one in tried})
    assert shapes[0] == shapes[1] == {Shape("sgc", 1, 8)}
    assert shapes[2] - shapes[0], "the genes were there all the time"
