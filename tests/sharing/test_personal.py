"""Personal fine-tuning: by hand, never for the worse, and nobody else's affair."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch.nn.functional as F

import autofgl
from autofgl.federation.payload import Payload
from autofgl.graphs.catalog import PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.rivals import FLRandom
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.recipe import Recipe
from autofgl.sharing.common import COMMON
from autofgl.sharing.personal import PERSONAL, PERSONAL_EPOCHS
from autofgl.tasks.losses import TEMPERATURES, tempered_losses
from federations import (
    close,
    leaves,
    local_model,
    make,
    parties,
    rounds,
    to_the_end,
    without,
)

AGGREGATES = ["parameters", "gradients"]
QUICK: dict[str, Any] = {"rounds": 5, "lr": 0.05, "hidden": 8, "local_epochs": 1}
QUICK["normalize_features"] = True  # small features leave the common model something to be fitted


class PersonalSettings(FederatedSettings):
    personal_epochs: int = PERSONAL_EPOCHS


class Personal(SharedTraining):
    Settings = PersonalSettings
    ways: ClassVar = {"personal": PERSONAL}


@pytest.fixture(scope="module")
def skewed(small_graph: ClientGraph) -> list[ClientGraph]:
    """Three clients, each with most of one class."""
    settings = PartitionSettings(label_alpha=0.8)
    return autofgl.partition(small_graph, clients=3, method="labels", seed=0, settings=settings)


def models(method: Any) -> dict[str, LocalModel]:
    return {name: party.sharing.local for name, party in parties(method).items()}


def val_loss(model: LocalModel) -> float:
    """After temperature scaling."""
    return float(tempered_losses(model.logits()[model._nodes[1]], model._labels[1], 50.0).min())


def with_weights(client: ClientGraph, weights: Any) -> Any:
    model = local_model(client, PersonalSettings(**QUICK))
    model.load_weights(weights)
    return model


def node_losses(model: LocalModel) -> Any:
    """At the best of the temperatures, one for all nodes."""
    logits, labels = model.logits()[model._nodes[1]], model._labels[1]
    losses = [F.cross_entropy(logits / one, labels, reduction="none") for one in TEMPERATURES]
    return min(losses, key=lambda one: float(one.sum())).double().numpy()


def accuracy(model: LocalModel) -> float:
    return Metrics.of(model.evaluate()).val_accuracy


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_the_fine_tuning_by_hand(skewed: list[ClientGraph], aggregate: str) -> None:
    """From the common weights, at two rates, the best epoch of all on own validation nodes; none
    that has fewer of these right. Each ends when its loss has not fallen for ten epochs.
    """
    method = make(Personal, skewed, aggregate=aggregate, personal_epochs=12, **QUICK)
    rounds(method, 5)
    common = method.finish().models["model"]
    for client in skewed:
        model = with_weights(client, common)
        tried = [(val_loss(model), common)]
        least = accuracy(model)
        for rate in (1.0, 0.1):
            settings = PersonalSettings(**{**QUICK, "lr": rate * QUICK["lr"]})
            model = local_model(client, settings)
            model.load_weights(common)
            lowest, since = val_loss(model), 0
            for epoch in range(12):
                model.train(1, QUICK["rounds"] + 1 + epoch)
                if accuracy(model) >= least:
                    tried.append((val_loss(model), model.weights()))
                fell = accuracy(model) >= least and val_loss(model) < lowest
                lowest = val_loss(model) if fell else lowest
                since = 0 if fell else since + 1
                if since == 10:
                    break
        expected = min(tried, key=lambda one: one[0])[1]
        gains = node_losses(with_weights(client, common)) - node_losses(
            with_weights(client, expected)
        )
        if gains.mean() <= gains.std(ddof=1) / np.sqrt(len(gains)):
            expected = common
        assert close(models(method)[client.name].weights(), expected, 0)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("secure", ["none", "shares"])
def test_nobody_is_worse_off_on_its_own_validation_nodes(
    skewed: list[ClientGraph], aggregate: str, secure: str
) -> None:
    method = make(Personal, skewed, secure=secure, aggregate=aggregate, **QUICK)
    rounds(method, 5)
    outcome = method.finish()
    gains = [
        val_loss(with_weights(client, outcome.models["model"])) - val_loss(own)
        for client, own in zip(skewed, models(method).values(), strict=True)
    ]
    assert min(gains) >= 0
    rights = [
        accuracy(own) - accuracy(with_weights(client, outcome.models["model"]))
        for client, own in zip(skewed, models(method).values(), strict=True)
    ]
    assert min(rights) >= 0
    assert max(gains) > 0.05, "else this test shows nothing"


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_the_common_model_is_that_of_federated_averaging(
    skewed: list[ClientGraph], aggregate: str
) -> None:
    # Small features leave the common model something to be fitted.
    about = {**QUICK, "aggregate": aggregate, "normalize_features": True}
    method, plain = (make(name, skewed, **about) for name in (Personal, "fedavg"))
    assert rounds(method, 5) == rounds(plain, 5)
    outcome, expected = method.finish(), plain.finish()
    assert close(outcome.models["model"], expected.models["model"], 0)
    assert outcome.extra["common_test_accuracy"] == expected.test_accuracy
    assert outcome.extra["common_val_accuracy"] == expected.val_accuracy
    right, count = np.sum(
        [model.evaluate().reshape(3, 3)[2, 1:] for model in models(method).values()], axis=0
    )
    assert outcome.test_accuracy == pytest.approx(right / count), "the figure of personal weights"
    assert outcome.test_accuracy > expected.test_accuracy
    for line, model in zip(outcome.per_client, models(method).values(), strict=True):
        assert line["test_accuracy"] == Metrics.of(model.evaluate()).test_accuracy


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_personal_weights_do_not_travel(skewed: list[ClientGraph], aggregate: str) -> None:
    arrays: list[Any] = []

    def watch(way: str, party: str, op: str, payload: Payload) -> None:
        seen = (value for value in leaves(payload) if isinstance(value, np.ndarray))
        arrays.extend(value.reshape(-1).astype(np.float32) for value in seen)

    method = make(Personal, skewed, aggregate=aggregate, observer=watch, **QUICK)
    rounds(method, 5)
    common = method.finish().models["model"]

    def shown(weights: Any) -> float:
        """Share of the entries that are together in a message; biases may be alike."""
        secret = weights["convs.0.lin.weight"].reshape(-1)
        return max(float(np.isin(secret, array).mean()) for array in arrays)

    assert shown(common) == 1, "the common ones do, and so the test can fail"
    personal = [model.weights() for model in models(method).values()]
    tuned = [weights for weights in personal if not close(weights, common, 1e-3)]
    assert tuned
    assert all(shown(weights) < 0.1 for weights in tuned)
    exported = [reply["weights"] for reply in method.federation.call("export").ok.values()]
    assert all(close(weights, common, 0) for weights in exported)


@pytest.mark.parametrize("missing", ["train_mask", "val_mask"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_who_cannot_train_or_choose_keeps_the_common_model(
    skewed: list[ClientGraph], missing: str, aggregate: str
) -> None:
    clients = [skewed[0], without(skewed[1], missing), skewed[2]]
    method = make(Personal, clients, aggregate=aggregate, **QUICK)
    rounds(method, 5)
    common = method.finish().models["model"]
    kept = [close(model.weights(), common, 0) for model in models(method).values()]
    assert kept[1]
    assert not kept[0], "the others do not all keep it"


def test_without_epochs_everybody_keeps_it(skewed: list[ClientGraph]) -> None:
    method = make(Personal, skewed, personal_epochs=0, **QUICK)
    rounds(method, 5)
    outcome = method.finish()
    assert outcome.test_accuracy == outcome.extra["common_test_accuracy"]
    assert all(
        close(model.weights(), outcome.models["model"], 0) for model in models(method).values()
    )


class PersonalSearch(FLRandom):
    """Any searcher pairs with any way of sharing: trials share, the finalists personalize."""

    ways: ClassVar = {"common": COMMON, "personal": PERSONAL}

    def final_recipe(self, recipe: Recipe) -> Recipe:
        return recipe.model_copy(update={"sharing": "personal"})


def test_a_search_may_end_in_personal_networks(skewed: list[ClientGraph]) -> None:
    small = {"candidates": 3, "candidate_rounds": 2, "layers": 2, "finalists": 2, "tune": 2}
    method = make(PersonalSearch, skewed, **small, rounds=4, lr=0.05, hidden=8)
    method.setup()
    to_the_end(method)
    extra = method.finish().extra
    raced = {f"personal: {one.get('genotype', one.get('recipe'))}" for one in extra["top"]}
    finalists = {one["recipe"] for one in extra["finalists"]}
    assert len(finalists) == 2
    assert finalists <= raced
    assert (
        f"personal: {extra['top'][0].get('genotype', extra['top'][0].get('recipe'))}" in finalists
    )
    assert 0 <= extra["common_test_accuracy"] <= 1
