"""The descriptions of networks, everything but their weights, as data and in words.

Torch is not imported here, so that the command line can check a description at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self, TypeAlias

from autofgl.errors import UserError, unknown_name
from autofgl.nn.space import (
    ACTIVATIONS,
    LAYER_TYPES,
    Fusion,
    Genotype,
    Space,
    check_fusion,
    fused_layers,
    own_types,
)

#: Number of hops of the families that have one, where the spec leaves it open.
DEFAULT_HOPS = {"sgc": 2, "appnp": 10, "grand": 4}

#: What may stand between the layers of ``gcn``, ``sage`` and ``appnp``.
HIDDEN_ACTIVATIONS = ("relu", "tanh", "elu")

#: The fixed networks.
FAMILIES = (
    "agnn", "appnp", "arma", "gat", "gatedgraph", "gcn", "gin", "grand", "sage", "sfgnn", "sgc",
)  # fmt: skip

#: The family of searched networks, as saved descriptions name it.
SEARCHED_FAMILY = "found"

#: The family of networks of two towers, one of the client's own and a common one.
BLENDED_FAMILY = "blended"

#: The family of networks from outside the package.
OWN_FAMILY = "own"


@dataclass(frozen=True)
class _Description:
    """What has a form of plain JSON values."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for files and payloads; what is left open is left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The description that :meth:`to_json` wrote; keys with a default may be missing."""
        names = [field.name for field in fields(cls)]
        for key in data:
            if key not in names:
                raise unknown_name("model option", str(key), names)
        for field in fields(cls):
            if field.default is MISSING and field.name not in data:
                raise UserError(f"model description lacks '{field.name}'")
        return cls(**data)


@dataclass(frozen=True)
class ModelSpec(_Description):
    """A family of fixed networks and its sizes. Each family reads what it has.

    ``layers`` are convolutions; for ``appnp`` and ``grand`` they are linear layers, for
    ``gatedgraph`` recurrent steps, for ``sfgnn`` the depth of its message passing. ``sgc`` always
    has one.
    """

    family: str
    in_features: int
    classes: int
    hidden: int = 64  # width of the hidden layers; for gat that of all heads together
    layers: int = 2
    dropout: float = 0.5  # before every layer, and on the attention coefficients of gat
    heads: int = 8  # of the hidden layers of gat; the last layer has one
    hops: int | None = None  # propagation steps of sgc, appnp and grand; None for the usual ones
    teleport: float = 0.1  # probability of going back to the start in appnp
    stacks: int = 3  # parallel stacks of arma
    stack_layers: int = 2  # steps within each stack of arma, which share their weights
    root_dropout: float = 0.25  # on the skip connections of arma
    sgc_teleport: float | None = None  # that of sgc: personalized PageRank; None for plain hops
    activation: str | None = None  # between the layers of gcn, sage and appnp; None for relu

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise unknown_name("model", str(self.family), FAMILIES)
        if self.activation is not None and self.activation not in HIDDEN_ACTIVATIONS:
            raise unknown_name("activation", str(self.activation), HIDDEN_ACTIVATIONS)
        owner = f"model {self.family}"
        counts = ("in_features", "classes", "hidden", "layers", "heads", "stacks", "stack_layers")
        for name in counts:
            _check_count(owner, name, getattr(self, name))
        if self.hops is not None:
            _check_count(owner, "hops", self.hops, least=0)
        for name in ("dropout", "teleport", "root_dropout"):
            check_probability(owner, name, getattr(self, name))
        if self.sgc_teleport is not None:
            check_probability(owner, "sgc_teleport", self.sgc_teleport)
        if self.family == "gat" and self.hidden % self.heads:
            raise UserError(
                f"model gat: hidden {self.hidden} must be a multiple of heads {self.heads}"
            )

    @property
    def steps(self) -> int:
        """Number of propagation steps: the spec's own, or the family's usual one."""
        return DEFAULT_HOPS.get(self.family, 1) if self.hops is None else self.hops


