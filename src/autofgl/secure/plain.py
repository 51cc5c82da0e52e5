"""No protection: the server adds the vectors as they are. The interface is that of the others."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autofgl.secure import (
    Array,
    Ask,
    Payload,
    Reveal,
    SecureSumError,
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
    usual_header,
)

#: Share of the values that a trimmed mean leaves out, at each end.
TRIMMED = 0.2


def readable(message: Payload) -> SumVectors:
    """The vectors of a contribution or of a sum, both of which are in the clear."""
    layout = Layout.from_payload(message)
    return layout.split(_values(message, layout))


def as_sent(message: Payload) -> SumVectors:
    """The same as views, in the precision in which they came: for checks, which copy nothing."""
    layout = Layout.from_payload(message)
    return layout.split(_sent_values(message, layout))


class PlainClient:
    """Sends its vectors in the clear, float32 where all of them are."""

    def __init__(self, name: str, settings: SumSettings) -> None:  # noqa: ARG002
        self.name = name
        self.fewest = 1

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
    ) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        layout, flat = flatten(vectors)
        narrow = all(np.asarray(array).dtype == np.float32 for array in vectors.values())
        values = flat.astype(np.float32) if narrow else flat
        return {**Header(tag, b"", reveal, 0, layout).to_payload(), "values": values}

    open = staticmethod(readable)

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
        header, wrong = usual_header(tag, reveal, b"", contributions, self._parties, 1)
        for name in contributions.keys() - wrong.keys():
            try:
                finite = np.isfinite(_sent_values(contributions[name], header.layout)).all()
                why = "" if finite else f"its part of '{tag}' holds NaN or infinite values"
            except SecureSumError as error:
                why = str(error)
            if why:
                wrong[name] = why
        return wrong

    def total(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Total:  # noqa: ARG002
        """See :class:`autofgl.secure.SumServer`."""
        header, flat, contributors = self._add(tag, contributions, "server")
        return Total(header.layout.split(flat), contributors)

    def seal(self, tag: str, contributions: Mapping[str, Payload], ask: Ask) -> Payload:  # noqa: ARG002
        """See :class:`autofgl.secure.SumServer`."""
        _, flat, contributors = self._add(tag, contributions, "parties")
        narrow = all(sent["values"].dtype == np.float32 for sent in contributions.values())
        values = flat.astype(np.float32) if narrow else flat
        layout = {key: contributions[contributors[0]][key] for key in ("names", "shapes")}
        return {"values": values, "contributors": list(contributors), **layout}

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
        header, flat, contributors = self._add(tag, contributions, "server")
        total = header.layout.split(flat)
        if "share" in total:
            parts = [readable(contributions[name]) for name in contributors]
            total |= combine_vectors(parts, how, total.keys() - {"share", *figures})
        return Total(total, contributors)

    def seal_combined(self, tag: str, contributions: Mapping[str, Payload], how: str) -> Payload:
        """As :meth:`seal`, but vectors are combined as :func:`combine_vectors` does it."""
        sealed = self.seal(tag, contributions, lambda _, __: {})
        total = readable(sealed)
        if "share" in total:
            parts = [readable(contributions[name]) for name in sealed["contributors"]]
            total |= combine_vectors(parts, how, total.keys() - {"share"})
        _, flat = flatten(total)
        return {**sealed, "values": flat.astype(sealed["values"].dtype)}

    def _add(
        self, tag: str, contributions: Mapping[str, Payload], reveal: Reveal
    ) -> tuple[Header, NDArray[np.float64], tuple[str, ...]]:
        header = common_header(tag, reveal, b"", contributions, self._parties, 1)
        contributors = tuple(name for name in self._parties if name in contributions)
        flat = np.zeros(header.layout.size)
        with np.errstate(over="ignore", invalid="ignore"):
            for name in contributors:
                flat += _values(contributions[name], header.layout)
        if not np.isfinite(flat).all():
            raise SecureSumError(f"the sum '{tag}' overflows or holds values that are not finite")
        return header, flat, contributors


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


def _values(message: Payload, layout: Layout) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # some NaN are signals
        return _sent_values(message, layout).astype(np.float64)


def _sent_values(message: Payload, layout: Layout) -> NDArray[Any]:
    values = take_field(message, "values", np.ndarray)
    if values.shape != (layout.size,) or values.dtype not in (np.float32, np.float64):
        raise SecureSumError(f"malformed message: 'values' should be {layout.size} numbers")
    return values
