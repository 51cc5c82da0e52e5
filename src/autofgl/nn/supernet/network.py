"""The SuperNet of FL-AGCNS: one weight set for every network of a search space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autofgl.nn import init
from autofgl.nn.choices import ACTIVATIONS, CONVOLUTIONS
from autofgl.nn.conv.base import Convolution
from autofgl.nn.dropout import dropout
from autofgl.nn.found import FoundNetwork, FoundSpec, Fusion, check_fusion, check_probability
from autofgl.nn.linear import Linear
from autofgl.nn.space import Genotype, Space
from autofgl.nn.supernet.field import Field
from autofgl.nn.supernet.measures import fusion_operator, mean_losses, part_sums
from autofgl.nn.supernet.narrowing import narrowed
from autofgl.nn.supernet.plan import Group, Plan
from autofgl.nn.supernet.sweep import Sweep

Gradient = dict[str, npt.NDArray[np.float32]]
Losses = npt.NDArray[np.float64]


class SuperNet(nn.Module):
    r"""All of A(L) in one weight set :math:`W`, FL-AGCNS section 3.2: :math:`W_a = W \odot c_a`.

    It has a fully connected layer for each input activation, a convolution for each layer and
    type, shared over the layer's possible predecessors, and a fully connected layer for each
    output activation. A population is computed as one: every common sub-path once, equal
    convolutions on several inputs side by side, only on nodes that reach the measured ones.

    Dropout stands where :class:`~autofgl.nn.found.FoundNetwork` has it: on the node features, on
    the input of every convolution (``layer_dropout``) and on the fused output. Each mask is drawn
    once for what it is applied to: the features' for the whole population, a convolution's for
    each sub-path, the fused output's for each network. The loss of an architecture thus has the
    distribution that it has alone; losses of architectures with common parts vary together.

    Args:
        space: The search space.
        in_features: Width of the node features.
        classes: Number of classes.
        hidden: Width between input and output stage.
        dropout: Dropout before both fully connected layers.
        layer_dropout: Dropout before every convolution.
        fusion: Which layers' outputs are averaged.
        per_predecessor: Whether a layer has a convolution of its own for each predecessor, as in
            the authors' code.
    """

    def __init__(
        self,
        space: Space,
        in_features: int,
        classes: int,
        hidden: int = 64,
        *,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
        fusion: Fusion = "all",
        per_predecessor: bool = False,
    ) -> None:
        super().__init__()
        check_fusion(fusion)
        check_probability("dropout", dropout)
        check_probability("layer_dropout", layer_dropout)
        self.space = space
        self.in_features, self.classes, self.hidden = in_features, classes, hidden
        self.dropout, self.layer_dropout = dropout, layer_dropout
        self.fusion, self.per_predecessor = fusion, per_predecessor
        self.inputs = nn.ModuleDict({a: Linear(in_features, hidden) for a in space.activations})
        self.layers = nn.ModuleDict(
            {key: CONVOLUTIONS[kind].make(hidden) for key, kind in self._keys()}
        )
        self.outputs = nn.ModuleDict({a: Linear(hidden, classes) for a in space.activations})

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters."""
        init.reset(self, generator)

    def active(self, population: Sequence[Genotype]) -> list[str]:
        """Names of the parameters that a population touches, in the network's order."""
        used = set()
        plan = self.plan(population)
        for group in plan.groups(0, self.per_predecessor):
            used |= set(self._group_parameters(group))
        used |= {name for name, _ in self._named("inputs", plan.inputs)}
        used |= {name for name, _ in self._named("outputs", [o for o, _, _ in plan.outputs])}
        return [name for name, _ in self.named_parameters() if name in used]

    @torch.no_grad()
    def losses(
        self,
        population: Sequence[Genotype],
        field: Field,
        generator: torch.Generator | None = None,
    ) -> Losses:
        """Mean cross-entropy of each architecture on the measured nodes, ``[P]``.

        Args:
            population: The architectures.
            field: Where to measure; without nodes, losses are zero.
            generator: Source of the dropout's randomness, in training mode.
        """
        if not field.measured:
            return np.zeros(len(population))
        plan = self.plan(population)
        scores = self._scores(plan, self._swept(plan, field, generator, False), field, generator)
        return cast(Losses, mean_losses(scores, field).double().numpy()[plan.position])

    @torch.no_grad()
    def evaluate(self, population: Sequence[Genotype], field: Field) -> Losses:
        """Sum of losses, correct predictions and number of nodes, ``[P, parts, 3]``.

        Dropout is off, whatever mode the network is in.
        """
        if not field.measured:
            return np.zeros((len(population), len(field.parts), 3))
        training = self.training
        self.eval()
        try:
            plan = self.plan(population)
            scores = self._scores(plan, self._swept(plan, field, None, False), field, None)
        finally:
            self.train(training)
        return cast(Losses, part_sums(scores, field).numpy()[plan.position])

    def gradient(
        self,
        population: Sequence[Genotype],
        field: Field,
        generator: torch.Generator | None = None,
        chunk: int | None = None,
    ) -> tuple[Gradient, Losses]:
        """Gradient of the sum of the architectures' mean losses (Eq. 2 without its weights).

        Args:
            population: The architectures; one that occurs twice counts twice.
            field: Where to measure; without nodes, gradient and losses are zero.
            generator: Source of the dropout's randomness, in training mode.
            chunk: Differentiate this many architectures at a time, which takes less memory and
                shares fewer sub-paths.

        Returns:
            Gradients of the active parameters by name, and the losses ``[P]``.
        """
        size = chunk or max(1, len(population))
        total: dict[str, Tensor] = {}
        losses = [
            self._differentiate(population[start : start + size], field, generator, total)
            for start in range(0, len(population), size)
        ]
        named = dict(self.named_parameters())
        gradient = {
            name: (total[name] if name in total else torch.zeros_like(named[name])).detach().numpy()
            for name in self.active(population)
        }
        return gradient, np.concatenate([np.zeros(0), *losses])

    def spec(self, genotype: Genotype) -> FoundSpec:
        """The description of a genotype's stand-alone network, under the same protocol."""
        return FoundSpec(
            genotype=str(self.space.check(genotype)),
            in_features=self.in_features,
            classes=self.classes,
            hidden=self.hidden,
            dropout=self.dropout,
            layer_dropout=self.layer_dropout,
            fusion=self.fusion,
        )

    def extract(self, genotype: Genotype) -> FoundNetwork:
        """The stand-alone network of a genotype, with copies of the shared weights."""
        network = FoundNetwork(self.spec(genotype))
        for name, module in self.parts(genotype):
            network.get_submodule(name).load_state_dict(module.state_dict())
        return network.train(self.training)

    def parts(self, genotype: Genotype) -> Iterator[tuple[str, nn.Module]]:
        """The modules that a genotype uses, by their names in its stand-alone network."""
        yield "input", self.inputs[genotype.input]
        for index, layer in enumerate(genotype.existing):
            yield f"convs.{index}", self._convolution(index + 1, layer.type, layer.previous or 0)
        yield "output", self.outputs[genotype.output]

    def _keys(self) -> Iterator[tuple[str, str]]:
        for layer in range(1, self.space.layers + 1):
            for kind in self.space.types:
                for previous in range(layer) if self.per_predecessor else (0,):
                    yield self._key(layer, kind, previous), kind

    def _key(self, layer: int, kind: str, previous: int) -> str:
        return f"{layer}-{kind}<{previous}" if self.per_predecessor else f"{layer}-{kind}"

    def _convolution(self, layer: int, kind: str, previous: int) -> Convolution:
        return cast(Convolution, self.layers[self._key(layer, kind, previous)])

    def plan(self, population: Sequence[Genotype]) -> Plan:
        """What the population computes."""
        return Plan([self.space.check(genotype) for genotype in population], self.fusion)

    def _named(self, stage: str, names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        modules = cast(nn.ModuleDict, getattr(self, stage))
        for name in names:
            yield from modules[name].named_parameters(f"{stage}.{name}")

    def _group_parameters(self, group: Group) -> dict[str, Tensor]:
        key = self._key(group.layer, group.type, group.previous)
        return dict(self._named("layers", [key]))

    def _start(self, plan: Plan, field: Field, generator: torch.Generator | None) -> Tensor:
        """Stage 1 for all input activations in use, in one product: ``[nodes, inputs, C]``."""
        features = dropout(field.features, self.dropout, self.training, generator)
        layers = [cast(Linear, self.inputs[name]) for name in plan.inputs]
        mapped = features @ torch.cat([layer.weight for layer in layers], dim=1)
        by_input = mapped.view(-1, len(layers), self.hidden).unbind(1)
        return torch.stack(
            [
                ACTIVATIONS[name](layer.shifted(x))
                for name, layer, x in zip(plan.inputs, layers, by_input, strict=True)
            ],
            dim=1,
        )

    def _swept(
        self,
        plan: Plan,
        field: Field,
        generator: torch.Generator | None,
        differentiable: bool,
        start: Tensor | None = None,
    ) -> Sweep:
        start = self._start(plan, field, generator) if start is None else start
        groups = plan.groups(field.limit, self.per_predecessor)
        run = partial(self._run, field=field, generator=generator)
        return Sweep(start.detach(), groups, field, run, differentiable)

    def _run(
        self, group: Group, inputs: Tensor, field: Field, generator: torch.Generator | None
    ) -> Tensor:
        """One convolution on several inputs: ``[nodes, k, C] -> [rows, k, C]``."""
        nodes, copies, width = inputs.shape
        hops = [
            (field.structure(radius, copies), field.size(radius) * copies)
            for radius in range(group.radius + group.hops - 1, group.radius - 1, -1)
        ]
        convolution = self._convolution(group.layer, group.type, group.previous)
        x = dropout(inputs, self.layer_dropout, self.training, generator)
        out = narrowed(convolution, x.reshape(nodes * copies, width), hops, generator)
        return out.view(-1, copies, width)

    def _scores(
        self, plan: Plan, sweep: Sweep, field: Field, generator: torch.Generator | None
    ) -> Tensor:
        return self._heads(plan, sweep.measured(), sweep.order, field, generator)

    def _heads(
        self,
        plan: Plan,
        measured: Tensor,
        order: Sequence[int],
        field: Field,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Fusion and stage 3: outputs of paths ``[N, T, C]`` to scores ``[A, T, classes]``."""
        fusion = fusion_operator(plan.members, order, measured.dtype)
        flat = measured.reshape(len(measured), -1)
        fused = (fusion @ flat).view(len(plan.networks), field.measured, self.hidden)
        fused = dropout(fused, self.dropout, self.training, generator)
        scores = [
            ACTIVATIONS[name](self.outputs[name](fused[low:high].reshape(-1, self.hidden)))
            for name, low, high in plan.outputs
        ]
        return torch.cat(scores).view(len(plan.networks), field.measured, self.classes)

    def _differentiate(
        self,
        population: Sequence[Genotype],
        field: Field,
        generator: torch.Generator | None,
        total: dict[str, Tensor],
    ) -> Losses:
        """Add the gradient of some architectures to ``total``; their losses."""
        if not field.measured:
            return np.zeros(len(population))
        plan = self.plan(population)
        with torch.enable_grad():
            start = self._start(plan, field, generator)
            sweep = self._swept(plan, field, generator, True, start)
            measured = sweep.measured().requires_grad_()
            losses = mean_losses(self._heads(plan, measured, sweep.order, field, generator), field)
            counts = np.bincount(plan.position, minlength=len(plan.networks))
            heads = dict(self._named("outputs", [name for name, _, _ in plan.outputs]))
            objective = losses @ torch.from_numpy(counts).to(losses.dtype)
            upstream, *found = torch.autograd.grad(objective, [measured, *heads.values()])
            _add(total, dict(zip(heads, found, strict=True)))
            upstream = sweep.backward(upstream, self._group_parameters, total)
            inputs = dict(self._named("inputs", plan.inputs))
            found = list(torch.autograd.grad(start, list(inputs.values()), upstream))
            _add(total, dict(zip(inputs, found, strict=True)))
        return cast(Losses, losses.detach().double().numpy()[plan.position])


def _add(total: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    for name, gradient in found.items():
        total[name] = total[name] + gradient if name in total else gradient
