"""The SuperNet of FL-AGCNS: one weight set for every network of a search space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autofgl.errors import UserError
from autofgl.nn.conv import layer_type
from autofgl.nn.conv.base import Convolution
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear, reset_children
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS
from autofgl.nn.models.networks import SearchedNetwork
from autofgl.nn.models.spec import SearchedSpec, check_probability
from autofgl.nn.space import Fusion, Genotype, Space, check_fusion
from autofgl.nn.supernet.narrowing import narrow
from autofgl.nn.supernet.plan import Group, Plan
from autofgl.nn.supernet.portions import MemoryBudget, Portion
from autofgl.nn.supernet.receptive_field import ReceptiveField
from autofgl.nn.supernet.sweep import Sweep, add_gradients, fusion_operator

Gradient = dict[str, npt.NDArray[np.float32]]
Losses = npt.NDArray[np.float64]


class SuperNet(nn.Module):
    r"""All of A(L) in one weight set :math:`W`, FL-AGCNS section 3.2: :math:`W_a = W \odot c_a`.

    It has a fully connected layer for each input activation, a convolution for each layer and
    type, shared over the layer's possible predecessors, and a fully connected layer for each
    output activation. A population is computed as one: every common sub-path once, equal
    convolutions on several inputs side by side, only on nodes that reach the measured ones.

    Dropout stands where the stand-alone network has it: on the node features, on the input of
    every convolution (``layer_dropout``) and on the fused output. Each mask is drawn once for what
    it is applied to: the features' for the whole population, a convolution's for each sub-path,
    the fused output's for each network. The loss of an architecture thus has the
    distribution that it has alone; losses of architectures with common parts vary together.

    With ``per_predecessor``, a layer has a convolution of its own for each predecessor, as in the
    authors' code.

    ``memory`` is how many bytes of activations it may hold at a time: a population that takes more
    is computed in parts (:mod:`autofgl.nn.supernet.portions`). None is no limit.
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
        memory: int | None = None,
    ) -> None:
        super().__init__()
        check_fusion(fusion)
        check_probability("SuperNet", "dropout", dropout)
        check_probability("SuperNet", "layer_dropout", layer_dropout)
        self.space = space
        self.in_features, self.classes, self.hidden = in_features, classes, hidden
        self.dropout, self.layer_dropout = dropout, layer_dropout
        self.fusion, self.per_predecessor = fusion, per_predecessor
        self.memory = memory
        self._last_plan: tuple[list[Genotype], Plan] = ([], Plan([]))
        self._by_part: dict[str, dict[str, Tensor]] = {}
        self.inputs = nn.ModuleDict({a: Linear(in_features, hidden) for a in space.activations})
        self.layers = nn.ModuleDict(
            {key: layer_type(kind, space.own).make(hidden) for key, kind in self._keys()}
        )
        for key, kind in self._keys():
            if kind in space.own and any(True for _ in self.layers[key].buffers()):
                other = "search with fl-random or fl-rl"
                raise UserError(
                    f"layer '{kind}' has buffers, which a SuperNet cannot share: {other}"
                )
        self.outputs = nn.ModuleDict({a: Linear(hidden, classes) for a in space.activations})

    def reset_parameters(self, generator: Rng = None) -> None:
        """Draw all parameters."""
        reset_children(self, generator)

    @cached_property
    def _all(self) -> dict[str, Tensor]:
        """All parameters by name: walking through hundreds of modules takes long."""
        return dict(self.named_parameters())

    def active(self, population: Sequence[Genotype]) -> list[str]:
        """Names of the parameters that a population touches, in the network's order."""
        used = set()
        plan = self.plan(population)
        for group in plan.groups(0, self.per_predecessor):
            used |= set(self._group_parameters(group))
        used |= {name for name, _ in self._named("inputs", plan.inputs)}
        used |= {name for name, _ in self._named("outputs", [o for o, _, _ in plan.outputs])}
        return [name for name in self._all if name in used]

    @torch.no_grad()
    def losses(
        self, population: Sequence[Genotype], receptive_field: ReceptiveField, generator: Rng = None
    ) -> Losses:
        """Mean cross-entropy of each architecture on the measured nodes ``[P]``; zero without any.

        In training mode, dropout is drawn from the generator.
        """
        losses = np.zeros(len(population))
        for part in self._portions(population, receptive_field, differentiable=False):
            plan = self.plan(part.population)
            means = part.field.mean_losses(self._scores(plan, part.field, generator))
            share = part.field.measured / receptive_field.measured
            losses[part.rows] += share * _array(means.double())[plan.position]
        return losses

    @torch.no_grad()
    def evaluate(self, population: Sequence[Genotype], receptive_field: ReceptiveField) -> Losses:
        """Sum of losses, correct predictions and number of nodes, ``[P, parts, 3]``.

        Dropout is off, whatever mode the network is in.
        """
        sums = np.zeros((len(population), len(receptive_field.parts), 3))
        for part in self._portions(population, receptive_field, differentiable=False):
            sums[part.rows] += _array(part.field.part_sums(self._evaluated(part)))
        return sums

    @torch.no_grad()
    def outputs_of(self, population: Sequence[Genotype], receptive_field: ReceptiveField) -> Tensor:
        """Outputs of each architecture at the measured nodes, ``[P, T, classes]``, without dropout.

        There is at least one such node.
        """
        shape = (len(population), receptive_field.measured, self.classes)
        outputs = torch.empty(shape, device=receptive_field.device)
        for part in self._portions(population, receptive_field, differentiable=False):
            nodes = slice(part.start, part.start + part.field.measured)
            outputs[list(part.rows), nodes] = self._evaluated(part)
        return outputs

    def _evaluated(self, part: Portion) -> Tensor:
        """Outputs without dropout, ``[P, T, classes]``."""
        training = self.training
        self.eval()
        try:
            plan = self.plan(part.population)
            return self._scores(plan, part.field, None)[plan.position]
        finally:
            self.train(training)

    def gradient(
        self, population: Sequence[Genotype], receptive_field: ReceptiveField, generator: Rng = None
    ) -> tuple[Gradient, Losses]:
        """Gradient of the sum of the architectures' mean losses (Eq. 2 without its weights).

        An architecture that occurs twice counts twice; without nodes, gradient and losses are zero.

        Returns:
            Gradients of the active parameters by name, and the losses ``[P]``.
        """
        total: dict[str, Tensor] = {}
        losses = np.zeros(len(population))
        for part in self._portions(population, receptive_field, differentiable=True):
            share = part.field.measured / receptive_field.measured
            losses[part.rows] += self._differentiate(part, share, generator, total)
        gradient = {
            name: _array(total[name] if name in total else torch.zeros_like(self._all[name]))
            for name in self.active(population)
        }
        return gradient, losses

    def _portions(
        self,
        population: Sequence[Genotype],
        receptive_field: ReceptiveField,
        differentiable: bool,
    ) -> Iterable[Portion]:
        """Parts of the work that fit into memory; none without nodes."""
        if not receptive_field.measured or not population:
            return []
        if self.memory is None:
            return [Portion(range(len(population)), population, receptive_field)]
        budget = MemoryBudget(self.memory, self.hidden, self.classes, self.per_predecessor)
        plan = self.plan(population)
        return budget.portions(plan, population, receptive_field, differentiable)

    def spec(self, genotype: Genotype) -> SearchedSpec:
        """The description of a genotype's stand-alone network, under the same protocol."""
        return SearchedSpec(
            genotype=str(self.space.check(genotype)),
            in_features=self.in_features,
            classes=self.classes,
            hidden=self.hidden,
            dropout=self.dropout,
            layer_dropout=self.layer_dropout,
            fusion=self.fusion,
            own_layers=self.space.own or None,
        )

    def extract(self, genotype: Genotype) -> SearchedNetwork:
        """The stand-alone network of a genotype, with copies of the shared weights."""
        network = SearchedNetwork(self.spec(genotype))
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
        """What the population computes; that of the last one is kept, which is often the same."""
        known, plan = self._last_plan
        if known != population or not known:
            known = [self.space.check(genotype) for genotype in population]
            plan = Plan(known, self.fusion, self.space.own)
            self._last_plan = (known, plan)
        return plan

    def _named(self, stage: str, names: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        modules = cast(nn.ModuleDict, getattr(self, stage))
        for name in names:
            key = f"{stage}.{name}"
            if key not in self._by_part:
                self._by_part[key] = dict(modules[name].named_parameters(key))
            yield from self._by_part[key].items()

    def _group_parameters(self, group: Group) -> dict[str, Tensor]:
        key = self._key(group.layer, group.type, group.previous)
        return dict(self._named("layers", [key]))

    def input_stage(self, x: NodeInput, activations: Sequence[str], generator: Rng) -> list[Tensor]:
        """Stage 1 for some input activations, ``[n, C]`` each, in one product."""
        features = dropout(x, self.dropout, self.training, generator)
        layers = [cast(Linear, self.inputs[name]) for name in activations]
        mapped = features @ torch.cat([layer.weight for layer in layers], dim=1)
        pieces = mapped.view(-1, len(layers), self.hidden).unbind(1)
        return [
            ACTIVATION_FUNCTIONS[name](layer.add_bias(piece))
            for name, layer, piece in zip(activations, layers, pieces, strict=True)
        ]

    def _sweep(
        self, plan: Plan, receptive_field: ReceptiveField, generator: Rng, differentiable: bool
    ) -> tuple[Tensor, Sweep]:
        """Stage 1 for all input activations in use, ``[nodes, inputs, C]``, and stage 2."""
        start = torch.stack(self.input_stage(receptive_field.features, plan.inputs, generator), 1)
        field = receptive_field
        groups = plan.groups(field.limit, self.per_predecessor, field.copies)
        run = partial(self._run, receptive_field=receptive_field, generator=generator)
        return start, Sweep(start.detach(), groups, receptive_field, run, differentiable)

    def _run(
        self, group: Group, inputs: Tensor, receptive_field: ReceptiveField, generator: Rng
    ) -> Tensor:
        """One convolution on several inputs: ``[nodes, k, C] -> [rows, k, C]``."""
        nodes, copies, width = inputs.shape
        if layer_type(group.type, self.space.own).whole:
            whole = receptive_field.limit
            hops = [(receptive_field.structure(whole, 1), receptive_field.size(group.radius))]
        else:
            hops = [
                (receptive_field.structure(radius, copies), receptive_field.size(radius) * copies)
                for radius in range(group.radius + group.hops - 1, group.radius - 1, -1)
            ]
        convolution = self._convolution(group.layer, group.type, group.previous)
        x = dropout(inputs, self.layer_dropout, self.training, generator)
        out = narrow(convolution, x.reshape(nodes * copies, width), hops, generator)
        return out.view(-1, copies, width)

    def _scores(self, plan: Plan, receptive_field: ReceptiveField, generator: Rng) -> Tensor:
        """Scores of all networks at the measured nodes, ``[A, T, classes]``."""
        _, sweep = self._sweep(plan, receptive_field, generator, differentiable=False)
        return self._heads(plan, sweep.outputs(), sweep.order, generator)

    def _heads(self, plan: Plan, outputs: Tensor, order: Sequence[int], generator: Rng) -> Tensor:
        """Fusion and stage 3: outputs of paths ``[N, T, C]`` to scores ``[A, T, classes]``."""
        shape = (len(plan.networks), outputs.shape[1])
        fusion = fusion_operator(plan.members, order, outputs.dtype).to(outputs.device)
        fused = (fusion @ outputs.reshape(len(outputs), -1)).view(*shape, self.hidden)
        fused = dropout(fused, self.dropout, self.training, generator)
        scores = [
            ACTIVATION_FUNCTIONS[name](self.outputs[name](fused[low:high].reshape(-1, self.hidden)))
            for name, low, high in plan.outputs
        ]
        return torch.cat(scores).view(*shape, self.classes)

    def _differentiate(
        self, part: Portion, share: float, generator: Rng, total: dict[str, Tensor]
    ) -> Losses:
        """Add the gradient of some architectures to ``total``, and their losses, by the share that
        the nodes have.
        """
        plan, receptive_field = self.plan(part.population), part.field
        with torch.enable_grad():
            start, sweep = self._sweep(plan, receptive_field, generator, differentiable=True)
            outputs = sweep.outputs().requires_grad_()
            losses = receptive_field.mean_losses(self._heads(plan, outputs, sweep.order, generator))
            counts = np.bincount(plan.position, minlength=len(plan.networks))
            objective = losses @ (share * torch.from_numpy(counts).to(losses))
            heads = dict(self._named("outputs", [name for name, _, _ in plan.outputs]))
            upstream, *gradients = torch.autograd.grad(objective, [outputs, *heads.values()])
            add_gradients(total, dict(zip(heads, gradients, strict=True)))
            upstream = sweep.backward(upstream, self._group_parameters, total)
            inputs = dict(self._named("inputs", plan.inputs))
            gradients = list(torch.autograd.grad(start, list(inputs.values()), upstream))
            add_gradients(total, dict(zip(inputs, gradients, strict=True)))
        return cast(Losses, share * _array(losses.double())[plan.position])


def _array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy()
