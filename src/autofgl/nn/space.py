"""The search space A(L) of FL-AGCNS (section 3.1, Table 1) and its codes.

A code has 2L + 2 genes: the input activation IS, for each layer i = 1..L its type and the index of
its predecessor (0 is the input stage, ``None`` ends the network: layers i..L do not exist), and
the output activation OS. Layer i thus has i + 1 choices of a predecessor, and
``∏ 12 (i + 1) = 12^L (L + 1)!`` ways to set all layers.

Torch is not imported here: :data:`autofgl.nn.conv.CONVOLUTIONS` has the layers that these names
stand for, :data:`autofgl.nn.models.base.ACTIVATION_FUNCTIONS` the activations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from autofgl.errors import UserError, unknown_name

#: FL-AGCNS, Table 1, ``LType``.
PAPER_TYPES = (
    "gat", "gin", "sage", "gcn", "sgc", "appnp",
    "agnn", "arma", "feast", "gen", "gmm", "gatedgraph",
)  # fmt: skip

#: All layer types, those beyond the paper last.
LAYER_TYPES = (*PAPER_TYPES, "gat6", "sgc4", "appnp3", "gatedgraph1")

#: FL-AGCNS, Table 1, ``IS`` and ``OS``.
ACTIVATIONS = ("sigmoid", "tanh", "relu", "softmax", "identity")

#: Genes as integers, ``[2L + 2]``.
Code = npt.NDArray[np.int64]

#: Codes that a space remembers the architectures of: a search asks for the same ones all the time.
_MOST_DECODED = 4096

#: Which layers' outputs are averaged: all existing ones, or those that feed no other layer.
Fusion = Literal["all", "leaves"]


@dataclass(frozen=True)
class Layer:
    """Type of a layer and the index of its predecessor; None ends the network."""

    type: str
    previous: int | None

    def __str__(self) -> str:
        return f"{self.type}<{'none' if self.previous is None else self.previous}"


@dataclass(frozen=True)
class Genotype:
    """An architecture: input activation, L layers, output activation.

    Its text form names the existing layers only, each with its predecessor, as in
    ``relu | gcn<0 gat<1 appnp<0 | identity``, or ``relu | - | identity`` without any.
    """

    input: str
    layers: tuple[Layer, ...]
    output: str

    def __str__(self) -> str:
        return f"{self.input} | {' '.join(map(str, self.existing)) or '-'} | {self.output}"

    @property
    def existing(self) -> tuple[Layer, ...]:
        """The layers before the first None."""
        ends = (i for i, layer in enumerate(self.layers) if layer.previous is None)
        return self.layers[: next(ends, len(self.layers))]

    @property
    def depth(self) -> int:
        """Number of existing layers."""
        return len(self.existing)

    def leaves(self) -> tuple[int, ...]:
        """Indices (from 1) of the existing layers that are no layer's predecessor."""
        used = {layer.previous for layer in self.existing}
        return tuple(i for i in range(1, self.depth + 1) if i not in used)

    def shape(self) -> tuple[Any, ...]:
        """The network without the numbers of its layers, to be compared and hashed.

        Two codes of one shape build the same stand-alone network: the mean over the layers knows
        no order. In a SuperNet they still differ, where layers of one type have unlike weights.
        """
        below: list[list[Any]] = [[] for _ in range(self.depth + 1)]
        for index in range(self.depth, 0, -1):
            layer = self.existing[index - 1]
            below[layer.previous or 0].append((layer.type, tuple(sorted(below[index]))))
        return (self.input, tuple(sorted(below[0])), self.output)


