"""From a search's best recipes to one trained network: other settings, then the finals.

Every search ends in the same way, so that none is better than another only for how its networks are
trained: the best recipes go on with other settings (:mod:`autofgl.runtime.variants`), bracket by
bracket (:mod:`autofgl.runtime.race`), and the finalists are trained to the end
(:mod:`autofgl.runtime.finals`).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from autofgl.errors import AutoFGLError
from autofgl.runtime.finals import Finals, named
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.race import Entry, Race
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.state import Saved
from autofgl.runtime.variants import changed_recipe, combined, variants
from autofgl.search.halving import bracket_rounds

#: Most recipes with other settings that race together.
BRACKET = 8
#: Share of a time budget after which the finals begin.
FINALS_FROM = 0.8


class Selection(Saved):
    """Races recipes for so many ``rounds`` at most, then up to ``tune`` with other settings.

    ``final_recipe`` says what is trained to the end in place of a recipe; ``kept`` trainings stay
    parked, the finalists if nobody says how many, the first of what ``order`` makes of the best.
    """

    saved = ("race", "finals", "_tuned", "_base", "hurried")

    def __init__(
        self,
        method: Method,
        rounds: int,
        tune: int,
        final_recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe,
        kept: int | None = None,
        order: Callable[[Sequence[Entry]], Sequence[Entry]] | None = None,
    ) -> None:
        self._method = method
        self._settings = method.settings
        self._tune = tune
        self._rounds = rounds
        self._final_recipe = final_recipe
        kept = self._settings.finalists if kept is None else kept
        self.race = Race(self._trial, rounds, kept, order or contenders)
        self.finals = Finals(self._final, self._settings.inits)
        self._tuned = 0
        self._base = ""
        self.hurried = False

    @property
    def done(self) -> bool:
        """Whether the finalists are trained."""
        return self.finals.done

    @property
    def planned(self) -> int:
        """Rounds that are left at most, as far as can be told."""
        if self.finals.begun:
            return self.finals.planned
        left = 0 if self.hurried else self._tune - self._tuned
        finals: int = self._settings.finalists * self._settings.rounds
        return self.race.planned + bracket_rounds(left, self._rounds) + finals

    def hurry(self) -> bool:
        """It is time for the finals; whether that is news."""
        news, self.hurried = not self.hurried and not self.finals.begun, True
        return news

    def wrap_up(self) -> None:
        """No time is left: the best so far is kept as it is."""
        self.hurry()
        if not self.finals.begun and self.race.best_first:
            self.race.wrap_up()
            self._begin_finals()
        if self.finals.begun:
            self.finals.wrap_up()

    def step(self) -> tuple[str, Row]:
        """One round of a race or of the finals: its phase, and columns for the history."""
        if not self.finals.begun and not self.race.running and not self.race_settings():
            self._begin_finals()
        if self.race.running and self.hurried and self.race.best_first:
            self.race.wrap_up()
            self._begin_finals()
        if self.finals.begun:
            return "train", self.finals.step()
        return "trial", self.race_round()

    def race_round(self) -> Row:
        """One round of a recipe for the history; at the end of a rung with ``score``."""
        row, entry = self.race.step()
        row |= {"candidate": entry.number, "candidate_round": entry.rounds, "code": entry.recipe}
        if entry.ending != "running" or not self.race.running:
            useful = math.isfinite(entry.loss)
            row |= {"score": entry.loss if useful else None, "diverged": not useful}
        best = self.race.best_first
        so_far = (best[0].recipe, best[0].loss) if best else (None, None)
        return {**row, "best_code": so_far[0], "best_score": so_far[1]}

    def outcome(self) -> Outcome:
        """What the finals came to."""
        return self.finals.outcome()

    def trials(self) -> list[dict[str, Any]]:
        """What was raced, for ``result.json``, best first."""
        return [entry_json(one) for one in self.race.best_first]

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        self.race.before_checkpoint()
        self.finals.before_checkpoint()

    def catch_up(self, names: Sequence[str]) -> None:
        """Bring clients up to date that missed rounds of the present training."""
        self.race.catch_up(names)
        self.finals.catch_up(names)

    def race_settings(self) -> bool:
        """Race other settings of the best recipe; false if there is nothing left to try."""
        left = 0 if self.hurried else self._tune - self._tuned
        proposals = self._proposals()[: min(left, BRACKET)] if left > 0 else []
        if proposals:
            self._tuned += len(proposals)
            self.race.begin(proposals)
        return bool(proposals)

    def _proposals(self) -> list[Recipe]:
        """Changes together that helped one by one, then single ones: of the best recipe, and of
        the best with another network.
        """
        best = self.race.best_first
        if not best:
            return []
        leaders = [Recipe.parse(one.recipe) for one in best]
        recipes: list[Recipe] = []
        if self._base:
            base = Recipe.parse(self._base)
            ahead = [one for one in best if one.recipe != self._base]
            floor = next((one.loss for one in best if one.recipe == self._base), best[-1].loss)
            better = [Recipe.parse(one.recipe) for one in ahead if one.loss < floor]
            together = combined(base, better, self._settings)
            recipes += [together] if together else []
        self._base = best[0].recipe
        rival = next((one for one in leaders if one.network != leaders[0].network), None)
        recipes += variants(leaders[0], self._settings)
        recipes += variants(rival, self._settings) if rival else []
        return self._new(recipes)

    def _new(self, recipes: Sequence[Recipe]) -> list[Recipe]:
        """Those that were not raced yet, each once."""
        raced = [Recipe.parse(one.recipe) for one in self.race.entries]
        seen = {str(changed_recipe(one, self._settings, {})) for one in raced}
        fresh: list[Recipe] = []
        for one in recipes:
            if str(one) not in seen:
                seen.add(str(one))
                fresh.append(one)
        return fresh

    def _begin_finals(self) -> None:
        best = contenders(self.race.best_first)[: self._settings.finalists]
        if not best:
            raise AutoFGLError(f"all {len(self.race.entries)} candidates diverged: lower 'lr'")
        finalists: list[tuple[Recipe, RoundEngine | None]] = []
        for one in best:
            recipe = Recipe.parse(one.recipe)
            final = self._final_recipe(recipe)
            finalists.append((final, self.race.training(one) if final == recipe else None))
        self.finals.begin(finalists, self.race.room())

    def _trial(self, number: int, recipe: Recipe) -> RoundEngine:
        return self._method.engine(recipe, stage=f"candidate-{number}-")

    def _final(self, stage: str, recipe: Recipe) -> RoundEngine:
        return self._method.engine(recipe, stage=stage)


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Without those whose figures an earlier one has: two parallel APPNP layers, say, are one."""
    first: dict[tuple[float, float, int], Entry] = {}
    for one in entries:
        first.setdefault((one.val_accuracy, round(one.val_loss, 5), one.parameters), one)
    return list(first.values())


def diverse(entries: Sequence[Entry]) -> list[Entry]:
    """The best of each network first: what is alike in most is alike in its faults."""
    first: dict[str, Entry] = {}
    for one in entries:
        first.setdefault(Recipe.parse(one.recipe).network, one)
    ahead = list(first.values())
    return [*ahead, *(one for one in entries if one not in ahead)]


def contenders(entries: Sequence[Entry]) -> list[Entry]:
    """In which order entries become finalists."""
    return diverse(distinct(entries))


def entry_json(entry: Entry) -> dict[str, Any]:
    """A recipe that was raced, for ``result.json``."""
    return {
        **named(Recipe.parse(entry.recipe)),
        "score": entry.loss,
        "val_accuracy": entry.val_accuracy,
        "val_loss": entry.val_loss,
        "rounds": entry.rounds,
        "parameters": entry.parameters,
    }
