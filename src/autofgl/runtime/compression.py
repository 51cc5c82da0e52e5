"""Updates in few bytes: on grids whose steps all clients know without being told.

A secure sum adds whole numbers, so all clients must round to the same steps, and nobody sees the
others' values to choose them by. But a sum that the clients open tells each of them how large the
last update was, vector by vector. The steps of the next one follow from that: they cover
:data:`HEADROOM` times the largest entry, in as many multiples as the bytes allow. What travels at
full precision are short vectors, and those that no sum has had yet.

``compress`` says how many multiples there are at least:

- ``none``: so many that rounding makes no difference; without protection, plain float32;
- ``half``: about as fine as half precision is, in two bytes a value;
- ``int8``: a byte a value. Values are rounded up or down at random, right on average.

With the last two a client keeps what it has rounded off, or cut off at the ends of the grid, and
adds it to its next update (error feedback: Seide et al., 2014; Karimireddy et al., 2019).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from autofgl.federation.payload import Payload
from autofgl.runtime.clients import has_weight
from autofgl.runtime.state import Saved
from autofgl.secure import Grid, SumClient
from autofgl.seeding import numpy_generator

#: Multiples of a step that a client has at least, in each direction.
LEAST = {"none": 1 << 20, "half": 2047, "int8": 20}
#: What a grid covers, in units of the largest entry of the last sums.
HEADROOM = {"none": 16.0, "half": 4.0, "int8": 2.0}
#: How much of the largest entry is remembered from sum to sum.
_MEMORY = 0.9
#: Values of a vector that is worth a grid, and the smallest step of one.
_FEWEST, _SMALLEST = 256, 1e-30


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
        return self._sums.open(sealed, self._grid(self._largest) if self.active else None)

    def observe(self, vectors: Mapping[str, Any]) -> None:
        """Take the steps of the next update from a sum that all clients have opened."""
        if not self.active:
            return
        for name, value in vectors.items():
            if np.size(value) >= _FEWEST:
                largest = float(np.abs(value).max())
                self._largest[name] = max(largest, _MEMORY * self._largest.get(name, 0.0))

    def encode(self, tag: str, vectors: Mapping[str, Any]) -> tuple[dict[str, Any], Grid | None]:
        """Vectors for a sum that the clients open, and the grid that some of them are on."""
        grid = self._grid(vectors) if self.active else None
        if grid is None or not grid.steps:
            return dict(vectors), None
        most = self._sums.packing(LEAST[self._compress], "parties").most
        keeps = self._compress != "none" and has_weight(vectors)
        random = numpy_generator(self._seed, "rounding", self._name, tag)
        rounded = dict(vectors)
        for name in sorted(grid.steps):
            step, value = grid.steps[name], np.asarray(vectors[name], np.float64)
            if keeps:
                value = value + self._left.get(name, 0.0)
            multiples = value / step
            if self._compress == "int8":
                multiples = np.floor(multiples + random.random(multiples.shape))
            rounded[name] = np.clip(np.rint(multiples), -most, most) * step
            if keeps:
                self._left[name] = np.asarray(value - rounded[name], np.float32)
        return rounded, grid

    def common_state(self) -> Payload:
        """What all clients have alike."""
        return {"largest": self._largest}

    def _grid(self, names: Mapping[str, Any]) -> Grid:
        """The grid of the vectors of these names whose size is known by now."""
        packing = self._sums.packing(LEAST[self._compress], "parties")
        cover = HEADROOM[self._compress] / packing.most
        steps = {name: cover * self._largest.get(name, 0.0) for name in names}
        return Grid(packing.bits, {name: step for name, step in steps.items() if step > _SMALLEST})
