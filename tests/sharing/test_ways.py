"""Every way of sharing with one network for all: who gets what, the same after a resume."""

from typing import Any

import numpy as np
import pytest

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.baselines import FedAvg
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.sharing.ways import WAYS, WAYS_OF_SHARING
from federations import close, make, parties, rounds, to_the_end

QUICK: dict[str, Any] = {"rounds": 6, "lr": 0.05, "hidden": 8, "local_epochs": 2}
NEEDS_NONE = [name for name, way in WAYS_OF_SHARING.items() if way.reveals]
SUMS = [name for name in WAYS_OF_SHARING if name not in NEEDS_NONE]
AGGREGATES = ["parameters", "gradients"]


def own_weights(method: Any) -> dict[str, Any]:
    return {name: party.sharing.local.weights() for name, party in parties(method).items()}


def same(ours: Any, theirs: Any) -> bool:
    """Two outcomes and the weights that clients have in the end."""
    mine, others = own_weights(ours), own_weights(theirs)
    return all(close(mine[name], others[name], 0) for name in mine)


def test_the_names_are_those_of_the_setting() -> None:
    field = FederatedSettings.model_fields["sharing"]
    assert list(field.annotation.__args__) == list(WAYS_OF_SHARING)  # type: ignore[union-attr]
    assert {FederatedSettings(sharing=name).way for name in WAYS_OF_SHARING} < set(WAYS)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("way", WAYS_OF_SHARING)
def test_a_resumed_run_equals_an_undisturbed_one(
    way: str, aggregate: str, small_clients: list[ClientGraph]
) -> None:
    settings = {**QUICK, "sharing": way, "aggregate": aggregate, "compare_alone": way == "personal"}
    whole, first, second = (make("fedavg", small_clients, **settings) for _ in range(3))
    rows = rounds(whole, 6)
    assert rounds(first, 3) == rows[:3]
    first.before_checkpoint()
    states = {name: party.state() for name, party in parties(first).items()}
    second.load_state(first.state())
    for name, party in parties(second).items():
        party.load_state(states[name])
    assert to_the_end(second) == rows[3:]
    ours, theirs = second.finish(), whole.finish()
    assert ours.test_accuracy == theirs.test_accuracy
    assert ours.extra == theirs.extra
    assert same(second, whole)


@pytest.mark.parametrize("way", ["fedgta", "fed-pub"])
def test_a_resumed_run_keeps_what_was_trained(way: str, small_clients: list[ClientGraph]) -> None:
    """As above, with what clients keep before it is averaged."""
    settings = {**QUICK, "sharing": way, "evaluate": "local-before-averaging"}
    whole, first, second = (make("fedavg", small_clients, **settings) for _ in range(3))
    rows = rounds(whole, 6)
    rounds(first, 3)
    first.before_checkpoint()
    states = {name: party.state() for name, party in parties(first).items()}
    second.load_state(first.state())
    for name, party in parties(second).items():
        party.load_state(states[name])
    assert to_the_end(second) == rows[3:]
    assert second.finish().test_accuracy == whole.finish().test_accuracy
    assert same(second, whole)


@pytest.mark.parametrize("secure", ["shares", pytest.param("ckks", marks=pytest.mark.slow)])
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("way", [name for name in SUMS if name != "common"])
def test_secure_sums_give_the_plain_run(
    way: str, aggregate: str, secure: str, small_clients: list[ClientGraph]
) -> None:
    settings = {**QUICK, "sharing": way, "aggregate": aggregate}
    methods = [make("fedavg", small_clients, secure=how, **settings) for how in ("none", secure)]
    plain, summed = ([rounds(one, 6), one.finish()] for one in methods)
    for one, other in zip(plain[0], summed[0], strict=True):
        assert other["val_loss"] == pytest.approx(one["val_loss"], abs=1e-3)
    assert summed[1].test_accuracy == pytest.approx(plain[1].test_accuracy, abs=0.02)
    assert summed[1].per_client == [{"name": client.name} for client in small_clients]


