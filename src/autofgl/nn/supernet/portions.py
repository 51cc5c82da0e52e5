"""The parts of a population and of the measured nodes that memory has room for at a time.

What a pass holds can be told beforehand: the input, the output, the gradient and what the backward
pass needs of every path, each on as many nodes as the receptive field has there. Where that is too
much, a population is cut between networks that share little, and if a single network is too much,
the measured nodes are halved. Sums over the parts are those of the whole; what the parts have in
common is computed for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autofgl.nn.conv import layer_type
from autofgl.nn.space import Genotype
from autofgl.nn.supernet.plan import Group, Plan
from autofgl.nn.supernet.receptive_field import ReceptiveField

#: Bytes of a number.
_FLOAT = 4
#: Half of the nodes should take no more than this share of the memory that all take.
_WORTH = 0.85
#: Of every network at the measured nodes: its fused output, before and after dropout, and gradient.
_FUSED = 3


@dataclass(frozen=True)
class Portion:
    """Some of a population, by their places in it, on some of the measured nodes, from the
    ``start``-th on.
    """

    rows: Sequence[int]
    population: Sequence[Genotype]
    field: ReceptiveField
    start: int = 0


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes that a pass may take, on networks of a width and so many classes."""

    memory: int
    width: int
    classes: int
    per_predecessor: bool

    def takes(self, plan: Plan, field: ReceptiveField, differentiable: bool) -> int:
        """Bytes that a pass over a plan takes at its peak, as far as it can be told."""
        width = self.width
        stages = 4 if differentiable else 3  # product, activation, side by side, gradient
        kept = stages * len(plan.inputs) * field.size(field.limit) * width
        passing = 0
        for group in plan.groups(field.limit, self.per_predecessor, field.copies):
            kind, paths = layer_type(group.type, plan.own), len(group.paths)
            far, near = field.size(group.radius + group.hops), field.size(group.radius)
            inside_nodes = far if kind.whole else _nodes_inside(group, field)
            saved = kind.held * width * inside_nodes + kind.held_edge * field.edges(group.radius)
            inside = int(paths * (width * far + saved))
            passing = max(passing, 2 * inside)
            kept += paths * width * near
            kept += inside if differentiable else 0
        ends = len(plan.networks) * field.measured * (_FUSED * width + 2 * self.classes)
        ends += (len(plan.steps) + len(plan.inputs)) * field.measured * width
        return _FLOAT * (kept + max(passing, ends))

    def portions(
        self,
        plan: Plan,
        population: Sequence[Genotype],
        field: ReceptiveField,
        differentiable: bool,
    ) -> Iterator[Portion]:
        """Parts that fit, as far as can be; all at once if that fits."""
        yield from self._portions(
            Portion(range(len(population)), population, field), plan, differentiable
        )

    def _portions(self, whole: Portion, plan: Plan, differentiable: bool) -> Iterator[Portion]:
        takes = self.takes(plan, whole.field, differentiable)
        if takes <= self.memory:
            parts = []
        elif len(plan.networks) > 1:
            parts = _some_networks(whole, plan, -(-takes // self.memory))
        else:
            parts = _half_of_the_nodes(whole)
            if any(self.takes(plan, half.field, differentiable) > _WORTH * takes for half in parts):
                parts = []
        if not parts:
            yield whole
        for part in parts:
            smaller = Plan(part.population, plan.fusion, plan.own)
            yield from self._portions(part, smaller, differentiable)


def _nodes_inside(group: Group, field: ReceptiveField) -> float:
    """Nodes that a layer keeps numbers of: of several hops, each leaves fewer to the next one."""
    if group.hops == 1:
        return field.size(group.radius + 1)
    return sum(field.size(group.radius + hop) for hop in range(group.hops)) / group.hops


def _half_of_the_nodes(whole: Portion) -> list[Portion]:
    starts = (whole.start, whole.start + whole.field.measured // 2)
    return [
        Portion(whole.rows, whole.population, half, start)
        for half, start in zip(whole.field.halves(), starts, strict=False)
    ]


def _some_networks(whole: Portion, plan: Plan, parts: int) -> list[Portion]:
    """So many parts, each with networks that begin alike."""
    count = len(plan.networks)
    order = sorted(range(count), key=lambda index: str(plan.networks[index]))
    part_of = {network: place * parts // count for place, network in enumerate(order)}
    members: dict[int, list[int]] = {}
    for place, network in enumerate(plan.position):
        members.setdefault(part_of[network], []).append(place)
    return [
        Portion(
            [whole.rows[place] for place in places],
            [whole.population[place] for place in places],
            whole.field,
            whole.start,
        )
        for _, places in sorted(members.items())
    ]
