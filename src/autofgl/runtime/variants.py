"""Other settings for a recipe: scaling, rates, weight decay, dropout, width, unlabeled nodes.

How a network is trained decides more than which of the good networks it is, and no setting is right
for all of them. So a search varies the settings of its best recipes, one at a time, and then
combines what has helped.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autofgl.runtime.recipe import Recipe
from autofgl.runtime.settings import TrainSettings

#: Learning rates lie within these bounds.
RATES = (1e-3, 0.3)
#: Dropout rates to choose from, next to each other.
DROPOUTS = (0.0, 0.2, 0.5, 0.7, 0.85)
#: Widths to choose from, next to each other.
WIDTHS = (16, 32, 64, 128, 256)
#: Training with unlabeled nodes begins slowly, and bears this rate at least.
CONSISTENT_RATE = 0.03
#: A decay of nothing is followed by this one.
LEAST_DECAY = 5e-5


def setting(recipe: Recipe, settings: TrainSettings, name: str) -> Any:
    """What a recipe says of a setting, or else the run."""
    return recipe.settings.get(name, getattr(settings, name))


def changes(recipe: Recipe, settings: TrainSettings) -> Iterator[dict[str, Any]]:
    """The settings that are a step away from those of a recipe, what helps most often first."""

    def value(name: str) -> Any:
        return setting(recipe, settings, name)

    rate, decay, dropout, width = map(value, ("lr", "weight_decay", "dropout", "hidden"))
    scalings = [how for how in ("unit", False, True) if how != value("normalize_features")]
    yield {"normalize_features": scalings[0]}
    if value("consistency"):
        yield {"consistency": 0.0}
    else:
        yield {"consistency": 1.0, "lr": max(rate, CONSISTENT_RATE)}
    yield from ({"dropout": one} for one in _beside(DROPOUTS, dropout)[::-1])
    yield {"weight_decay": round(4 * decay, 12) if decay else LEAST_DECAY}
    yield {"weight_decay": round(decay / 4, 12)} if decay > LEAST_DECAY else {"weight_decay": 0.0}
    yield {"lr": round(rate * 3, 12)} if rate * 3 <= RATES[1] else {"lr": RATES[1]}
    yield {"normalize_features": scalings[1]}
    if decay:
        yield {"decoupled": not value("decoupled")}
    yield from ({"hidden": one} for one in _beside(WIDTHS, width)[::-1])
    yield {"lr": round(rate / 3, 12)} if rate / 3 >= RATES[0] else {"lr": RATES[0]}


def variants(recipe: Recipe, settings: TrainSettings) -> list[Recipe]:
    """Recipes that differ from one in a single setting; a rate at its bound has no step there."""
    same = changed_recipe(recipe, settings, {})
    changed = (changed_recipe(recipe, settings, change) for change in changes(recipe, settings))
    return [one for one in changed if one != same]


def combined(base: Recipe, better: Sequence[Recipe], settings: TrainSettings) -> Recipe | None:
    """All changes from ``base`` that have helped, the best of each setting; None without two."""
    change: dict[str, Any] = {}
    for one in better:
        if one.network == base.network and one.sharing == base.sharing:
            for name in sorted({*one.settings, *base.settings}):
                now, before = (setting(which, settings, name) for which in (one, base))
                if now != before:
                    change.setdefault(name, now)
    return changed_recipe(base, settings, change) if len(change) > 1 else None


def changed_recipe(recipe: Recipe, settings: TrainSettings, change: Mapping[str, Any]) -> Recipe:
    """A recipe with some other settings; what the run says anyway is left out."""
    merged = {**recipe.settings, **change}
    own = {name: value for name, value in merged.items() if value != getattr(settings, name)}
    return recipe.model_copy(update={"settings": dict(sorted(own.items()))})


def _beside(choices: Sequence[float], value: float) -> list[Any]:
    """The choices next to a value, the nearest at or below first."""
    below = [one for one in choices if one < value and not math.isclose(one, value)]
    above = [one for one in choices if one > value and not math.isclose(one, value)]
    return [*below[-1:], *above[:1]]
