"""Noise on what a party puts into a sum, so that the sum says little about any one party.

A release is a sum that somebody reads. Every party bounds its part (an update is scaled to a norm
of ``clip``, a figure is cut off at its bound) and adds its share of Gaussian noise before it masks
or encrypts anything, so whoever opens the sum finds the noise in it. A share has a standard
deviation of::

    z · C / sqrt(t − c)

for noise multiplier z (:mod:`autofgl.secure.accountant`), bound C, the t parties without which the
party helps to open no sum, and c parties that may tell each other and the server their noise. So
the noise of the others is z · C at least whoever is lost, exactly that in a sum of t, and by a
factor of sqrt(k / (t − c)) more in a sum of k parties. With t = ⌊2k/3⌋ + 1 that factor is 1.2 to
1.3. To take the surplus out again (XNoise, Jiang et al. 2024) costs a further phase in which
parties tell seeds of noise; it is not done. Parties with noise sum in one group, however many they
are: a server that sees the sums of groups would need as much noise in every one of them.

**A redone round is the same release.** Noise comes from a secret of the party and from the tag and
the values of a release: the same values under the same tag, as after a resume from an older
checkpoint, get the same noise and say nothing new. Other values get other noise and count as
another release. The secret is from the operating system, never from the run's seed, and so two runs
with the same seed have different weights.

**What is not exact.** Noise is drawn as doubles (Box and Muller, from a ChaCha20 stream; no value
lies beyond 8.6 standard deviations, which happens with a probability of 1e-17) and rounded by
the secure mode, to multiples of 2⁻⁴⁰ with ``shares``. The accountant treats it as real numbers. A
part's rounding moves a sum by 2⁻⁴¹ at most, some 10⁻¹⁰ of usual noise; an exact treatment takes
discrete noise (Kairouz, Liu and Steinke, The Distributed Discrete Gaussian Mechanism, 2021).
"""

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from autofgl.errors import UserError
from autofgl.secure import (
    Array,
    Payload,
    Reveal,
    SecureSumError,
    StepGrid,
    SumClient,
    SumRefused,
    SumVectors,
)
from autofgl.secure.accountant import PrivacyPlan, Releases, mu_of
from autofgl.secure.packing import Packing

Vectors = Mapping[str, NDArray[np.float64]]

_SECRET_BYTES = 32
_UPDATES, _FIGURES, _ROWS = "u", "f", "r"


