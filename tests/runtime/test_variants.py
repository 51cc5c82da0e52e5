"""Other settings for a recipe, one at a time and together."""

from typing import Any

import pytest

from autofgl.methods.fl_agcns.portfolio import KNOWN
from autofgl.methods.fl_agcns.settings import (
    CandidateSettings,
    DartsSettings,
    FLAGCNSSettings,
    RLSettings,
)
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.variants import (
    CONSISTENT_RATE,
    DROPOUTS,
    LEAST_DECAY,
    RATES,
    WIDTHS,
    changed_recipe,
    combined,
    setting,
    variants,
)

NETWORK = Recipe(network="relu | gcn<0 gcn<1 | identity")
#: Everything that is varied.
NAMES = (
    "normalize_features", "consistency", "dropout", "weight_decay", "lr", "decoupled", "hidden",
)  # fmt: skip
EXTREMES: list[dict[str, Any]] = [
    {},
    {"lr": 0.3, "dropout": 0.0, "weight_decay": 0.0, "hidden": 256},
    {"lr": 0.001, "dropout": 0.85, "weight_decay": 1.0, "hidden": 16, "decoupled": True},
    {"lr": 5.0, "dropout": 0.95, "weight_decay": 1e-7, "hidden": 500},
    {"lr": 1e-6, "dropout": 0.1, "hidden": 3, "normalize_features": False},
]


def all_settings(recipe: Recipe, settings: Any) -> dict[str, Any]:
    return {name: setting(recipe, settings, name) for name in NAMES}


@pytest.mark.parametrize(
    "kind", [FLAGCNSSettings, CandidateSettings, RLSettings, DartsSettings, FederatedSettings]
)
@pytest.mark.parametrize("given", EXTREMES, ids=str)
def test_a_variant_differs_in_one_setting_and_validates(kind: Any, given: dict[str, Any]) -> None:
    """Whether the run says what the settings are, or the recipe."""
    own = NETWORK.model_copy(update={"settings": given})
    for recipe, settings in ((NETWORK, kind(**given)), (own, kind())):
        before = all_settings(recipe, settings)
        found = variants(recipe, settings)
        assert len({str(one) for one in found}) == len(found) >= 6
        for one in found:
            assert Recipe.parse(str(one)) == one
            applied = one.apply(settings)
            after = {name: getattr(applied, name) for name in NAMES}
            assert after == all_settings(one, settings)
            different = {name for name in NAMES if after[name] != before[name]}
            if "consistency" in different:
                assert after["lr"] == max(before["lr"], CONSISTENT_RATE), "it begins slowly"
                different.discard("lr")
            assert len(different) == 1
            assert one.network == NETWORK.network


def test_a_step_in_every_direction_by_hand() -> None:
    settings = FederatedSettings(lr=0.01, weight_decay=1e-3, dropout=0.5, hidden=64)
    found: dict[str, set[Any]] = {}
    unlabeled, *alone = sorted(variants(NETWORK, settings), key=lambda one: -len(one.settings))
    assert unlabeled.settings == {"consistency": 1.0, "lr": CONSISTENT_RATE}
    for one in alone:
        ((name, value),) = one.settings.items()
        found.setdefault(name, set()).add(value)
    assert found["normalize_features"] == {False, True}, "rows of length 1 are the run's own"
    assert (found["dropout"], found["hidden"]) == ({0.2, 0.7}, {32, 128})
    assert found["decoupled"] == {True}
    for name, before in (("lr", 0.01), ("weight_decay", 1e-3)):
        less, more = sorted(found[name])
        assert 0 < less < before < more
        assert less * more == pytest.approx(before**2), "as far up as down"


def test_no_decay_is_not_decoupled_and_has_one_step() -> None:
    changes = [one.settings for one in variants(NETWORK, FederatedSettings(weight_decay=0.0))]
    assert {"weight_decay": LEAST_DECAY} in changes
    assert [one for one in changes if one.keys() & {"decoupled", "weight_decay"}] == [
        {"weight_decay": LEAST_DECAY}
    ]


@pytest.mark.parametrize("rate", [1e-3, 2e-3, 0.01, 0.2, 0.3])
def test_steps_stay_within_their_bounds(rate: float) -> None:
    for one in variants(NETWORK, FLAGCNSSettings(lr=rate)):
        for name, value in one.settings.items():
            if name == "lr":
                assert RATES[0] <= float(value) <= RATES[1]
            if name in ("dropout", "hidden"):
                assert value in (DROPOUTS if name == "dropout" else WIDTHS)


@pytest.mark.parametrize("recipe", KNOWN, ids=str)
def test_known_networks_have_variants(recipe: Recipe) -> None:
    settings = FLAGCNSSettings()
    for one in variants(recipe, settings):
        one.apply(settings)
        assert one.network == recipe.network
        assert one != changed_recipe(recipe, settings, {})


def test_what_the_run_says_anyway_is_left_out() -> None:
    settings = FederatedSettings(lr=0.05)
    recipe = Recipe(network="gcn", settings={"lr": 0.2, "dropout": 0.1})
    assert changed_recipe(recipe, settings, {"lr": 0.05}).settings == {"dropout": 0.1}
    assert changed_recipe(recipe, settings, {"lr": 0.1}).settings == {"dropout": 0.1, "lr": 0.1}


class TestCombined:
    settings = FederatedSettings()
    base = Recipe(network="gcn", settings={"lr": 0.1})

    def variant(self, network: str = "gcn", **changes: Any) -> Recipe:
        recipe = self.base.model_copy(update={"network": network})
        return changed_recipe(recipe, self.settings, changes)

    def test_the_best_change_of_each_setting(self) -> None:
        better = [
            self.variant(dropout=0.2), self.variant(lr=0.3), self.variant(dropout=0.7),
            self.variant(hidden=128),
        ]  # fmt: skip
        found = combined(self.base, better, self.settings)
        assert found == Recipe(network="gcn", settings={"dropout": 0.2, "hidden": 128, "lr": 0.3})

    def test_back_to_the_runs_own(self) -> None:
        better = [self.variant(lr=0.01), self.variant(dropout=0.2)]
        found = combined(self.base, better, self.settings)
        assert found == Recipe(network="gcn", settings={"dropout": 0.2})

    def test_nothing_to_combine(self) -> None:
        assert combined(self.base, [], self.settings) is None
        assert combined(self.base, [self.variant(lr=0.3)], self.settings) is None
        assert combined(self.base, [self.variant(lr=0.3), self.base], self.settings) is None
        twice = [self.variant(lr=0.3), self.variant(lr=0.03)]
        assert combined(self.base, twice, self.settings) is None

    def test_other_networks_do_not_count(self) -> None:
        others = [self.variant("gat", dropout=0.2), self.variant(hidden=128)]
        assert combined(self.base, others, self.settings) is None
