"""The server of ``auto``: look, race, search beyond the winner, finals, choice, proof.

A round is one of the recipe whose turn it is, so that a run can be stopped at any of them; what is
decided between two rounds stands in the row of the next one, with its reason. The clock only raises
flags (:meth:`Auto.pace`), which a checkpoint has, so that a resumed run makes the same sums again.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar

from autofgl.errors import AutoFGLError
from autofgl.federation import Federation
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.bench import Bench, Entrant
from autofgl.methods.auto.beyond import Beyond
from autofgl.methods.auto.candidates import Candidate, shelve, teacher_of
from autofgl.methods.auto.client import AutoClient
from autofgl.methods.auto.front import costs_of
from autofgl.methods.auto.lineup import entrants, first_in_line
from autofgl.methods.auto.look import FORMS, Look
from autofgl.methods.auto.portfolio import (
    WAYS,
    is_common,
    is_tunable,
    other_ways,
    portfolio,
    unlike,
)
from autofgl.methods.auto.result import baselines_of, by_loss, common_model, outcome_of
from autofgl.methods.auto.settings import BASELINES, MOST_WAYS, AutoSettings
from autofgl.methods.auto.verdicts import Choosing
from autofgl.methods.fl_agcns.client import largest_searched
from autofgl.runtime.details import detailed
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import SUM, Record
from autofgl.runtime.rounds import RoundEngine
from autofgl.runtime.selection import Selection
from autofgl.search.halving import bracket_rounds

#: Shares of a time budget: after the first only few recipes go on in the first race, after the
#: second the finals begin, and after the third they end.
RACE_UNTIL, SEARCH_UNTIL, FINALS_UNTIL = 0.3, 0.5, 0.92
#: How many go on then.
SAFE = 3
#: Fine-tunings of what a client ends with, each from there on: local epochs, and the part of the
#: learning rate that they have. The first is none.
TUNINGS: tuple[tuple[int, float], ...] = ((0, 1.0), (5, 1.0), (20, 1.0), (20, 0.1))


class Auto(Method):
    """Finds the best model for every client, and proves it."""

    Settings = AutoSettings
    ways: ClassVar = WAYS
    Client = AutoClient
    ends_on_interrupt = True
    saved = (
        "_wrapped_up", "_stage", "_look", "_log", "_note", "_candidates", "_due", "_slot", "_sent",
        "_selection", "_beyond", "_bench", "_taught",
    )  # fmt: skip
    settings: AutoSettings

    def __init__(
        self, federation: Federation, settings: AutoSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        kept, order = settings.finalists + BASELINES, first_in_line(settings.finalists)
        self._selection = Selection(
            self, settings.trial_rounds, settings.tune, kept=kept, order=order
        )
        race = self._selection.race
        brackets = (self._race_ways, self._selection.race_settings)
        self._beyond = Beyond(race, *brackets, settings, seed)
        self._bench = Bench(self._final, self._shelve)
        self._stage = "race"
        self._look: dict[str, Any] = {}
        self._log: list[dict[str, Any]] = []
        self._note: dict[str, Any] = {}  # what was decided since the last row
        self._candidates: list[dict[str, Any]] = []
        self._due: list[str] = []  # what the clock has asked for
        self._sent: dict[str, int] = {}  # bytes of the rounds of each recipe
        self._taught = not settings.distill  # or nothing is to be taught
        self._slot: list[float] = [-1, 0.0]  # a finalist, and the share of the time that it has

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of the largest network that may race."""
        return largest_searched(graph, settings)

    @property
    def rounds(self) -> int:
        """Rounds so far, and those that are left at most."""
        taught = 0 if self._taught else self.settings.rounds
        if self._bench.begun:
            return self.round + self._bench.planned + taught
        left = (self._selection.race.planned, self.settings.finalists * self.settings.rounds)
        ways = MOST_WAYS * self.settings.ways
        more = (ways, self.settings.tune, self.settings.trials) if self._stage == "race" else ()
        return (
            self.round
            + taught
            + sum(left)
            + sum(bracket_rounds(one, self.settings.trial_rounds) for one in more)
        )

    @property
    def done(self) -> bool:
        """All finalists are trained, and what they teach."""
        return self._bench.done and (self._taught or "end" in self._due)

    def setup(self) -> None:
        """Look at the federation, and let those recipes begin that it deserves."""
        replies = self.clients.call("look", {}, reply=Record({"look": SUM})).ok
        look = Look.of(self.clients.total("look", replies, "look", FORMS))
        self._look = look.to_json()
        self._connect_peers()
        rows = portfolio(look, self.settings.recipes)
        self._selection.race.begin([Recipe.parse(row.recipe) for row in rows])
        self._enter("race", f"race {len(rows)} recipes", reason_of(look))

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; clients need new keys with each other."""
        super().load_state(state)
        self._connect_peers()

    def _connect_peers(self) -> None:
        if self._look["across"]:
            self.clients.connect_peers()

    def pace(self, spent: float) -> bool:
        """Give every stage its share of the time."""
        before = list(self._due), list(self._slot)
        if self._bench.begun:
            self._pace_finals(spent)
        elif self._selection.race.best_first:
            if self._stage == "race" and spent >= RACE_UNTIL and "narrow" not in self._due:
                self._due.append("narrow")
            if spent >= SEARCH_UNTIL and "finals" not in self._due:
                self._due.append("finals")
        return before != (self._due, self._slot)

    def wrap_up(self) -> None:
        """The budget is spent: the best so far is what there is."""
        self._wrapped_up = True
        self._due.append("end")

    def step(self) -> Row:
        """One round of a race or of the finals; or only what there is to end."""
        self.round += 1
        race, row = self._selection.race, {}
        self._obey()
        if not self._bench.begun and not race.running:
            self._advance()
        if "end" in self._due and self._bench.begun:
            self._bench.wrap_up()
        before = self._traffic
        if not self._bench.begun:
            row = self._selection.race_round()
        else:
            if self._bench.done and not self._taught and "end" not in self._due:
                self._teach()
            row = {} if self._bench.done else self._bench.step()
        if row:
            self._sent[row["code"]] = self._sent.get(row["code"], 0) + self._traffic - before
        note, self._note = self._note, {}
        self._log[-1]["rounds"] += 1
        return {"test_accuracy": None, **row, "round": self.round, "phase": self._stage, **note}

    def finish(self) -> Outcome:
        """What the clients take, and the proof."""
        self._close_stage()
        bench = self._bench
        choosing = Choosing(self.clients, self.settings, bench.totals, self.seed)
        choosing.restock(bench.entrants)
        every = [Candidate(**one) for one in self._candidates]
        chosen = choosing.choose(every, costs_of(bench.entrants, self._sent))
        proof = choosing.prove(baselines_of(self._candidates, bench.entrants))
        handed = choosing.collect() if self.settings.collect_models else {}
        common = common_model(chosen.candidates, every, bench.entrants)
        outcome = outcome_of(chosen, proof, common, handed)
        extra = {
            **outcome.extra,
            "look": self._look,
            "stages": self._log,
            "trials": self._selection.trials(),
        }
        return detailed(replace(outcome, extra=extra), self.settings, proof.total, {})

    @property
    def _traffic(self) -> int:
        """Bytes so far, up and down."""
        meter = self.federation.meter
        return int(meter.total("up") + meter.total("down"))

    def _pace_finals(self, spent: float) -> None:
        """Every finalist has its part of the time that is left."""
        bench = self._bench
        if bench.present < 0 or "next" in self._due:
            return
        if self._slot[0] != bench.present:
            part = max(FINALS_UNTIL - spent, 0.0) / max(bench.left + (not self._taught), 1)
            self._slot = [bench.present, spent + part]
        elif spent >= self._slot[1]:
            self._due.append("next")

    def _obey(self) -> None:
        """Do what the clock has asked for."""
        race = self._selection.race
        narrow = "narrow" in self._due and "narrowed" not in self._due
        if narrow and self._stage == "race" and race.running:
            race.narrow(SAFE)
            self._due.append("narrowed")
            self._decide(f"go on with {SAFE}", f"{RACE_UNTIL:.0%} of the time are spent")
        if {"finals", "end"} & set(self._due) and not self._bench.begun and race.best_first:
            race.wrap_up()
            self._begin_finals(f"{SEARCH_UNTIL:.0%} of the time are spent")
        if "next" in self._due:
            self._due.remove("next")
            self._bench.end_present()

    def _advance(self) -> None:
        """The next bracket of the search, or the finals."""
        if self._stage == "race":
            self._enter("search", "search beyond the winner", "the race is over")
        decision, why = self._beyond.next_bracket()
        if self._selection.race.running:
            self._decide(decision, why)
        else:
            self._begin_finals(why)

    def _race_ways(self) -> bool:
        """Race the best network in other ways of sharing; false if all that are worth it were."""
        race = self._selection.race
        recipes = other_ways(race.best_first, Look(**self._look))
        if recipes:
            race.begin(recipes)
        return bool(recipes)

    def _begin_finals(self, why: str) -> None:
        race = self._selection.race
        if not race.best_first:
            raise AutoFGLError(f"all {len(race.entries)} recipes diverged: lower 'lr'")
        chosen = entrants(race.best_first, self.settings.finalists, self.settings.inits)
        raced = {one.recipe: race.training(one) for one in reversed(race.best_first)}
        pairs = [(one, None if one.init else raced.get(one.recipe)) for one in chosen]
        self._enter("finals", f"train {len(chosen)} finalists to the end", why)
        self._bench.begin(pairs, race.room())

    def _teach(self) -> None:
        """Have the best common network learn from the mean of the best finalists."""
        self._taught = True
        every = [Candidate(**one) for one in self._candidates]
        teacher = teacher_of(every, self.settings.ensemble)
        common = [one for one in by_loss(every) if is_common(self._recipe_of(one.entrant))]
        if not teacher or not common:
            self._decide("teach nothing", "no second finalist is near the best")
            return
        one = Entrant(self._bench.entrants[common[0].entrant].recipe, ["taught"], teacher=teacher)
        self._bench.add(one)
        self._decide(f"train {one.label}", "one network instead of several: distill=true")

    def _recipe_of(self, entrant: int) -> Recipe:
        return Recipe.parse(self._bench.entrants[entrant].recipe)

    def _shelve(self, at: int) -> None:
        one = self._bench.entrants[at]
        tunings = TUNINGS if is_tunable(Recipe.parse(one.recipe)) else TUNINGS[:1]
        nodes, look = self._bench.totals[1], Look(**self._look)
        shares = look.class_shares if unlike(look) and is_common(Recipe.parse(one.recipe)) else ()
        made = shelve(self.clients, self.settings, at, one, tunings, nodes, shares)
        self._candidates += [asdict(each) for each in made]
        best = min(made, key=lambda each: each.loss)
        self._decide(f"keep {best.label}", f"calibrated validation loss {best.loss:.4f}")

    def _enter(self, stage: str, decision: str, why: str) -> None:
        self._close_stage()
        self._stage = stage
        self._log.append({"stage": stage, "decision": decision, "reason": why, "rounds": 0})
        self._decide(decision, why)

    def _close_stage(self) -> None:
        """What the last stage came to."""
        race = self._selection.race
        if self._log:
            tried = len(self._bench.entrants) if self._bench.begun else len(race.entries)
            best = race.best_first[0] if race.best_first else None
            self._log[-1] |= {"tried": tried}
            if best is not None:
                self._log[-1] |= {"best": best.recipe, "val_loss": best.loss}
                self._log[-1] |= {"val_accuracy": best.val_accuracy}

    def _decide(self, decision: str, why: str) -> None:
        """For the next row of the history; several decisions between two rounds go together."""
        for key, text in (("decision", decision), ("reason", why)):
            self._note[key] = f"{self._note[key]}; {text}" if key in self._note else text

    def _final(self, stage: str, recipe: Recipe) -> RoundEngine:
        return self.engine(recipe, stage=stage)


def reason_of(look: Look) -> str:
    """What of a look decides the portfolio, in words."""
    kind = "alike" if look.homophilous else "unlike"
    parts: Mapping[str, str] = {
        "neighbors": f"{kind} (adjusted homophily {look.adjusted_homophily:.2f})",
        "labels": f"{look.labels_per_client:g} a client",
        "features": f"{'binary' if look.binary else 'real'}, {look.density:.1%} not 0",
        "edges between clients": f"{look.cross:.1%}{'' if look.across else ', left out'}",
        "skew": f"{look.skew:.2f}",
    }
    return ", ".join(f"{name} {text}" for name, text in parts.items())
