"""Who of a race is in the finals: the leaders, and the baselines of the proof."""

from collections.abc import Callable, Sequence

from autofgl.methods.auto.bench import Entrant
from autofgl.methods.auto.portfolio import FEDAVG, LONER, is_fixed
from autofgl.runtime.race import Entry
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.selection import contenders


def baselines(entries: Sequence[Entry]) -> dict[str, str]:
    """The recipe of each baseline, from entries with a result, best first."""
    recipes = [(one.recipe, Recipe.parse(one.recipe)) for one in entries]
    alone = next((text for text, one in recipes if one.sharing == "alone"), LONER)
    fixed = next((text for text, one in recipes if is_fixed(one)), FEDAVG)
    return {"alone": alone, "fedavg": FEDAVG, "fixed": fixed}


def lineup(entries: Sequence[Entry], leaders: int) -> list[tuple[str, list[str]]]:
    """Recipes of the finals and their roles: the best, the baselines, then the other leaders.

    Leaders differ in their networks, as far as there are others.
    """
    best = [one.recipe for one in contenders(entries)][:leaders]
    roles: dict[str, list[str]] = {recipe: ["leader"] for recipe in best[:1]}
    for name, recipe in baselines(entries).items():
        roles.setdefault(recipe, []).append(name)
    for recipe in best[1:]:
        roles.setdefault(recipe, []).append("leader")
    return list(roles.items())


def first_in_line(leaders: int) -> Callable[[Sequence[Entry]], Sequence[Entry]]:
    """Orders entries, best first, so that those come first that the finals would have now."""

    def order(entries: Sequence[Entry]) -> list[Entry]:
        by_recipe = {one.recipe: one for one in reversed(entries)}
        wanted = [recipe for recipe, _ in lineup(entries, leaders)]
        ahead = [by_recipe[recipe] for recipe in wanted if recipe in by_recipe]
        return [*ahead, *(one for one in entries if one not in ahead)]

    return order


def entrants(entries: Sequence[Entry], leaders: int, inits: int) -> list[Entrant]:
    """Those of the finals; further draws of the leaders' initial weights come last."""
    named = lineup(entries, leaders)
    first = [Entrant(recipe, roles) for recipe, roles in named]
    more = [
        Entrant(recipe, ["leader"], init)
        for init in range(1, inits)
        for recipe, roles in named
        if "leader" in roles
    ]
    return [*first, *more]
