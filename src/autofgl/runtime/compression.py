"""Updates in few bytes: on grids whose steps all clients know without being told.

A secure sum adds whole numbers, so all clients must round to the same steps, and nobody sees the
others' values to choose them by. But a sum that the clients open tells each of them how large the
last update was, vector by vector. The steps of the next one follow from that: they cover
:data:`HEADROOM` times the largest entry, in as many multiples as the bytes allow. What travels at
full precision are short vectors, and those that no sum has had yet. Where the server averages
weights, the steps follow from the weights that it has handed out.

``compress`` says how many multiples there are at least:

- ``none``: so many that rounding makes no difference; without protection, plain float32;
- ``half``: about as fine as half precision is, in two bytes a value;
- ``int8``: a byte a value. Values are rounded up or down at random, right on average.

With the last two a client keeps what it has rounded off, or cut off at the ends of the grid, and
adds it to its next update (error feedback: Seide et al., 2014; Karimireddy et al., 2019).
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.runtime.state import Saved
from autofgl.runtime.summing import has_weight
from autofgl.secure import Reveal, StepGrid, SumClient
from autofgl.seeding import numpy_generator

#: Multiples of a step that a client has at least, in each direction.
LEAST = {"none": 1 << 20, "half": 2047, "int8": 20}
#: What a grid covers, in units of the largest entry of the last sums.
HEADROOM = {"none": 16.0, "half": 4.0, "int8": 2.0}
#: How much of the largest entry is remembered from sum to sum.
_MEMORY = 0.9
#: Values of a vector that is worth a grid, and the smallest step of one.
_FEWEST, _SMALLEST = 256, 1e-30
#: What single precision may take a value beyond a limit by, and more.
_WITHIN = 1 - 1e-5
#: Weights are taken to be this large at least: they may grow fast in the beginning.
_WEIGHT = 0.25

#: Vectors, and the grid that some of them are on.
Encoded: TypeAlias = tuple[dict[str, Any], StepGrid | None]


class UpdateCoder(Saved):
    """Rounds one client's updates of one training; it begins anew with the next training."""

    saved = ("_largest", "_left")

    def __init__(self, sums: SumClient, compress: str, active: bool, seed: int, name: str) -> None:
        self.active = active
        self._sums = sums
        self._compress = compress
        self._seed, self._name = seed, name
        self._largest: dict[str, float] = {}
        self._left: dict[str, Any] = {}

    def open(self, sealed: Payload) -> dict[str, Any]:
        """The vectors of a sum for the clients."""
        return self._sums.open(sealed, self._grid(self._largest, "parties"))

    def observe(self, vectors: Mapping[str, Any]) -> None:
        """Take the steps of the next update from a sum that all clients have opened."""
        if not self.active:
            return
        for name, largest in _largest(vectors).items():
            self._largest[name] = max(largest, _MEMORY * self._largest.get(name, 0.0))

    def encode(self, tag: str, vectors: Mapping[str, Any]) -> Encoded:
        """Vectors for a sum that the clients open, and the grid that some of them are on."""
        known = {name: self._largest.get(name, 0.0) for name in vectors}
        return self._rounded(tag, vectors, self._grid(known, "parties"), "parties")

    def encode_weights(
        self, tag: str, vectors: Mapping[str, Any], handed_out: Mapping[str, Any]
    ) -> Encoded:
        """The same of weights for a sum that the server reads, which handed out the last ones."""
        known = {name: max(largest, _WEIGHT) for name, largest in _largest(handed_out).items()}
        return self._rounded(tag, vectors, self._grid(known, "server"), "server")

    def common_state(self) -> Payload:
        """What all clients have alike."""
        return {"largest": self._largest}

    def _rounded(
        self, tag: str, vectors: Mapping[str, Any], grid: StepGrid | None, reveal: Reveal
    ) -> Encoded:
        if grid is None:
            return dict(vectors), None
        most = self._sums.packing(LEAST[self._compress], reveal).most
        if self._compress == "none":  # nothing is kept, and the sum rounds by itself
            within = {
                name: _clipped(vectors[name], most * step) for name, step in grid.steps.items()
            }
            return {**vectors, **within}, grid
        keeps = has_weight(vectors)
        random = numpy_generator(self._seed, "rounding", self._name, tag)
        rounded = dict(vectors)
        for name in sorted(grid.steps):
            step, value = grid.steps[name], np.asarray(vectors[name], np.float64)
            if keeps:
                value = value + self._left.get(name, 0.0)
            multiples = np.asarray(value / step)
            if self._compress == "int8":
                multiples = np.floor(multiples + random.random(multiples.shape))
            np.rint(multiples, out=multiples)
            np.clip(multiples, -most, most, out=multiples)
            multiples *= step
            rounded[name] = multiples
            if keeps:
                self._left[name] = np.asarray(value - rounded[name], np.float32)
        return rounded, grid

    def _grid(self, largest: Mapping[str, float], reveal: Reveal) -> StepGrid | None:
        """The grid of vectors whose largest entries are about so large; none if they are zero."""
        if not self.active:
            return None
        packing = self._sums.packing(LEAST[self._compress], reveal)
        cover = HEADROOM[self._compress] / packing.most
        steps = {name: cover * one for name, one in largest.items() if cover * one > _SMALLEST}
        return StepGrid(packing.bits, steps) if steps else None


def _largest(vectors: Mapping[str, Any]) -> dict[str, float]:
    """The largest magnitudes of vectors that are worth a grid."""
    worth = {name: value for name, value in vectors.items() if np.size(value) >= _FEWEST}
    return {name: _magnitude(value) for name, value in worth.items()}


def _magnitude(value: Any) -> float:
    return max(float(np.max(value)), -float(np.min(value)))


def _clipped(value: Any, limit: float) -> Any:
    """A vector within a limit; most are."""
    if _magnitude(value) < _WITHIN * limit:
        return value
    return np.clip(np.asarray(value, np.float64), -limit, limit)
