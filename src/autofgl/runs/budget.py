"""How much time a run may take, and how much it has taken."""

import re
import time
from dataclasses import dataclass

from autofgl.errors import UserError


@dataclass(frozen=True)
class Budget:
    """Time after which no further round is begun.

    With ``cpu`` seconds of this process's computing count, which other programs on the machine do
    not shorten, rather than those of the clock.
    """

    seconds: float
    cpu: bool = False

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """A budget of ``90s``, ``10m``, ``1h30m`` or a plain number, with or without `` cpu``."""
        match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?(\s*cpu)?", text.strip())
        if not match or not any(match.groups()[:3]):
            raise UserError(f"'{text}' is not a duration: write 90s, 10m, 1h30m or '10m cpu'")
        hours, minutes, seconds = (float(part or 0) for part in match.groups()[:3])
        return cls(3600 * hours + 60 * minutes + seconds, cpu=bool(match[4]))

    def __str__(self) -> str:
        return f"{self.seconds:g}s cpu" if self.cpu else f"{self.seconds:g}s"


class Stopwatch:
    """Seconds of a run, those before it was resumed included."""

    def __init__(self, wall_s: float = 0.0, cpu_s: float = 0.0) -> None:
        self._wall = wall_s - time.perf_counter()
        self._cpu = cpu_s - time.process_time()

    @property
    def wall_s(self) -> float:
        """By the clock."""
        return self._wall + time.perf_counter()

    @property
    def cpu_s(self) -> float:
        """Of computing, over all threads of this process; its worker processes do not count."""
        return self._cpu + time.process_time()

    def spent(self, budget: Budget) -> float:
        """The share of a budget that is spent."""
        used = self.cpu_s if budget.cpu else self.wall_s
        return used / budget.seconds if budget.seconds else 1.0
