"""The search beyond the portfolio: other ways and settings for the leaders, and their offspring.

Brackets of three kinds take turns: the best network in other ways of sharing (``portfolio.py``),
the leaders with other settings (:mod:`autofgl.runtime.variants`), and networks bred from them
(:mod:`autofgl.methods.fl_agcns.refinement`). A kind whose last bracket lowered the best calibrated
loss by less than :data:`PAYS` of it is given up, and without any kind left the search is over.
"""

import math
from collections.abc import Callable
from typing import Any

from autofgl.methods.auto.portfolio import is_common
from autofgl.methods.fl_agcns.refinement import Refinement
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings
from autofgl.runtime.race import Race
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.state import Saved

#: A bracket pays if it lowers the best loss by this share of it.
PAYS = 0.005
#: The kinds of brackets, in turn.
KINDS = ("ways", "settings", "networks")


class Beyond(Saved):
    """Says what races next, and when to stop; ``ways_bracket`` and ``settings_bracket`` begin one
    of other ways of sharing, once, and of other settings, and say whether there was any left.
    """

    saved = ("_open", "_kind", "_before", "_networks")

    def __init__(
        self,
        race: Race,
        ways_bracket: Callable[[], bool],
        settings_bracket: Callable[[], bool],
        settings: Any,
        seed: int,
    ) -> None:
        self._race = race
        self._begin = {
            "ways": ways_bracket, "settings": settings_bracket, "networks": self._breed,
        }  # fmt: skip
        space = {"layers": settings.layers, "types": settings.types, "stop": settings.stop}
        own = FLAGCNSSettings(trials=settings.trials, hidden=settings.hidden, **space)
        self._networks = Refinement([], own, seed)
        wanted = (settings.ways, settings.tune > 0, settings.trials > 0)
        self._open = [kind for kind, is_wanted in zip(KINDS, wanted, strict=True) if is_wanted]
        self._kind = ""
        self._before = math.inf

    def next_bracket(self) -> tuple[str, str]:
        """Begin the next bracket: what was decided, and why; no bracket if the search is over."""
        why = self._judge_last()
        while self._open:
            self._kind = self._open[0]
            self._before = self._best
            if self._begin[self._kind]():
                count = sum(one.ending == "running" for one in self._race.entries)
                again = [] if self._kind == "ways" else [self._kind]
                self._open = [*self._open[1:], *again]
                return f"race {count} recipes with other {self._kind}", why or "the leaders' turn"
            self._open = self._open[1:]
        self._kind = ""
        return "end the search", why or "nothing is left to try"

    @property
    def _best(self) -> float:
        best = self._race.best_first
        return best[0].loss if best else math.inf

    def _judge_last(self) -> str:
        """Give a kind up that has not paid."""
        if not self._kind:
            return ""
        gain = (self._before - self._best) / max(abs(self._before), 1e-9)
        if gain < PAYS:
            self._open = [kind for kind in self._open if kind != self._kind]
            return f"other {self._kind} gained {gain:.1%}, too little to go on with them"
        return f"other {self._kind} gained {gain:.1%}"

    def _breed(self) -> bool:
        bracket = self._networks.ask(self._race.entries, self._race.best_first)
        raced = [Recipe.parse(one.recipe) for one in self._race.best_first]
        way = next((one.sharing for one in raced if is_common(one)), "common")
        recipes = [
            Recipe(sharing=way, network=one.network, settings=one.settings) for one in bracket
        ]
        if recipes:
            self._race.begin(recipes)
        return bool(recipes)