@dataclass(frozen=True)
class BlendedSpec(ModelSpec):
    """Two networks of the family ``sfgnn``: a client's own of depth ``layers``, and a common one
    of depth ``common_layers``.
    """

    common_layers: int = 2

    def __post_init__(self) -> None:
        _check_count(f"model {BLENDED_FAMILY}", "common_layers", self.common_layers)
        if self.family != BLENDED_FAMILY:
            raise UserError(
                f"a network of two towers is of the family '{BLENDED_FAMILY}', not '{self.family}'"
            )
        for tower in self.towers:  # each checks its sizes
            _check_count(f"model {BLENDED_FAMILY}", "layers", tower.layers)

    @property
    def towers(self) -> tuple[ModelSpec, ModelSpec]:
        """The own network and the common one."""
        sizes = (self.in_features, self.classes, self.hidden)
        own, common = (
            ModelSpec("sfgnn", *sizes, depth, self.dropout)
            for depth in (self.layers, self.common_layers)
        )
        return own, common


@dataclass(frozen=True)
class SearchedSpec(_Description):
    """A network of the search space; the family tells it from a fixed network."""

    genotype: str
    in_features: int
    classes: int
    hidden: int = 64  # between input and output stage
    dropout: float = 0.0  # before both fully connected layers: on features and fused output
    layer_dropout: float = 0.0  # on the input of every convolution
    fusion: Fusion = "all"
    family: str = SEARCHED_FAMILY
    own_layers: dict[str, str] | None = None  # layers from outside: home by name in the genotype

    def __post_init__(self) -> None:
        if self.family != SEARCHED_FAMILY:
            raise UserError(
                f"a searched network is of the family '{SEARCHED_FAMILY}', not '{self.family}'"
            )
        homes = self.own_layers or {}
        if not isinstance(homes, dict) or own_types(homes.values()) != homes:
            raise UserError("searched network: layers from outside are homes by name")
        object.__setattr__(self, "genotype", str(self.parsed()))
        for name in ("in_features", "classes", "hidden"):
            _check_count("searched network", name, getattr(self, name))
        check_fusion(self.fusion)
        for name in ("dropout", "layer_dropout"):
            check_probability("searched network", name, getattr(self, name))

    def parsed(self) -> Genotype:
        """The genotype, with exactly its existing layers."""
        layers = len(self.genotype.split("|")[1].split()) if self.genotype.count("|") == 2 else 0
        own = (self.own_layers or {}).values()
        genotype = Space(layers, (*LAYER_TYPES, *own), ACTIVATIONS).parse(self.genotype)
        return Genotype(genotype.input, genotype.existing, genotype.output)


@dataclass(frozen=True)
class OwnSpec(_Description):
    """A network from outside the package: where its class or factory is, and its sizes.

    ``home`` is ``file.py:Class``, ``module:Class``, the name of an entry point, or the name under
    which a module was handed over. The description has no code: whoever builds the network has it.
    ``options`` are settings such as ``hidden``, for parameters of the class that have no default;
    ``changed`` names those that also replace a default, since the user has changed them.
    """

    home: str
    in_features: int
    classes: int
    options: dict[str, int | float] | None = None
    changed: list[str] | None = None
    family: str = OWN_FAMILY

    def __post_init__(self) -> None:
        if self.family != OWN_FAMILY or not isinstance(self.home, str) or not self.home:
            raise UserError(
                f"a network of one's own is of the family '{OWN_FAMILY}' and has a home"
            )
        for name in ("in_features", "classes"):
            _check_count(self.title, name, getattr(self, name))
        if self.options is not None and not _plain(self.options):
            raise UserError(f"{self.title}: its options are not numbers by name")
        if not all(isinstance(name, str) for name in self.changed or ()):
            raise UserError(f"{self.title}: names of changed options are no text")

    @property
    def dropout(self) -> float:
        """The rate that a class with such a parameter is given."""
        return float((self.options or {}).get("dropout", 0.0))

    @property
    def title(self) -> str:
        """The class in short."""
        return self.home.rpartition(":")[2].partition("@")[0]


