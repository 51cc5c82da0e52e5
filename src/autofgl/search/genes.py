"""What a candidate is made of: genes that choose among names, numbers of a list or a range."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from autofgl.search.searcher import SearchError

Value: TypeAlias = str | bool | int | float


@dataclass(frozen=True)
class Gene(ABC):
    """One choice of a candidate; ``name`` is its key in a chromosome."""

    name: str

    @property
    @abstractmethod
    def values(self) -> Sequence[Value] | None:
        """All values in order, or None where there is a continuum of them."""

    @abstractmethod
    def check(self, value: Any) -> Value:
        """The value as a plain Python one; one of another type or out of range is refused."""

    def draw(self, rng: np.random.Generator) -> Value:
        """A random value; where they can be listed, all are equally likely."""
        values = self.values or ()
        return values[int(rng.integers(len(values)))]

    def other(self, value: Any, rng: np.random.Generator) -> Value:
        """A random value that is not this one, where there is a choice."""
        before = plain_value(value)
        if self.values is not None and len(self.values) < 2:
            return self.check(before)
        while True:
            new = self.draw(rng)
            if new != before or type(new) is not type(before):
                return new

    def _require(self, holds: bool, reason: str) -> None:
        if not holds:
            raise SearchError(f"gene '{self.name}' {reason}: {self}")

    def _refuse(self, value: Any, allowed: str) -> SearchError:
        return SearchError(f"gene '{self.name}' is {value!r}; it must be {allowed}")


@dataclass(frozen=True)
class Categorical(Gene):
    """One of some named things; 1, 1.0 and True are three of them."""

    choices: tuple[Value, ...]

    def __post_init__(self) -> None:
        choices = tuple(plain_value(choice) for choice in self.choices)
        fit = bool(choices) and all(isinstance(choice, str | int | float) for choice in choices)
        self._require(fit, "needs at least one choice, and only text, numbers or booleans")
        different = len({(type(choice), choice) for choice in choices}) == len(choices)
        self._require(different, "has a choice twice")
        object.__setattr__(self, "choices", choices)

    @property
    def values(self) -> Sequence[Value]:
        """The choices."""
        return self.choices

    def check(self, value: Any) -> Value:
        """See :meth:`Gene.check`."""
        plain = plain_value(value)
        for choice in self.choices:
            if type(choice) is type(plain) and choice == plain:
                return choice
        raise self._refuse(value, f"one of {', '.join(map(repr, self.choices))}")


@dataclass(frozen=True)
class Ordinal(Categorical):
    """One of some numbers, in ascending order: neighbors are alike, which a searcher may use."""

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = [c for c in self.choices if isinstance(c, int | float)]
        ordered = len(numbers) == len(self.choices) and sorted(numbers) == numbers
        self._require(ordered, "needs numbers in ascending order")


@dataclass(frozen=True)
class Integer(Gene):
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        whole = _is_integer(self.low) and _is_integer(self.high)
        self._require(whole and self.low <= self.high, "needs whole numbers low <= high")

    @property
    def values(self) -> Sequence[Value]:
        """The numbers."""
        return range(self.low, self.high + 1)

    def check(self, value: Any) -> int:
        """See :meth:`Gene.check`."""
        plain = plain_value(value)
        if not (_is_integer(plain) and self.low <= plain <= self.high):
            raise self._refuse(value, f"a whole number from {self.low} to {self.high}")
        return int(plain)


@dataclass(frozen=True)
class Float(Gene):
    """A number, uniform from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        self._require(finite and self.low <= self.high, "needs finite numbers low <= high")

    @property
    def values(self) -> Sequence[Value] | None:
        """A continuum, unless both ends are one."""
        return (float(self.low),) if self.low == self.high else None

    def draw(self, rng: np.random.Generator) -> float:
        """A random number of the range."""
        return float(rng.uniform(self.low, self.high))

    def check(self, value: Any) -> float:
        """See :meth:`Gene.check`."""
        plain = plain_value(value)
        number = isinstance(plain, int | float) and not isinstance(plain, bool)
        if not (number and self.low <= plain <= self.high):
            raise self._refuse(value, f"a number from {self.low} to {self.high}")
        return float(plain)


@dataclass(frozen=True)
class LogFloat(Float):
    """A positive number whose logarithm is uniform: a rate, of which the magnitude counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.low > 0, "needs numbers above 0")

    def draw(self, rng: np.random.Generator) -> float:
        """A random number of the range."""
        number = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return min(max(number, float(self.low)), float(self.high))


def plain_value(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
