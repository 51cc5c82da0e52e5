"""What attacks got: one line for each, and all of them together. Nothing here needs NumPy."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Who: TypeAlias = Literal["honest server", "active server", "curious peer"]
Verdict: TypeAlias = Literal["nothing", "partly", "everything"]

#: Headings of the table of :meth:`Audit.rows`.
COLUMNS = ("who", "attack", "verdict", "what it got", "measured", "by chance")


@dataclass(frozen=True)
class Leak:
    """What one attack got, with a figure and the figure of somebody who guesses."""

    who: Who
    attack: str
    verdict: Verdict
    got: str
    measure: str = ""
    figure: float | None = None
    chance: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        figure = "" if self.figure is None else f"{self.measure} {self.figure:.3g}"
        chance = "" if self.chance is None else f"{self.chance:.3g}"
        return self.who, self.attack, self.verdict, self.got, figure, chance


@dataclass(frozen=True)
class Audit:
    """All attacks on a run like this one; ``rounds`` were recorded of the ``planned`` ones."""

    method: str
    secure: str
    clients: int
    rounds: int
    planned: int
    leaks: Sequence[Leak]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of :data:`COLUMNS`, an attack a row."""
        return [leak.cells for leak in self.leaks]

    @property
    def summary(self) -> str:
        """A sentence on what was attacked."""
        return (
            f"{self.method}, secure sums {self.secure}, {self.clients} clients: attacks on "
            f"{self.rounds} rounds of {self.planned} planned"
        )

    def to_json(self) -> dict[str, Any]:
        """As in ``audit.json``."""
        return {**asdict(self), "summary": self.summary, "leaks": [asdict(a) for a in self.leaks]}


def graded(figure: float, chance: float, best: float) -> Verdict:
    """How far a figure is on its way from guessing to knowing.

    Less than a twentieth of the way is *nothing*, more than nine tenths *everything*.
    """
    way = (figure - chance) / (best - chance) if best != chance else 0.0
    if way < 0.05:
        return "nothing"
    return "everything" if way > 0.9 else "partly"