NetworkSpec: TypeAlias = ModelSpec | SearchedSpec | OwnSpec


def spec_from_json(data: Mapping[str, Any]) -> NetworkSpec:
    """The description that ``to_json`` wrote.

    Raises:
        UserError: Its family is unknown, or it is malformed.
    """
    if data.get("family") == SEARCHED_FAMILY:
        return SearchedSpec.from_json(data)
    if data.get("family") == OWN_FAMILY:
        return OwnSpec.from_json(data)
    if data.get("family") == BLENDED_FAMILY:
        return BlendedSpec.from_json(data)
    return ModelSpec.from_json(data)


def own_names(spec: NetworkSpec) -> set[str]:
    """Names of what comes from outside the package; whoever builds the network runs its code."""
    if isinstance(spec, OwnSpec):
        return {spec.home}
    return set((spec.own_layers or {}).values()) if isinstance(spec, SearchedSpec) else set()


def network_summary(spec: NetworkSpec) -> str:
    """A network on one line."""
    if isinstance(spec, SearchedSpec):
        return spec.genotype
    if isinstance(spec, OwnSpec):
        return f"{spec.title}, {spec.in_features} → {spec.classes}"
    layers = "1 layer" if spec.layers == 1 else f"{spec.layers} layers"
    return f"{spec.family}, {layers}, {spec.in_features} → {spec.hidden} → {spec.classes}"


def architecture_tree(genotype: Genotype, fusion: Fusion = "all") -> str:
    """A searched architecture as a tree for the terminal, its averaged outputs led to the output.

    A layer hangs below its predecessor. ``sigmoid | gcn<0 gat<1 sage<0 | relu`` becomes::

        features → linear → sigmoid
        ├─ 1 gcn ────┐
        │  └─ 2 gat ─┤
        └─ 3 sage ───┤
                     └─ mean of 3 → linear → relu → classes

    Layers that do not exist are left out. Six layers take at most 78 columns.
    """
    start = f"features → linear → {genotype.input}"
    end = f"linear → {genotype.output} → classes"
    if not genotype.depth:
        return f"{start} → {end}"
    averaged = fused_layers(genotype, fusion)
    if len(averaged) > 1:
        end = f"mean of {len(averaged)} → {end}"
    tree = list(_labels(genotype))
    width = max(len(label) for _, label in tree) + 2
    first = next(at for at, (layer, _) in enumerate(tree) if layer in averaged)
    lines = [
        _line(label, width, layer in averaged, at > first) for at, (layer, label) in enumerate(tree)
    ]
    return "\n".join([start, *lines, f"{' ' * width}└─ {end}"])


def _labels(genotype: Genotype, root: int = 0, indent: str = "") -> Iterator[tuple[int, str]]:
    """Index and label of the layers below one, depth first."""
    layers = enumerate(genotype.existing, start=1)
    below = [(index, layer.type) for index, layer in layers if layer.previous == root]
    for index, kind in below:
        last = index == below[-1][0]
        yield index, f"{indent}{'└─' if last else '├─'} {index} {kind}"
        yield from _labels(genotype, index, indent + ("   " if last else "│  "))


def _line(label: str, width: int, averaged: bool, below_another: bool) -> str:
    """A layer's label with its line to the rail at the right, if its output is averaged."""
    if averaged:
        return f"{label} {'─' * (width - len(label) - 1)}{'┤' if below_another else '┐'}"
    return f"{label:{width}}│" if below_another else label


def check_probability(owner: str, name: str, value: object) -> None:
    """Refuse what is no probability."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0.0 <= value <= 1.0):  # type: ignore[operator]
        raise UserError(f"{owner}: {name} must lie in [0, 1], not {value!r}")


def _check_count(owner: str, name: str, value: object, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{owner}: {name} must be an integer of at least {least}, not {value!r}")


def _plain(options: object) -> bool:
    return isinstance(options, dict) and all(
        isinstance(key, str) and isinstance(value, int | float) for key, value in options.items()
    )
