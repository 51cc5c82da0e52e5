"""What a population computes: every common sub-path once, equal operators side by side.

A *path* is an input activation and a chain of (layer, type): it determines an output under shared
weights, whatever architecture it occurs in. The paths of a population form a forest, of which each
node is computed once.

The *radius* of a path is how far from the measured nodes its output is needed: 0 where no other
path goes on from it, else the greatest of its successors' radius plus their hops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autofgl.nn.conv import layer_type
from autofgl.nn.space import Fusion, Genotype, fused_layers

_PIECES = (1, 2, 4)
#: A radius beyond any graph's.
_EVERYTHING = 1 << 30


@dataclass(frozen=True)
class Step:
    """The last step of a path: a layer of a type, on the output of another path."""

    layer: int
    type: str
    parent: int
    previous: int


@dataclass(frozen=True)
class Group:
    """Paths that end with the same convolution and are needed equally far: computed together."""

    layer: int
    type: str
    previous: int
    radius: int
    hops: int
    paths: tuple[int, ...]
    parents: tuple[int, ...]


class Plan:
    """The paths of a population.

    Attributes:
        inputs: The input activations in use; path i < len(inputs) is the i-th of them.
        steps: The other paths, from path ``len(inputs)`` on, predecessors first.
        networks: Distinct networks, by output activation.
        position: Index into ``networks`` of each member of the population.
        members: For each network, the paths whose outputs are averaged.
        outputs: Output activations, each with the range of networks that it has.
        fusion: Whose outputs are averaged.
        own: Layer types from outside the package.
    """

    def __init__(
        self,
        population: Sequence[Genotype],
        fusion: Fusion = "all",
        own: Mapping[str, str] | None = None,
    ) -> None:
        self.fusion, self.own = fusion, own
        short = [Genotype(g.input, g.existing, g.output) for g in population]
        self.networks = sorted(set(short), key=lambda g: (g.output, g.input, str(g)))
        place = {genotype: index for index, genotype in enumerate(self.networks)}
        self.position = [place[genotype] for genotype in short]
        self.inputs = sorted({genotype.input for genotype in self.networks})
        self.steps: list[Step] = []
        self.members = self._walk(fusion)
        self.outputs = self._ranges()

    def _walk(self, fusion: Fusion) -> list[tuple[int, ...]]:
        paths: dict[tuple[int, int, str], int] = {}
        members = []
        for genotype in self.networks:
            chain = [self.inputs.index(genotype.input)]
            for index, layer in enumerate(genotype.layers, start=1):
                previous = layer.previous or 0
                key = (chain[previous], index, layer.type)
                if key not in paths:
                    paths[key] = len(self.inputs) + len(self.steps)
                    self.steps.append(Step(index, layer.type, chain[previous], previous))
                chain.append(paths[key])
            members.append(tuple(chain[i] for i in fused_layers(genotype, fusion)))
        return members

    def _ranges(self) -> list[tuple[str, int, int]]:
        names = [genotype.output for genotype in self.networks]
        return [
            (name, names.index(name), names.index(name) + names.count(name))
            for name in sorted(set(names))
        ]

    @cached_property
    def radii(self) -> list[int]:
        """Radius of each path."""
        first = len(self.inputs)
        radii = [0] * (first + len(self.steps))
        for offset in range(len(self.steps) - 1, -1, -1):
            step = self.steps[offset]
            kind = layer_type(step.type, self.own)
            needed = _EVERYTHING if kind.whole else radii[first + offset] + kind.hops
            radii[step.parent] = max(radii[step.parent], needed)
        return radii

    def groups(
        self, limit: int, per_predecessor: bool = False, copies: int = _PIECES[-1]
    ) -> list[Group]:
        """All paths but the inputs in groups, predecessors first.

        From a radius of ``limit`` on, the whole graph is needed. At most so many ``copies`` of the
        edges are listed side by side.
        """
        together: dict[tuple[int, str, int, int], list[int]] = defaultdict(list)
        ending = dict(enumerate(self.steps, start=len(self.inputs)))
        for path, step in ending.items():
            previous = step.previous if per_predecessor else -1
            radius = min(self.radii[path], limit)
            together[step.layer, step.type, previous, radius].append(path)
        groups = []
        for key, members in sorted(together.items()):
            kind = layer_type(key[1], self.own)
            most = 1 if kind.whole else copies if kind.per_edge else len(members)
            sizes = _PIECES if kind.per_edge else (1, len(members))
            hops = limit if kind.whole else kind.hops
            for paths in _pieces(members, [size for size in sizes if size <= most]):
                parents = tuple(ending[path].parent for path in paths)
                groups.append(Group(*key, hops, tuple(paths), parents))
        return groups


def _pieces(paths: list[int], sizes: Sequence[int]) -> list[list[int]]:
    """The paths in pieces of some sizes, one among them, large ones first: where edges are listed
    again for every size of a piece, there should be few.
    """
    pieces = []
    while paths:
        size = max(size for size in sizes if size <= len(paths))
        pieces.append(paths[:size])
        paths = paths[size:]
    return pieces
