"""No protection: the server adds the vectors as they are. The interface is that of the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import (
    Array,
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    StepGrid,
    SumSettings,
    SumVectors,
    Total,
)
from autofgl.secure.contributions import (
    Header,
    Layout,
    common_header,
    flatten,
    take_field,
    take_grid,
    usual_header,
)
from autofgl.secure.packing import Packing, multiples_of

#: Bits of the integers that vectors on a grid are packed into.
_WORD = 64
#: Share of the values that a trimmed mean leaves out, at each end.
TRIMMED = 0.2


def readable(message: Payload) -> SumVectors:
    """The vectors of a contribution or of a sum, both of which are in the clear."""
    sent = _Vectors.from_payload(message)
    with np.errstate(invalid="ignore"):  # some NaN are signals
        return sent.split(sent.values.astype(np.float64))


def as_sent(message: Payload) -> SumVectors:
    """The same as views, in the precision in which they came: for checks, which copy nothing."""
    sent = _Vectors.from_payload(message)
    return sent.split(sent.values)


@dataclass(frozen=True)
class _Vectors:
    """Vectors as they travel: those at full precision, and integers for those on a grid."""

    layout: Layout
    grid: StepGrid | None
    values: NDArray[Any]
    packed: NDArray[np.int64]

    @classmethod
    def from_payload(cls, message: Payload) -> "_Vectors":
        layout = Layout.from_payload(message)
        grid = take_grid(message, layout)
        full, coarse = layout.parts(grid)
        values = take_field(message, "values", np.ndarray)
        if values.shape != (full.size,) or values.dtype not in (np.float32, np.float64):
            raise SecureSumError(f"malformed message: 'values' should be {full.size} numbers")
        packed = take_field(message, "packed", np.ndarray) if grid else np.zeros(0, np.int64)
        size = _packing(grid).size(coarse.size) if grid else 0
        if packed.shape != (size,) or packed.dtype != np.int64:
            raise SecureSumError(f"malformed message: 'packed' should be {size} integers")
        return cls(layout, grid, values, packed)

    @property
    def multiples(self) -> NDArray[np.int64]:
        """Of the steps of the grid."""
        coarse = self.layout.parts(self.grid)[1]
        return _packing(self.grid).unpack(self.packed, coarse.size) if self.grid else self.packed

    def split(self, values: NDArray[Any]) -> SumVectors:
        """The named arrays, in order; those at full precision have these values."""
        full, coarse = self.layout.parts(self.grid)
        found = full.split(values)
        if self.grid is None:
            return found
        steps = self.grid.steps
        found |= {name: one * steps[name] for name, one in coarse.split(self.multiples).items()}
        return {name: found[name] for name in self.layout}


def _packing(grid: StepGrid, parties: int = 1) -> Packing:
    return Packing(_WORD, grid.bits, parties)


class PlainClient:
    """Sends its vectors in the clear, float32 where all of them are."""

    def __init__(self, name: str, settings: SumSettings) -> None:
        self.name = name
        self.fewest = 1
        self._parties = len(settings.parties)

    def handle(self, phase: str, message: Payload) -> Payload:  # noqa: ARG002
        """There are no phases."""
        raise SecureSumError(f"secure mode 'none' has no phase '{phase}'")

    def protect(
        self,
        tag: str,
        vectors: Mapping[str, Array],
        *,
        reveal: Reveal = "server",
        active: bool = True,  # noqa: ARG002
        told: bytes = b"",  # noqa: ARG002
        grid: StepGrid | None = None,
    ) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        layout, packed = Layout.of(vectors), {}
        full = {name: vectors[name] for name in layout.parts(grid)[0]}
        _, flat = flatten(full)
        if grid is not None:
            packing = _packing(grid, self._parties)
            packed = {"packed": packing.pack(multiples_of(vectors, grid, packing.most))}
        narrow = all(np.asarray(array).dtype == np.float32 for array in full.values())
        values = flat.astype(np.float32) if narrow else flat
        header = Header(tag, b"", reveal, 0, layout, grid)
        return {**header.to_payload(), "values": values, **packed}

    def open(self, sealed: Payload, grid: StepGrid | None = None) -> SumVectors:  # noqa: ARG002
        """See :class:`autofgl.secure.SumClient`; all that it takes is in the sum."""
        return readable(sealed)

    def packing(self, least: int, reveal: Reveal) -> Packing:  # noqa: ARG002
        """See :class:`autofgl.secure.SumClient`."""
        return Packing.of(_WORD, self._parties, least)

    def wrap(self, name: str, data: bytes) -> bytes:  # noqa: ARG002
        """In the clear, as all else."""
        return data

    def unwrap(self, name: str, box: bytes) -> bytes:  # noqa: ARG002
        """See :class:`autofgl.secure.SumClient`."""
        return box


class PlainServer:
    """Adds in float64, in the order of the parties; sums of float32 are sent back as such."""

    wrong: tuple[str, ...] = ()

    def __init__(self, settings: SumSettings) -> None:
        self._parties = settings.parties
        self.fewest = 1

    def setup(self, ask: Ask) -> None:
        """There is nothing to agree on."""

    def unfit(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload]
    ) -> dict[str, str]:
        """Whose contributions cannot be in a sum, and why: they are malformed, not finite, or have
        other shapes than most.
        """
        _, wrong = usual_header(tag, reveal, b"", contributions, self._parties, 1)
        for name in contributions.keys() - wrong.keys():
            try:
                sent = _Vectors.from_payload(contributions[name])
                finite = np.isfinite(sent.values).all()
                why = "" if finite else f"its part of '{tag}' holds NaN or infinite values"
                most = _packing(sent.grid, len(self._parties)).most if sent.grid else 0
                if (np.abs(sent.multiples) > most).any():
                    why = f"its part of '{tag}' holds more than {most} steps"
            except SecureSumError as error:
                why = str(error)
            if why:
                wrong[name] = why
        return wrong

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:  # noqa: ARG002
        """See :class:`autofgl.secure.SumServer`."""
        total, contributors = self._add(tag, contributions, "server")
        return Total(total.split(total.values), contributors)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:  # noqa: ARG002
        """See :class:`autofgl.secure.SumServer`."""
        total, contributors = self._add(tag, contributions, "parties")
        narrow = all(sent["values"].dtype == np.float32 for sent in contributions.values())
        values = total.values.astype(np.float32) if narrow else total.values
        first, keys = contributions[contributors[0]], ("names", "shapes", "bits", "steps")
        about = {key: first[key] for key in keys if key in first}
        about |= {"packed": total.packed} if total.grid else {}
        return {"values": values, "contributors": list(contributors), **about}

    def combined(
        self,
        tag: str,
        contributions: Mapping[str, Payload],
        how: str,
        figures: Collection[str] = (),
    ) -> Total:
        """As :meth:`total`, but vectors are combined as :func:`combine_vectors` does it; where
        there is no ``share`` they are added up, and so are ``figures``.
        """
        summed, contributors = self._add(tag, contributions, "server")
        total = summed.split(summed.values)
        if "share" in total:
            parts = [readable(contributions[name]) for name in contributors]
            total |= combine_vectors(parts, how, total.keys() - {"share", *figures})
        return Total(total, contributors)

    def seal_combined(self, tag: str, contributions: Mapping[str, Payload], how: str) -> Payload:
        """As :meth:`seal`, but vectors are combined as :func:`combine_vectors` does it, and so on
        no grid.
        """
        sealed = self.seal(tag, contributions, lambda _, __: {})
        total = readable(sealed)
        if "share" in total:
            parts = [readable(contributions[name]) for name in sealed["contributors"]]
            total |= combine_vectors(parts, how, total.keys() - {"share"})
        _, flat = flatten(total)
        kept = {key: sealed[key] for key in ("contributors", "names", "shapes")}
        return {**kept, "values": flat.astype(sealed["values"].dtype)}

    def _add(
        self, tag: str, contributions: Mapping[str, Payload], reveal: Reveal
    ) -> tuple[_Vectors, tuple[str, ...]]:
        header = common_header(tag, reveal, b"", contributions, self._parties, 1)
        contributors = tuple(name for name in self._parties if name in contributions)
        parts = [_Vectors.from_payload(contributions[name]) for name in contributors]
        flat, packed = np.zeros(parts[0].values.size), np.zeros_like(parts[0].packed)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in parts:
                flat += part.values
                packed += part.packed
        if not np.isfinite(flat).all():
            raise SecureSumError(f"the sum '{tag}' overflows or holds values that are not finite")
        return _Vectors(header.layout, header.grid, flat, packed), contributors


def combine_vectors(parts: Sequence[SumVectors], how: str, names: Collection[str]) -> SumVectors:
    """Some of the parties' weighted vectors as one sum that a few of them cannot make arbitrary.

    Coordinate by coordinate it is the ``median`` of the parties' values, or their mean without the
    largest and the smallest fifth (``trimmed``; Yin et al., ICML 2018, Definitions 1 and 2), times
    the sum of all ``share``. Every party with a share counts the same, as in the paper: weights are
    what parties claim of themselves, and a false one should not buy votes.
    """
    voters = [part for part in parts if part["share"] > 0]
    whole = sum(float(part["share"]) for part in voters)
    if not voters:
        return {name: np.zeros_like(parts[0][name]) for name in names}
    cut = int(TRIMMED * len(voters))
    combined = {}
    for name in names:
        values = np.stack([part[name] / float(part["share"]) for part in voters])
        if how == "median":
            combined[name] = whole * np.median(values, axis=0)
        else:
            combined[name] = whole * np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)
    return combined
