"""How a client judges chromosomes, and how it searches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import autofgl
from autofgl.errors import AutoFGLError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Shape, take
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.steps import distance, weight_left, weights_by_shape
from autofgl.methods.graphfl.trials import Situation
from autofgl.methods.graphfl.vicinity import measure, reach
from autofgl.runtime.state import moments
from autofgl.search.genetic import Genetic, RandomChromosomes
from autofgl.sharing.meta.model import MetaModel, unseen
from federations import local_model

QUICK: dict[str, Any] = {"population": 4, "iterations": 2, "inner_steps": 2, "adapt_steps": 2}
QUICK |= {"hidden": 8, "dropout": 0.0, "measure": "accuracy", "structure_after": 0}
QUICK |= {"structure_margin": 0.0, "horizon": 1}
QUICK |= {"families": "sgc,gcn,appnp"}


def configurator(client: ClientGraph, **settings: Any) -> Configurator:
    return Configurator(client, GraphFLGASettings(**{**QUICK, **settings}), seed=0)


def situation(
    search: Configurator, at: int = 1, weight: float = 1.0, drift: Any = None
) -> Situation:
    """A round from the first blocks; with a weight of 1 the client is alone."""
    return Situation(at, search.space.initial(0), [weight] * len(search.space.shapes), drift)


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
    value, trained = search.trials.trial(chromosome, situation(search, 3, 1.0))
    spec = search.space.spec_of(chromosome)
    model = local_model(client, search.space.settings_of(chromosome), spec, MetaModel)
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
        other = configurator(client, fitness=fitness)
        value, _ = other.trials.trial(chromosome, situation(other, 3))
        assert value == pytest.approx(-right / count + 1e-4 * loss / count, abs=1e-6)
    assert reach(spec) == {"sgc": 2, "gcn": 2, "appnp": 2}[spec.family]


def test_a_search_sees_neither_test_nodes_nor_unseen_classes(small_graph: ClientGraph) -> None:
    client = autofgl.partition(small_graph, clients=3, method="random", seed=0)[0]

    def found(graph: ClientGraph, **settings: Any) -> Any:
        search = configurator(graph, **settings)
        winner = search.evolve(situation(search, 1))
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
    search.evolve(situation(search, 1))
    last = search.population_state()["population"]
    asked: list[Any] = []
    losses = search.trials.losses
    search.trials.losses = lambda *args: (asked.extend(args[0]), losses(*args))[1]  # type: ignore[method-assign]
    second = search.evolve(situation(search, 2))
    ways = len(search.space.propagations)  # the vote comes first
    asked = asked[ways:]
    assert asked[:3] == last[:3], "the last population is measured again"
    home = search.space.shape_of(search.space.environment)
    assert home in map(search.space.shape_of, asked[:4]), "with a network like the environment's"
    assert len({search.space.genes.key(one) for one in asked}) == len(asked), "each is tried once"
    assert len(asked) <= second.trials <= len(asked) + ways


def test_the_best_trained_network_is_kept(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0])
    winner = search.evolve(situation(search))
    value, model = search.trials.trial(winner.chromosome, situation(search, 1, 1.0))
    assert model is not None
    assert winner.loss == value
    for name, weights in model.state()["weights"].items():
        assert np.array_equal(winner.trained["weights"][name], weights)


def test_the_first_population_has_the_environment_unless_it_may_not(
    small_clients: list[ClientGraph],
) -> None:
    def first(**settings: Any) -> list[Any]:
        search = configurator(small_clients[0], iterations=1, **settings)
        search.evolve(situation(search))
        return list(search.population_state()["population"])

    space = configurator(small_clients[0]).space
    own = {gene.name: space.environment[gene.name] for gene in space.genes.genes}
    assert own in first()
    assert own not in first(environment=False)


def test_random_search_tries_as_many_and_samples_them(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0], searcher="random", iterations=4, retention=0.5)
    winner = search.evolve(situation(search))
    ways = len(search.space.propagations)  # of which the vote needs each
    assert ways + 4 <= winner.trials <= ways + 4 + 3 * 2
    genes = search.space.genes
    random = RandomChromosomes(genes, np.random.default_rng(0), 6)
    genetic = Genetic(genes, np.random.default_rng(0), 6)
    for one in (random, genetic):
        one.tell(one.ask(), np.arange(6.0))
    kept = [one["inner_lr"] for one in genetic.population]
    assert all(child["inner_lr"] not in kept for child in random.ask()), (
        "a continuum has no repeats"
    )
    assert sum(child["inner_lr"] in kept for child in genetic.ask()) >= 2, "children inherit"


def test_time_may_count(small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("autofgl.methods.graphfl.trials.time.perf_counter", lambda: next(clock))
    free, dear = configurator(small_clients[0]), configurator(small_clients[0], time_weight=0.5)
    own = free.space.environment
    losses = [one.trials.trial(own, situation(one))[0] for one in (dear, free)]
    assert losses[0] == pytest.approx(losses[1] + 0.5)


def test_another_shape_must_be_better_by_more_than_chance(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    free, bound = configurator(client), configurator(client, structure_margin=2.0)
    own = free.space.environment
    for other, moves in (({"sgd_lr": 0.5}, False), ({"hops": 1}, False), ({"model": "gcn"}, True)):
        chromosome = {**own, **other}
        penalty = 2 * 0.5 / np.sqrt(client.val_mask.sum()) if moves else 0.0
        losses = [one.trials.trial(chromosome, situation(one))[0] for one in (free, bound)]
        assert losses[1] == pytest.approx(losses[0] + penalty)
    stays = configurator(client, structure_margin=1e3)
    found = stays.evolve(situation(stays)).chromosome
    assert stays.space.shape_of(found) == stays.space.shape_of(own)


def test_diverging_chromosomes_lose(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    broken = replace(client, x=np.full(client.x.shape, np.nan, "f4"))
    search = configurator(broken)
    own = search.space.environment
    assert search.trials.trial(own, situation(search)) == (np.inf, None)
    assert search.trials.linear([own], situation(search)) == [np.inf]
    with pytest.raises(AutoFGLError, match="client-0: all configurations diverge"):
        search.evolve(situation(search))


def test_moments_are_kept_by_shape_and_optimizer(small_clients: list[ClientGraph]) -> None:
    both = {"optimizer": "adam", "lr": 0.01, "optimizers": "adam,sgd"}
    search = configurator(small_clients[0], **both)
    own = {**search.space.environment, "adam_lr": 0.05}
    fresh = search.trials.trial(own, situation(search, 2, 1.0))[1]
    model = search.trials.trial(own, situation(search, 1, 1.0))[1]
    assert fresh is not None
    assert model is not None
    search.trials.remember(own, model)
    later = search.trials.trial({**own, "inner_lr": 0.1, "hops": 2}, situation(search, 2))[1]
    assert later is not None
    assert int(moments(later._optimizer)["0"]["step"]) == 2
    assert not np.array_equal(
        later.weights()["convs.0.lin.weight"], fresh.weights()["convs.0.lin.weight"]
    )
    for other in ({"model": "gcn"}, {"optimizer": "sgd"}):
        trained = search.trials.trial({**own, **other}, situation(search, 2))[1]
        assert trained is not None
        assert int(moments(trained._optimizer).get("0", {}).get("step", 1)) == 1
    copy = configurator(small_clients[0], **both)
    copy.load_state(decode(encode(search.state())))
    again = copy.trials.trial({**own, "inner_lr": 0.1, "hops": 2}, situation(copy, 2))[1]
    assert again is not None
    for name, value in later.weights().items():
        assert np.array_equal(again.weights()[name], value)


def test_a_trial_is_judged_as_it_moves_the_average(small_clients: list[ClientGraph]) -> None:
    """With 0.3 of it left: 0.7 of the weights before and 0.3 of the trained ones."""
    client = small_clients[1]
    search = configurator(client, fitness="trained")
    chromosome = {**search.space.environment, "sgd_lr": 5.0}
    whole, parts = search.space.initial(0), search.space.parts_of(chromosome)
    _, trained = search.trials.trial(chromosome, situation(search, 3, 1.0))
    assert trained is not None
    weights = trained.weights()
    value, kept = search.trials.trial(chromosome, situation(search, 3, 0.3))
    assert kept is not None
    spec = search.space.spec_of(chromosome)
    model = local_model(client, GraphFLGASettings(**QUICK), spec, MetaModel)
    before = take(whole, parts)
    model.load_weights({name: 0.7 * before[name] + 0.3 * weights[name] for name in before})
    loss, right, count = model.evaluate().reshape(3, 3)[1]
    assert value == pytest.approx(-right / count + 1e-4 * loss / count, abs=1e-6)
    assert all(np.array_equal(kept.weights()[name], weights[name]) for name in weights)
    assert weight_left(1 / 9) == pytest.approx(1 / 3)
    assert weight_left(1.5) == 1, "more clients than usual failed"


def test_a_client_has_more_to_say_where_fewer_train_the_shape() -> None:
    """A quarter of the nodes, in a half that trains the first shape; none train the last."""
    weights = weights_by_shape(0.25, [0.5, 0.5, 0.0], own=0)
    assert weights == pytest.approx([0.5**0.5, (1 / 3) ** 0.5, 1.0])
    assert weights_by_shape(0.25, [1.0, 0.0], own=0) == pytest.approx([0.5, 1.0])
    assert weights_by_shape(0.5, [0.25, 0.75], own=0)[0] == 1, "it was not in the last average"
    assert weights_by_shape(0.0, [1.0, 0.0], own=0) == [0.0, 0.0]


def test_the_measures_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]]))
    labels = torch.tensor([0, 1])
    assert measure(GraphFLGASettings(measure="accuracy"), logits, labels) == 0.5
    loss = -(np.log(0.5) + np.log(0.3)) / 2
    assert measure(GraphFLGASettings(), logits, labels) == pytest.approx(
        (0.5 + 1 - loss / np.log(3)) / 2
    )
    guess = measure(GraphFLGASettings(), torch.zeros(2, 3), torch.tensor([1, 2]))
    assert guess == pytest.approx(0, abs=1e-6)


def test_shapes_wait_until_there_is_something_to_beat(small_clients: list[ClientGraph]) -> None:
    search = configurator(small_clients[0], structure_after=2, iterations=3)
    shapes = []
    losses = search.trials.losses
    for at in (1, 2, 3):
        asked: list[Any] = []
        search.trials.losses = lambda *args: (asked.extend(args[0]), losses(*args))[1]  # type: ignore[method-assign]  # noqa: B023
        winner = search.evolve(situation(search, at))
        assert winner.chromosome in asked
        shapes.append({search.space.shape_of(one) for one in asked})
    assert shapes[0] == shapes[1] == {Shape("sgc", 1, 8)}
    assert shapes[2] - shapes[0], "the genes were there all the time"


@pytest.mark.parametrize("far", [1e30, np.inf, np.nan])
def test_the_length_of_a_step_that_diverged_is_no_warning(far: float) -> None:
    """Weights as a hostile client can have them made; they are refused where they are sent."""
    before, trained = {"w": np.zeros(2, np.float32)}, {"w": np.array([3, far], np.float32)}
    assert not np.isfinite(distance(before, trained))
    assert distance(before, {"w": np.array([3, 4], np.float32)}) == 5.0


def test_a_search_says_what_each_way_of_propagation_is_worth(
    small_clients: list[ClientGraph],
) -> None:
    """To the federation's choice, for the sum over all clients."""
    search = configurator(small_clients[0], families="sgc")
    advised = {**search.space.environment, "hops": 5, "teleport": 0.1, "inner_lr": 0.2}
    now = situation(search, 3)._replace(advised=advised)
    ways = search.evolve(now).ways
    value, _ = search.trials.trial(advised, now)
    assert ways[search.space.propagation_of(advised)] == pytest.approx(value, abs=1e-5)
    assert len({round(loss, 6) for loss in ways}) > 3
    fixed = configurator(small_clients[0], evolve_structure=False)
    assert set(fixed.evolve(situation(fixed)).ways) == {0.0}, "no choice"
