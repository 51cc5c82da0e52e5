"""What the user asks of a table or a figure."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from autofgl.errors import UserError, unknown_name
from autofgl.methods.catalog import METHODS


class _Seeded(Protocol):
    @property
    def seeds(self) -> int: ...


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_Named)


@dataclass(frozen=True)
class Options:
    """The words after ``autofgl reproduce NAME``.

    Attributes:
        out: Folder of the table or figure.
        columns: Names of the datasets to run; none: all.
        rows: Names of the rows or lines to run; none: all.
        seeds: How many seeds; none: each row's own number.
        budget: Time budget of each search of a table.
        secure: How sums are protected.
        data_root: Folder with raw datasets.
        rounds: Rounds of each training of a figure; none: the figure's own number.
        episodes: Episodes of the learning of each policy of a figure; none: the figure's own
            number.
    """

    out: Path
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    seeds: int | None = None
    budget: str = "10m"
    secure: str = "none"
    data_root: str | None = None
    rounds: int | None = None
    episodes: int | None = None

    def secure_of(self, method: str) -> str:
        """The mode for a method; those that sum nothing have nothing to protect."""
        known = METHODS.get(method)
        return self.secure if known is None or known.sums_securely else "none"

    def seeds_of(self, entry: _Seeded) -> int:
        """With how many seeds a row or a figure is run.

        Raises:
            UserError: With less than one.
        """
        if self.seeds is not None and self.seeds < 1:
            raise UserError(f"--seeds {self.seeds}: there must be one at least")
        return entry.seeds if self.seeds is None else self.seeds


def chosen(kind: str, names: Iterable[str], choices: Iterable[Named]) -> list[Named]:
    """The choices of these names, in their own order; all of them if there are no names.

    Raises:
        UserError: A name is none of them.
    """
    by_name = {choice.name: choice for choice in choices}
    wanted = [name.lower() for name in names]
    for name in wanted:
        if name not in by_name:
            raise unknown_name(kind, name, by_name)
    return [choice for name, choice in by_name.items() if not wanted or name in wanted]