@pytest.mark.parametrize("secure", ["shares", "shares-additive", "ckks"])
@pytest.mark.parametrize("way", NEEDS_NONE)
def test_what_shows_single_models_is_refused_under_a_secure_mode(
    way: str, secure: str, small_clients: list[ClientGraph]
) -> None:
    settings = FederatedSettings(sharing=way)
    FedAvg.check(small_clients, settings, "none")
    with pytest.raises(UserError, match=f"sharing={way} shows the server every client's weights"):
        FedAvg.check(small_clients, settings, secure)


@pytest.mark.parametrize("way", sorted(WAYS_OF_SHARING.keys() - {"common", "across"}))
def test_own_models_are_collected_only_if_asked_for(
    way: str, small_clients: list[ClientGraph]
) -> None:
    kept, collected = (
        make("fedavg", small_clients, sharing=way, collect_models=collect, **QUICK)
        for collect in (False, True)
    )
    for method in (kept, collected):
        rounds(method, 2)
    assert list(kept.finish().models) == ["model"]
    models = collected.finish().models
    mine = own_weights(collected)
    assert models.keys() == mine.keys()
    assert all(close(models[name], mine[name], 0) for name in models)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prox": 0.1}, "prox=0.1 is for local epochs"),
        ({"sharing": "head", "evaluate": "global"}, "no one model for evaluate=global"),
        ({"evaluate": "local-before-averaging"}, "set aggregate=parameters"),
        ({"sharing": "ditto", "evaluate": "local-before-averaging"}, "is for sharing=common"),
        ({"sharing": "ditto", "dp_epsilon": 8}, "--dp covers the updates"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        FederatedSettings(**given)


def test_fedprox_by_hand(small_clients: list[ClientGraph]) -> None:
    """A step with μ / 2 ‖w − w_t‖² has μ (w − w_t) in its gradient."""
    method = make("fedavg", small_clients, aggregate="parameters", prox=0.7, **QUICK)
    method.setup()
    local = next(iter(parties(method).values())).sharing.local
    start = local.weights()
    moved = {name: value + np.float32(0.5) for name, value in start.items()}
    local.load_weights(moved)
    local.backward(local.dropout_generator(1))
    plain = {name: value.grad.clone() for name, value in local.trained()}
    local.pull(start, 0.7)()
    for name, value in local.trained():
        expected = plain[name].numpy() + 0.7 * (moved[name] - start[name])
        assert np.allclose(value.grad.numpy(), expected, atol=1e-6)


def test_a_large_prox_keeps_clients_near(small_clients: list[ClientGraph]) -> None:
    ends = []
    for prox in (0.0, 100.0):
        method = make(
            "fedavg",
            small_clients,
            aggregate="parameters",
            prox=prox,
            **{**QUICK, "local_epochs": 9},
        )
        rounds(method, 1)
        party = next(iter(parties(method).values()))
        begun = method.training.sharing._best_weights
        now = party.sharing.local.weights()
        ends.append(sum(float(np.square(now[name] - begun[name]).sum()) for name in now))
    assert ends[1] < 0.5 * ends[0]


@pytest.mark.parametrize("way", ["head", "encoder", "ditto", "fedgta"])
def test_a_search_in_a_way_of_sharing(way: str, small_clients: list[ClientGraph]) -> None:
    """Trials are trained as the network will be in the end."""
    small = {"candidates": 2, "candidate_rounds": 2, "layers": 2, "finalists": 1, "tune": 2}
    method = make("fl-random", small_clients, sharing=way, **small, rounds=3, lr=0.05, hidden=8)
    method.setup()
    rows = to_the_end(method)
    kinds = {type(party.sharing).__name__ for party in parties(method).values()}
    own = {"head": "HeadClient", "encoder": "EncoderClient", "ditto": "DittoClient"}
    assert kinds == {own.get(way, "LikenessClient")}
    assert {row["phase"] for row in rows} == {"search", "trial", "train"}
    assert 0 <= method.finish().test_accuracy <= 1
