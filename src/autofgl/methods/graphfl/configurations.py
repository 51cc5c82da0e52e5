"""What a client may choose: networks and settings of MAML, as chromosomes (section 3.1).

The genes are those of the paper: the kind of convolution, hops, layers, width and activation; inner
rate, inner steps, tasks, support and query size, outer rate and optimizer. Besides there are
personalized PageRank (``teleport``: what of its input a node keeps at every hop) and weight decay.
Dropout is none: it never paid. Outer rate and optimizer are genes only with ``common_rate=false``;
otherwise all clients have the same, by vote. The settings of the run are one chromosome, the
*environment*; every range reaches far enough to hold it.

The paper does not say how unlike structures go into one FedAvg. Here the server keeps, for every
kind of convolution, the blocks of its widest and deepest network, and a client's network is a slice
of them, as in HeteroFL (Diao et al., 2021): the first rows and columns of each block. An entry is
averaged over the clients that hold it, and one that nobody holds stays as it is. Where all hold the
same this is FedAvg. Entries mean the same in all networks that hold them: kinds of convolution have
blocks of their own, a hidden layer is named by its place, and the last layer by the number of
hidden ones before it.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from autofgl.errors import AutoFGLError
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.nn.models.networks import build_network, empty_network
from autofgl.nn.models.spec import HIDDEN_ACTIVATIONS, ModelSpec
from autofgl.search.genes import Categorical, Gene, Integer, LogFloat, Value
from autofgl.search.space import Chromosome, SearchSpace
from autofgl.seeding import torch_generator

Arrays: TypeAlias = dict[str, Any]

_LAYER = re.compile(r"(?:convs|lins)\.(\d+)\.(.+)")


class Shape(NamedTuple):
    """What decides which entries a network holds: kind of convolution, depth, hidden width."""

    family: str
    layers: int
    hidden: int


@dataclass(frozen=True)
class Part:
    """Where a parameter of a client's network is: in the first ``sizes`` entries of a block."""

    block: str
    sizes: tuple[int, ...]

    @property
    def index(self) -> tuple[slice, ...]:
        """What to index the block with."""
        return tuple(slice(size) for size in self.sizes)


Parts: TypeAlias = Mapping[str, Part]


def parts_of(shape: Shape, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Part]:
    """Where parameters of these names, such as ``convs.0.lin.weight``, and sizes are in blocks."""
    parts = {}
    for name, size in sizes.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            raise AutoFGLError(f"parameter '{name}' of {shape.family} is of no layer")
        layer, rest = int(match[1]), match[2]
        place = f"out.{layer}" if layer == shape.layers - 1 else f"hidden.{layer}"
        parts[name] = Part(f"{shape.family}/{place}.{rest}", tuple(size))
    return parts


def take(whole: Mapping[str, Any], parts: Parts) -> Arrays:
    """A network's parameters out of the blocks."""
    return {name: whole[part.block][part.index].copy() for name, part in parts.items()}