def gaussian(key: bytes, size: int) -> NDArray[np.float64]:
    """Standard normal numbers that nobody without the key can tell; a key serves once."""
    pairs = (size + 1) // 2
    stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(16 * pairs))
    words = np.frombuffer(stream, "<u8").reshape(2, pairs)
    uniform = ((words >> np.uint64(11)) + 1.0) * 2.0**-53  # in (0, 1]
    radius, angle = np.sqrt(-2 * np.log(uniform[0])), 2 * np.pi * uniform[1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def brought_to(norm: float, vectors: Vectors) -> dict[str, NDArray[np.float64]]:
    """Vectors scaled together to a norm; zero where all are, or where any is not finite.

    Small ones are scaled up, which keeps the bound and needs no clip that fits the updates of a
    model that nobody has trained yet (automatic clipping: Bu et al. 2023, Das et al. 2021).
    """
    arrays = {name: np.asarray(array, np.float64) for name, array in vectors.items()}
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return {name: np.zeros_like(array) for name, array in arrays.items()}
    now = math.sqrt(sum(float(np.vdot(array, array)) for array in arrays.values()))
    factor = norm / now if now else 0.0
    return {name: array * factor for name, array in arrays.items()}


class NoiseRecord:
    """A party's secret, and the releases that it has made noise for; in a file, if it has one.

    A release is on record before it is made, so none is ever forgotten; of its values there is a
    digest alone. Without a file both are in the party's checkpoints only.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._secret = os.urandom(_SECRET_BYTES)
        self._made: dict[str, None] = {}
        if file is not None and file.exists():
            self._read(file.read_text())
        elif file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            self._append(self._secret.hex())

    @property
    def made(self) -> Releases:
        """How many releases are on record."""
        kinds = [entry[0] for entry in self._made]
        return Releases(kinds.count(_UPDATES), kinds.count(_FIGURES))

    def with_one(self, kinds: str, tag: str, vectors: Vectors) -> tuple[Releases, list[str]]:
        """The releases if one is made of these kinds and values, and its entries."""
        entries = [f"{kind}{self._digest(tag, vectors)}" for kind in kinds]
        new = [entry for entry in entries if entry not in self._made]
        made = self.made
        updates = made.updates + sum(entry[0] == _UPDATES for entry in new)
        return Releases(updates, made.figures + sum(entry[0] == _FIGURES for entry in new)), new

    def add(self, entries: list[str]) -> None:
        """Put a release on record."""
        for entry in entries:
            self._append(entry)
            self._made[entry] = None

    def note_rows(self, topic: str, vectors: Vectors, most: int) -> None:
        """Put it on record that rows are shown; the same ones again are no more."""
        entry = f"{_ROWS}{self._digest(topic, vectors)}"
        if entry not in self._made:
            if sum(made[0] == _ROWS for made in self._made) >= most:
                raise SumRefused(f"'{topic}': the {most} rows planned for a node were all shown")
            self.add([entry])

    def noise(self, kind: str, tag: str, vectors: Vectors) -> dict[str, NDArray[np.float64]]:
        """Standard normal numbers for the values of a release, always the same for the same."""
        key = hashlib.blake2b(
            f"{kind}{self._digest(tag, vectors)}".encode(), digest_size=32, key=self._secret
        )
        numbers = gaussian(key.digest(), sum(array.size for array in vectors.values()))
        noise, start = {}, 0
        for name, array in vectors.items():
            noise[name] = numbers[start : start + array.size].reshape(array.shape)
            start += array.size
        return noise

    def state(self) -> Payload:
        """Secret and releases, for the party's own checkpoint."""
        return {"secret": self._secret, "made": list(self._made)}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken; what a file has on record besides stays."""
        if self._file is None:
            self._secret = state["secret"]
        self.add([entry for entry in state["made"] if entry not in self._made])

    def _digest(self, tag: str, vectors: Vectors) -> str:
        digest = hashlib.blake2b(tag.encode(), digest_size=16, key=self._secret)
        for name in sorted(vectors):
            digest.update(f"/{name}/".encode())
            digest.update(np.ascontiguousarray(vectors[name]).tobytes())
        return digest.hexdigest()

    def _append(self, line: str) -> None:
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(f"{line}\n")
                file.flush()
                os.fsync(file.fileno())

    def _read(self, text: str) -> None:
        secret, *made = [line for line in text.splitlines() if line] or [""]
        try:
            self._secret = bytes.fromhex(secret)
        except ValueError:
            self._secret = b""
        if len(self._secret) != _SECRET_BYTES:
            raise UserError(f"{self._file} is damaged: without it the noise of a run is not known")
        self._made = dict.fromkeys(made)


def row_noise(epsilon: float, delta: float, most: int) -> float:
    """Noise multiplier z of each of ``most`` rows, so that all together are (ε, δ)-DP."""
    return math.sqrt(most) / mu_of(epsilon, delta)


class RowNoise:
    """Noise on rows that one party shows another, as fedgraph's embeddings: a bound for each row.

    Whoever is shown a row of a node learns it with (ε, δ)-DP over all ``most`` rows of that node in
    a run: whether it was this one or zero. A row that several parties ask for has the same noise
    for all of them. A row says what it was computed from: where that is a node's neighborhood, the
    guarantee is for the row and not for each node in it.
    """

    def __init__(
        self, epsilon: float, delta: float, clip: float, most: int, record: NoiseRecord
    ) -> None:
        self._scale = clip * row_noise(epsilon, delta, most)
        self._clip = clip
        self._most = most
        self.record = record

    def cover(self, topic: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows ``[n, width]`` of different nodes with noise; a topic stands for one row of each.

        Raises:
            SumRefused: That many rows of a node were not planned.
        """
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        values = np.nan_to_num(rows * np.minimum(1, self._clip / np.maximum(lengths, 1e-30)))
        self.record.note_rows(topic, {"rows": values}, self._most)
        noise = self.record.noise(_ROWS, topic, {"rows": values})["rows"]
        covered: NDArray[np.float32] = (values + self._scale * noise).astype(np.float32)
        return covered


class NoisyClient:
    """A party's side of any secure mode, with noise; nothing is summed without it.

    ``fewest`` parties are in every sum that is opened, of which ``colluders`` may tell their noise.
    """

    def __init__(
        self,
        inner: SumClient,
        plan: PrivacyPlan,
        record: NoiseRecord,
        *,
        clip: float,
        fewest: int,
        colluders: int,
    ) -> None:
        if fewest <= colluders:
            raise UserError(
                f"sums of {fewest} clients leave no noise if {colluders} of them tell theirs: "
                "raise secure_threshold or lower dp_colluders"
            )
        self.plan = plan
        self.record = record
        self._inner = inner
        self._clip = clip
        self._part = 1 / math.sqrt(fewest - colluders)
        self.fewest = fewest
        self.handle, self.open = inner.handle, inner.open
        self.wrap, self.unwrap = inner.wrap, inner.unwrap

    def protect(
        self,
        tag: str,
        vectors: Mapping[str, Array],
        *,
        reveal: Reveal = "server",
        active: bool = True,
        told: bytes = b"",
        grid: StepGrid | None = None,
    ) -> Payload:
        """Refused: nothing says how large the values may be, and so no noise covers them."""
        del vectors, reveal, active, told, grid
        raise SumRefused(f"'{tag}': with differential privacy nothing is summed without noise")

    def packing(self, least: int, reveal: Reveal) -> Packing:
        """See :class:`autofgl.secure.SumClient`; noise is on no grid."""
        return self._inner.packing(least, reveal)

    def release(
        self,
        tag: str,
        *,
        update: Vectors | None = None,
        figures: Vectors | None = None,
        bounds: Vectors | None = None,
        public: Vectors | None = None,
        weight: float = 1.0,
        reveal: Reveal = "server",
        active: bool = True,
        told: bytes = b"",
    ) -> Payload:
        """This party's part of a sum that is released.

        Args:
            tag: Names the sum.
            update: Vectors that are brought to one norm together.
            figures: Numbers that are cut off at their ``bounds``, each for itself; those with a
                bound of zero must not depend on the party's data and get no noise.
            bounds: Largest magnitudes, in the shapes of ``figures``.
            public: Vectors that do not depend on the party's data; no noise.
            weight: Multiplies everything with noise; the same at every party.
            reveal: Who reads the sum.
            active: Whether there is more in it than noise.
            told: Names what the server told the party.

        Raises:
            SumRefused: The plan has no room for another release.
        """
        parts = {
            _UPDATES: self._update(update or {}),
            _FIGURES: self._figures(figures or {}, bounds or {}),
        }
        noisy = dict(public or {})
        if not self.figure_deviation(bounds or {}):  # none of them depends on data
            noisy |= {name: weight * value for name, value in parts.pop(_FIGURES)[0].items()}
        kinds = "".join(kind for kind, (values, _) in parts.items() if values)
        values = {name: one for kind in kinds for name, one in parts[kind][0].items()}
        if kinds:
            self._spend(kinds, tag, values)
        for kind in kinds:
            own, scale = parts[kind]
            noise = self.record.noise(kind, tag, own)
            noisy |= {name: weight * (own[name] + scale[name] * noise[name]) for name in own}
        return self._inner.protect(tag, noisy, reveal=reveal, active=active, told=told)

    def _spend(self, kinds: str, tag: str, values: Vectors) -> None:
        """Enter a release into the record, if the plan has room for it."""
        made, entries = self.record.with_one(kinds, tag, values)
        if not self.plan.allows(made):
            raise SumRefused(
                f"'{tag}': the privacy budget of epsilon={self.plan.epsilon:g} is spent: "
                f"{self.plan.planned.updates} updates and {self.plan.planned.figures} sums of "
                "figures were planned"
            )
        self.record.add(entries)

    def _update(self, update: Vectors) -> tuple[SumVectors, Mapping[str, Any]]:
        values = brought_to(self._clip, update)
        return values, dict.fromkeys(values, self.plan.update_noise * self._clip * self._part)

    def _figures(self, figures: Vectors, bounds: Vectors) -> tuple[SumVectors, Mapping[str, Any]]:
        if figures.keys() != bounds.keys():
            raise SecureSumError("figures without bounds cannot be released with noise")
        values = {
            name: np.where(bounds[name] > 0, np.clip(np.nan_to_num(value), 0, bounds[name]), value)
            for name, value in figures.items()
        }
        noise = self.figure_deviation(bounds)
        return values, {name: noise * bound for name, bound in bounds.items()}

    def figure_deviation(self, bounds: Vectors) -> float:
        """Standard deviation of this party's noise on a figure with a bound of one.

        Each number over its bound lies in [0, 1]: m of them have a norm of sqrt(m) at most.
        """
        norm = math.sqrt(sum(int((bound > 0).sum()) for bound in bounds.values()))
        return self.plan.figure_noise * norm * self._part if norm else 0.0