class Space:
    """All genotypes of L layers.

    Args:
        layers: Number L of layers.
        types: The choices of a layer's type, in the order of their numbers. One from outside the
            package, ``file.py:Class`` or ``module:Class``, goes by its class in lower case.
        activations: The choices of IS and of OS.
        stop: Probability of None where a predecessor is drawn. Left open, each of the i + 1
            choices is alike, which makes every second random code end before its first layer.
    """

    def __init__(
        self,
        layers: int = 6,
        types: Sequence[str] = PAPER_TYPES,
        activations: Sequence[str] = ACTIVATIONS,
        stop: float | None = None,
    ) -> None:
        if layers < 0:
            raise UserError(f"search space: layers must not be negative, not {layers}")
        if stop is not None and not 0.0 <= stop <= 1.0:
            raise UserError(f"search space: stop must lie in [0, 1], not {stop}")
        self.layers = layers
        self.own = own_types(types)
        names = [type_name(one) for one in types]
        self.types = _checked("layer type", names, (*LAYER_TYPES, *self.own))
        self.activations = _checked("activation", activations, ACTIVATIONS)
        self.stop = stop
        self._decoded: dict[Any, Genotype] = {}

    @property
    def cardinalities(self) -> Code:
        """Number of choices of every gene: IS, then type and predecessor by layer, then OS."""
        genes = [n for i in range(1, self.layers + 1) for n in (len(self.types), i + 1)]
        ends = len(self.activations)
        return np.array([ends, *genes, ends], dtype=np.int64)

    def check(self, genotype: Genotype) -> Genotype:
        """The genotype itself; a :class:`UserError` if it does not lie in this space."""
        for name in (genotype.input, genotype.output):
            if name not in self.activations:
                raise unknown_name("activation", name, self.activations)
        if len(genotype.layers) != self.layers:
            raise UserError(
                f"architecture '{genotype}' has {len(genotype.layers)} layers, "
                f"the search space {self.layers}"
            )
        for index, layer in enumerate(genotype.layers, start=1):
            _check_layer(index, layer, self.types)
        return genotype

    def canonical(self, genotype: Genotype) -> Genotype:
        """The genotype with all genes that cannot matter (after the first None) set alike."""
        existing = genotype.existing
        rest = (Layer(self.types[0], None),) * (self.layers - len(existing))
        return Genotype(genotype.input, existing + rest, genotype.output)

    def encode(self, genotype: Genotype) -> Code:
        """Genes as integers ``[2L + 2]``; a predecessor j is j + 1, None is 0."""
        genes = [self.activations.index(genotype.input)]
        for layer in self.check(genotype).layers:
            previous = 0 if layer.previous is None else layer.previous + 1
            genes += [self.types.index(layer.type), previous]
        return np.array([*genes, self.activations.index(genotype.output)], dtype=np.int64)

    def decode(self, code: npt.ArrayLike) -> Genotype:
        """The genotype of integers ``[2L + 2]``; a :class:`UserError` if they are none."""
        genes = np.asarray(code)
        key = (genes.dtype.char, genes.shape, genes.tobytes())
        if key not in self._decoded:
            genotype = self._decode(genes)
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            self._decoded[key] = genotype
        return self._decoded[key]

    def _decode(self, genes: npt.NDArray[Any]) -> Genotype:
        limits = self.cardinalities
        if genes.shape != limits.shape or not np.issubdtype(genes.dtype, np.integer):
            raise UserError(
                f"an architecture's code has {len(limits)} integers, not {genes.dtype} "
                f"{list(genes.shape)}"
            )
        if ((genes < 0) | (genes >= limits)).any():
            raise UserError(f"code {genes.tolist()} exceeds the choices {limits.tolist()}")
        first, *middle, last = (int(gene) for gene in genes)
        layers = tuple(
            Layer(self.types[kind], None if previous == 0 else previous - 1)
            for kind, previous in zip(middle[::2], middle[1::2], strict=True)
        )
        return Genotype(self.activations[first], layers, self.activations[last])

    def parse(self, text: str) -> Genotype:
        """The canonical genotype of a text such as ``relu | gcn<0 gat<1 appnp<0 | identity``.

        Raises:
            UserError: The text is malformed, or names what the space does not have.
        """
        parts = [part.strip().lower() for part in text.split("|")]
        if len(parts) != 3:
            raise UserError(
                f"architecture '{text}' must read 'input | layers | output', "
                "as in 'relu | gcn<0 gat<1 | identity'"
            )
        words = [] if parts[1] in ("", "-") else parts[1].split()
        if len(words) > self.layers:
            raise UserError(
                f"architecture '{text}' has {len(words)} layers, at most {self.layers} are allowed"
            )
        existing = tuple(_parse_layer(word) for word in words)
        return self.check(self.canonical(Genotype(parts[0], existing, parts[2])))

    def random(self, generator: np.random.Generator) -> Genotype:
        """A code drawn gene by gene."""
        code: Code = generator.integers(self.cardinalities)
        if self.stop is not None:
            previous = generator.integers(np.arange(1, self.layers + 1)) + 1
            ends = generator.random(self.layers) < self.stop
            code[2:-1:2] = np.where(ends, 0, previous)
        return self.decode(code)


def type_name(text: str) -> str:
    """The name of a layer type in architectures: that of the class where it is from outside."""
    return text.rpartition(":")[2].lower() if ":" in text else text


def own_types(types: Iterable[str]) -> dict[str, str]:
    """Layer types from outside the package: their homes by their names.

    Raises:
        UserError: One has the name of one of ours, or no name that an architecture can have.
    """
    own = {type_name(text): text for text in types if ":" in text}
    for name, home in own.items():
        if name in LAYER_TYPES or not name.isidentifier():
            raise UserError(f"layer type '{home}': '{name}' is no name for it: rename its class")
    return own


def fused_layers(genotype: Genotype, fusion: Fusion) -> tuple[int, ...]:
    """Indices of the outputs that are averaged; stage 1's, index 0, where there is no layer."""
    if not genotype.depth:
        return (0,)
    return tuple(range(1, genotype.depth + 1)) if fusion == "all" else genotype.leaves()


def check_fusion(fusion: str) -> None:
    """Refuse an unknown fusion."""
    if fusion not in get_args(Fusion):
        raise unknown_name("fusion", fusion, get_args(Fusion))


def _checked(kind: str, names: Sequence[str], choices: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        if name not in choices:
            raise unknown_name(kind, name, choices)
    if not names or len(set(names)) < len(names):
        raise UserError(f"search space: give every {kind} once, not {', '.join(names) or 'none'}")
    return tuple(names)


def _check_layer(index: int, layer: Layer, types: Sequence[str]) -> None:
    if layer.type not in types:
        raise unknown_name("layer type", layer.type, types)
    if layer.previous is not None and not 0 <= layer.previous < index:
        raise UserError(
            f"layer {index} '{layer}': its predecessor must be one of 0 to {index - 1} or none"
        )


def _parse_layer(word: str) -> Layer:
    kind, _, previous = word.partition("<")
    if previous == "none":
        return Layer(kind, None)
    if not (previous.isascii() and previous.isdigit()):
        raise UserError(f"layer '{word}' must read 'type<predecessor', as in 'gcn<0'")
    return Layer(kind, int(previous))
