"""Networks from outside the package: any ``nn.Module`` with ``forward(x, edge_index)``.

A class or factory is called with the number of features and of classes, by name where its signature
has such a name (:data:`SIZES`), else in this order; with nothing if it takes nothing. Settings such
as ``hidden`` are handed over where it has a parameter of that name (:data:`OPTIONS`); a parameter
with a default keeps it unless the setting was changed. A module that is handed over is copied,
weights included.

Code from outside draws from torch's own generator. It gets that generator in the state of the named
one that is due, one thread at a time, and leaves it as it was: results depend on seed, client and
round alone, and whoever calls has his own random numbers undisturbed.
"""

import copy
import hashlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from autofgl import plugins
from autofgl.errors import UserError, one_line
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.operation import Rng, global_randomness
from autofgl.nn.models.base import GNN
from autofgl.nn.models.spec import OwnSpec
from autofgl.nn.structure import Structure

#: What a class may call the width of its input and of its output, and the settings.
SIZES = {
    "in_features": ("in_features", "in_channels", "num_features"),
    "classes": ("classes", "out_channels", "num_classes"),
}
OPTIONS = {
    "hidden": ("hidden", "hidden_channels"),
    "layers": ("layers", "num_layers"),
    "dropout": ("dropout",),
    "heads": ("heads",),
}
_EDGE_FEATURES = ("edge_attr", "edge_attrs", "edge_features")
_WAY = "models take forward(x, edge_index) or forward(x, edge_index, edge_weight)"
_EMPTY = inspect.Parameter.empty
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class OwnNetwork(GNN):
    """A module from outside, called as our networks are; names of parameters are the module's own.

    It is run once on a tiny graph, which gives lazy layers their shapes, and shows what does not
    fit and whether it draws random numbers when it is not training.
    """

    spec: OwnSpec

    def __init__(self, spec: OwnSpec, module: nn.Module) -> None:
        super().__init__(spec)
        self.own = module.float()
        self._takes_weight = _edge_weight_of(module, spec.title)
        before = torch.get_rng_state()
        try_out(self.eval(), spec.title, 4)
        self._draws = not torch.equal(before, torch.get_rng_state())
        self.train()
        complex_ = [name for name, value in module.state_dict().items() if value.is_complex()]
        if complex_:
            raise UserError(f"{spec.title}: '{complex_[0]}' is complex, which cannot be averaged")

    def forward(
        self,
        x: NodeInput,
        edges: Tensor | Structure,
        edge_weight: Tensor | None = None,
        *,
        generator: Rng = None,
    ) -> Tensor:
        """Class scores ``[n, classes]``."""
        features = x if isinstance(x, Tensor) else x.dense
        index, weight = (
            (edges, edge_weight)
            if isinstance(edges, Tensor)
            else (edges.edge_index, edges.edge_weight)
        )
        if not self.training and not self._draws:
            return self.call(features, index, weight)
        with global_randomness(generator):
            return self.call(features, index, weight)

    def call(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The module itself; one that must have weights of edges gets ones where there are none."""
        if self._takes_weight == "required" and edge_weight is None:
            edge_weight = x.new_ones(edge_index.shape[1])
        weights = () if edge_weight is None or not self._takes_weight else (edge_weight,)
        out: Tensor = self.own(x, edge_index, *weights)
        return out

    @property
    def tracked_buffers(self) -> tuple[str, ...]:
        """All buffers that the module saves."""
        parameters = {name for name, _ in self.own.named_parameters(remove_duplicate=False)}
        return tuple(name for name in self.own.state_dict() if name not in parameters)

    def fingerprint(self) -> str:
        """A digest of names and shapes of parameters and buffers."""
        shapes = [f"{name} {list(value.shape)}" for name, value in self.own.state_dict().items()]
        return hashlib.sha256("\n".join(shapes).encode()).hexdigest()[:32]

    def as_module(self) -> nn.Module:
        """The module itself."""
        return self.own

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's."""
        return self.own.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's."""
        return self.own.load_state_dict(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """The module's."""
        return self.own.named_parameters(*args, **kwargs)

    def get_submodule(self, target: str) -> nn.Module:
        """The module's."""
        return self.own.get_submodule(target)


def build_own(spec: OwnSpec, generator: Rng = None) -> OwnNetwork:
    """The network of a description; initial weights are drawn as its own code has it.

    Raises:
        UserError: It cannot be built, or does not fit; one line says why.
    """
    make = plugins.find("model", spec.home)
    with torch.device("cpu"), global_randomness(generator):
        module = copy.deepcopy(make) if isinstance(make, nn.Module) else _called(make, spec)
        if not isinstance(module, nn.Module):
            what = "is no class, factory or module" if module is make else "gives no nn.Module"
            raise UserError(f"model '{spec.home}' {what}")
        return OwnNetwork(spec, module)


def keep_module(make: Any) -> str:
    """A name in this process for a factory, or for a module as it is now, weights included."""
    digest = hashlib.sha256()
    title = getattr(make, "__name__", type(make).__name__)
    if isinstance(make, nn.Module):
        make = copy.deepcopy(make)
        for name, value in make.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
    else:
        digest.update(str(id(make)).encode())
    return plugins.hand_over("model", f"{plugins.GIVEN}{title}@{digest.hexdigest()[:12]}", make)


def unread_options(spec: OwnSpec) -> set[str]:
    """Settings that the class has no parameter for."""
    make = plugins.find("model", spec.home)
    names = set() if isinstance(make, nn.Module) else set(_parameters(make))
    return {key for key, aliases in OPTIONS.items() if not names & set(aliases)}


def try_out(network: OwnNetwork, title: str, nodes: int) -> None:
    """Run a network on a path of some nodes.

    Raises:
        UserError: It fails, or its output is not one score per node and class.
    """
    spec = network.spec
    ends = torch.arange(max(nodes - 1, 0))
    index = torch.cat([torch.stack([ends, ends + 1]), torch.stack([ends + 1, ends])], dim=1)
    try:
        with torch.no_grad():
            out = network.call(torch.ones(nodes, spec.in_features), index)
    except Exception as error:  # whatever somebody's code raises
        graph = f"a graph of {nodes} nodes with {spec.in_features} features each"
        reason = f"{type(error).__name__}: {error}"
        raise UserError(one_line(f"{title} fails on {graph}: {reason}: {_WAY}", 500)) from error
    if not isinstance(out, Tensor):
        raise UserError(f"{title} gives a {type(out).__name__}: return class scores, [n, classes]")
    if out.dim() != 2 or len(out) != nodes or not out.is_floating_point():
        wrong = f"{title} gives {out.dtype} {list(out.shape)} for {nodes} nodes"
        raise UserError(f"{wrong}: return class scores, [{nodes}, {spec.classes}]")
    if out.shape[1] != spec.classes:
        wrong = f"{title} gives {out.shape[1]} scores per node, the graphs have {spec.classes}"
        raise UserError(f"{wrong} classes: make its output {spec.classes} wide")


def _called(make: Any, spec: OwnSpec) -> Any:
    """What a class or factory makes."""
    if not callable(make):
        return make
    places, names = _arguments(make, spec)
    try:
        return make(*places, **names)
    except Exception as error:  # whatever somebody's code raises
        said = f"{spec.title} cannot be built: {type(error).__name__}: {error}"
        raise UserError(one_line(said, 500)) from error


def _arguments(make: Callable[..., Any], spec: OwnSpec) -> tuple[list[int], dict[str, Any]]:
    """What a class or factory is called with, by place and by name."""
    parameters = _parameters(make)
    needed = [name for name, one in parameters.items() if one.default is _EMPTY]
    given = {**(spec.options or {}), "in_features": spec.in_features, "classes": spec.classes}
    always = {*SIZES, *(spec.changed or ())}
    names = {
        alias: given[key]
        for key, aliases in {**SIZES, **OPTIONS}.items()
        for alias in aliases
        if key in given and alias in (parameters if key in always else needed)
    }
    known = {alias for aliases in SIZES.values() for alias in aliases}
    asked = [name for name in needed if name not in names]
    if known & names.keys() or not asked:
        places = []
    else:
        places, asked = [spec.in_features, spec.classes], asked[2:] if len(asked) > 1 else asked
    if asked:
        raise UserError(
            f"{spec.title} asks for '{asked[0]}', which nobody gives: a model is called with "
            "in_features and classes, and with hidden, layers, dropout and heads if it has them"
        )
    return places, names


def _parameters(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters that can be given one by one."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # some classes in C have none
        return {}
    return {k: one for k, one in parameters.items() if one.kind in {*_BY_NAME, *_BY_PLACE}}


def _edge_weight_of(module: nn.Module, title: str) -> str:
    """Whether ``forward`` takes weights of edges: "required", "optional", or empty for no.

    Raises:
        UserError: It does not take what there is, or asks for more.
    """
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return ""
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters[:2]):
        return ""
    if len(parameters) < 2 or parameters[1].kind not in _BY_PLACE:
        names = ", ".join(one.name for one in parameters)
        raise UserError(f"{title} has forward({names}): {_WAY}")
    for one in parameters[2:]:
        if one.default is not _EMPTY or one.name == "edge_weight" or one.kind not in _BY_NAME:
            continue
        if one.name in _EDGE_FEATURES:
            lack = f"needs edge features ('{one.name}'), which the graphs do not have"
            raise UserError(f"{title} {lack}: {_WAY}")
        raise UserError(f"{title} needs '{one.name}', which nobody gives: {_WAY}")
    third = parameters[2] if len(parameters) > 2 else None
    if third is None or third.name != "edge_weight":
        return ""
    return "required" if third.default is _EMPTY else "optional"