def put(weights: Mapping[str, Any], parts: Parts, sizes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """A network's parameters in blocks of these sizes; all other entries are zero."""
    return put_into(
        {name: np.zeros(size, np.float32) for name, size in sizes.items()}, weights, parts
    )


def put_into(blocks: Arrays, weights: Mapping[str, Any], parts: Parts) -> Arrays:
    """Blocks with a network's parameters in them; all other entries are as before."""
    whole = {name: np.array(block, np.float32) for name, block in blocks.items()}
    for name, part in parts.items():
        whole[part.block][part.index] = weights[name]
    return whole


def merge(
    total: Mapping[str, Any],
    shares: Sequence[float],
    parts: Sequence[Parts],
    before: Mapping[str, Any],
    least: float,
) -> Arrays:
    """The blocks after an average of networks with these ``parts``, from the sums by shape.

    Entries that nobody holds stay as before. Shares smaller than ``least`` are rounding of a secure
    sum.
    """
    weights = {name: np.zeros(np.shape(value)) for name, value in before.items()}
    for share, own in zip(shares, parts, strict=True):
        if share < least:
            continue
        for part in own.values():
            weights[part.block][part.index] += share
    return {name: _divided(total[name], weights[name], value) for name, value in before.items()}


def _divided(total: Any, weight: Any, before: Any) -> Any:
    if not weight.any():
        return before
    mean = total / np.where(weight > 0, weight, 1.0)
    return np.where(weight > 0, mean, before).astype(np.float32)


#: Families without layers of their own, and those whose hops are no choice.
_FLAT, _HOPLESS = ("sgc",), ("gcn", "sage")
HOPS, _TELEPORTS = (1, 2, 3, 5, 10), (0.0, 0.05, 0.1, 0.2)
_SIZES, _DECAYS = (0, 5, 10, 20, 40), (0.0, 5e-4, 5e-3)
#: Settings of MAML that are genes as they are.
_PLAIN = ("inner_lr", "optimizer", "weight_decay", "inner_steps", "tasks", "support", "query")
#: The gene of each optimizer's rate, with its range: a step of Adam is as long as its rate whatever
#: the gradient is, and one of gradient descent is not.
RATE_OF = {"adam": ("adam_lr", 0.001, 0.3), "sgd": ("sgd_lr", 0.1, 10.0)}


class Configurations:
    """The space of chromosomes, and what each of them means; spec and settings are the
    environment's.
    """

    def __init__(self, spec: ModelSpec, settings: GraphFLGASettings) -> None:
        self._settings = settings
        self._spec = spec
        flat, widest = settings.model in _FLAT, settings.hidden
        self._families = sorted({settings.model, *settings.families.split(",")})
        self.optimizers = sorted({settings.optimizer, *settings.optimizers.split(",")})
        # Two layers, unless the environment has one: networks of one layer are SGC's business.
        self._fewest = 1 if not flat and settings.layers == 1 else 2
        self._deepest = max(settings.deepest, 1 if flat else settings.layers)
        self._widths = sorted({max(1, widest // 4), max(1, widest // 2), widest})
        self.environment = self._own()
        genes = [*(self._structure() if settings.evolve_structure else ()), *self._rates()]
        self.genes = SearchSpace(tuple(genes), self._canonical)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """All shapes that a chromosome may have."""
        own = self.shape_of(self.environment)
        if not self._settings.evolve_structure:
            return (own,)
        shapes = {own}
        for family in self._families:
            deepest = 1 if family in _FLAT else self._deepest
            for layers in range(min(self._fewest, deepest), deepest + 1):
                widths = self._widths if layers > 1 else [self._settings.hidden]
                shapes |= {Shape(family, layers, hidden) for hidden in widths}
        return tuple(sorted(shapes))

    @cached_property
    def propagations(self) -> tuple[tuple[int, float], ...]:
        """All pairs of hops and teleport that a chromosome may have."""
        genes = {gene.name: gene.values or () for gene in self.genes.genes}
        own = self.full({})
        hops = {1, *genes["hops"]} if "hops" in genes else {own["hops"]}  # without a choice: 1
        teleports = genes.get("teleport", (own["teleport"],))
        return tuple((int(h), float(t)) for h, t in itertools.product(sorted(hops), teleports))

    @property
    def shape_specs(self) -> list[ModelSpec]:
        """The networks of all shapes."""
        return [self._spec_of(shape) for shape in self.shapes]

    @cached_property
    def parts(self) -> tuple[dict[str, Part], ...]:
        """Which entries a network of each shape holds."""
        networks = list(map(empty_network, self.shape_specs))
        sizes = [{name: tuple(v.shape) for name, v in one.named_parameters()} for one in networks]
        return tuple(map(parts_of, self.shapes, sizes))

    @cached_property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Sizes of the server's blocks: the largest that any shape has."""
        sizes: dict[str, tuple[int, ...]] = {}
        for parts in self.parts:
            for part in parts.values():
                largest = sizes.get(part.block, part.sizes)
                sizes[part.block] = tuple(map(max, zip(largest, part.sizes, strict=True)))
        return sizes

    def initial(self, seed: int) -> Arrays:
        """The blocks at first: each depth's widest network's, the environment's as in GraphFL."""
        whole: Arrays = {}
        for shape, parts in zip(self.shapes, self.parts, strict=True):
            if all(self.sizes[part.block] == part.sizes for part in parts.values()):
                network = build_network(self._spec_of(shape), torch_generator(seed, "weights"))
                weights = network.state_dict()
                for name, part in parts.items():
                    whole.setdefault(part.block, weights[name].numpy().copy())
        return whole

    def full(self, chromosome: Chromosome) -> Chromosome:
        """A chromosome with all that the environment decides, in one form for all that are one."""
        return self._canonical({**self.environment, **chromosome})

    def like(self, shape: Shape, inner_lr: float, propagation: int | None = None) -> Chromosome:
        """The environment with another network and inner rate."""
        family, layers, hidden = shape
        like: Chromosome = {**self.environment, "model": family, "hidden": hidden}
        if family != self.environment["model"]:
            spec = replace(self._spec, family=family, hops=None)
            like |= {"hops": spec.steps, "teleport": self._teleport_of(spec)}
        if propagation is not None:
            like["hops"], like["teleport"] = self.propagations[propagation]
        return {**like, "layers": self._fewest if family in _FLAT else layers, "inner_lr": inner_lr}

    def shape_of(self, chromosome: Chromosome) -> Shape:
        """The shape of a chromosome's network."""
        full = self.full(chromosome)
        family = str(full["model"])
        return Shape(family, 1 if family in _FLAT else int(full["layers"]), int(full["hidden"]))

    def spec_of(self, chromosome: Chromosome) -> ModelSpec:
        """A chromosome's network."""
        full = self.full(chromosome)
        teleport = float(full["teleport"])
        sgc = full["model"] == "sgc"
        return replace(
            self._spec_of(self.shape_of(full)),
            hops=int(full["hops"]),
            activation=str(full["activation"]),
            teleport=self._spec.teleport if sgc else teleport,
            sgc_teleport=teleport if sgc and teleport else None,
        )

    def settings_of(self, chromosome: Chromosome) -> GraphFLGASettings:
        """The environment with a chromosome's settings of MAML."""
        full = self.full(chromosome)
        rate, *_ = RATE_OF[str(full["optimizer"])]
        update = {**{name: full[name] for name in _PLAIN}, "lr": full[rate]}
        return self._settings.model_copy(update=update)

    def parts_of(self, chromosome: Chromosome) -> dict[str, Part]:
        """Which entries a chromosome's network holds."""
        return self.parts[self.index_of(chromosome)]

    def index_of(self, chromosome: Chromosome) -> int:
        """Place of a chromosome's shape among all."""
        return self.shapes.index(self.shape_of(chromosome))

    def propagation_of(self, chromosome: Chromosome) -> int:
        """Place of a chromosome's hops and teleport among all."""
        full = self.full(chromosome)
        return self.propagations.index((full["hops"], full["teleport"]))

    def _teleport_of(self, spec: ModelSpec) -> float:
        """That of a network of a family, unless a chromosome says otherwise."""
        return (spec.sgc_teleport or 0.0) if spec.family == "sgc" else spec.teleport

    def _spec_of(self, shape: Shape) -> ModelSpec:
        family, layers, hidden = shape
        return replace(self._spec, family=family, layers=layers, hidden=hidden)

    def _own(self) -> Chromosome:
        """The environment."""
        own = self._settings
        rates: Chromosome = {name: getattr(own, name) for name in _PLAIN}
        for optimizer in self.optimizers:
            rate, low, high = RATE_OF[optimizer]
            rates[rate] = own.lr if optimizer == own.optimizer else math.sqrt(low * high)
        return {
            "model": own.model,
            "hops": self._spec.steps,
            "teleport": self._teleport_of(self._spec),
            "layers": self._fewest if own.model in _FLAT else own.layers,
            "hidden": own.hidden,
            "activation": HIDDEN_ACTIVATIONS[0],
            **rates,
        }

    def _structure(self) -> list[Gene]:
        own = self.environment
        return [
            Categorical("model", tuple(self._families)),
            Categorical("hops", _with(HOPS, own["hops"])),
            Categorical("teleport", _with(_TELEPORTS, own["teleport"], self._spec.teleport)),
            Integer("layers", self._fewest, self._deepest),
            Categorical("hidden", tuple(self._widths)),
            Categorical("activation", HIDDEN_ACTIVATIONS),
        ]

    def _rates(self) -> list[Gene]:
        own = self._settings
        return [
            LogFloat("inner_lr", min(0.01, own.inner_lr), max(2.0, own.inner_lr)),
            *([] if own.common_rate else self._outer()),
            Categorical("weight_decay", _with(_DECAYS, own.weight_decay)),
            Integer("inner_steps", min(1, own.inner_steps), max(10, own.inner_steps)),
            Integer("tasks", 1, max(3, own.tasks)),
            Categorical("support", _with(_SIZES, own.support)),
            Categorical("query", _with(_SIZES, own.query)),
        ]

    def _outer(self) -> list[Gene]:
        """What decides how far an outer step goes."""
        names = [RATE_OF[optimizer][0] for optimizer in self.optimizers]
        rates = [LogFloat(name, *self.rate_range(name)) for name in names]
        return [*rates, Categorical("optimizer", tuple(self.optimizers))]

    def rate_range(self, gene: str) -> tuple[float, float]:
        """Between what an outer rate lies; the environment's is within."""
        own = float(self.environment[gene])
        low, high = next((low, high) for name, low, high in RATE_OF.values() if name == gene)
        return min(low, own), max(high, own)

    def _canonical(self, chromosome: Chromosome) -> Chromosome:
        """Genes that a network does not read are the environment's or the widest."""
        full = dict(chromosome)
        for optimizer in self.optimizers:
            if optimizer != full.get("optimizer", optimizer):
                rate, *_ = RATE_OF[optimizer]
                full[rate] = self.environment[rate]
        if "model" not in chromosome:
            return full
        if full["model"] in _HOPLESS:
            full["hops"], full["teleport"] = 1, self.environment["teleport"]
        if full["model"] in _FLAT:
            full["layers"] = self._fewest
        if full["model"] in _FLAT or full["layers"] == 1:
            full["hidden"], full["activation"] = self._settings.hidden, HIDDEN_ACTIVATIONS[0]
        return full


def _with(choices: tuple[Value, ...], *own: Value) -> tuple[Value, ...]:
    return tuple(sorted({*choices, *own}))
