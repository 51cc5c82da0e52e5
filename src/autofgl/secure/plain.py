"""No protection: the server adds the vectors as they are. The interface is that of the others."""

from collections.abc import Mapping

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
from autofgl.secure.contributions import Header, Layout, common_header, flatten, take_field


def readable(message: Payload) -> SumVectors:
    """The vectors of a contribution or of a sum, both of which are in the clear."""
    layout = Layout.from_payload(message)
    return layout.split(_values(message, layout))


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


def _values(message: Payload, layout: Layout) -> NDArray[np.float64]:
    values = take_field(message, "values", np.ndarray)
    if values.shape != (layout.size,) or values.dtype not in (np.float32, np.float64):
        raise SecureSumError(f"malformed message: 'values' should be {layout.size} numbers")
    return values.astype(np.float64)
