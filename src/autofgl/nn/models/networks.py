"""The fixed GNNs and the one of a search, and how to build any from its description."""

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from autofgl.errors import UserError
from autofgl.nn.conv import layer_type
from autofgl.nn.conv.agnn import AGNNConv
from autofgl.nn.conv.appnp import APPNPConv
from autofgl.nn.conv.arma import ARMAConv
from autofgl.nn.conv.base import Convolution
from autofgl.nn.conv.gat import GATConv
from autofgl.nn.conv.gated_graph import GatedGraphConv
from autofgl.nn.conv.gcn import GCNConv
from autofgl.nn.conv.gin import GINConv
from autofgl.nn.conv.own import OwnConvolution
from autofgl.nn.conv.sage import SAGEConv
from autofgl.nn.conv.sgc import SGConv
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.kernels.operation import Rng, global_randomness
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS, GNN
from autofgl.nn.models.own import OwnNetwork, build_own, try_out
from autofgl.nn.models.sfgnn import BlendedGNN, SeparatedGNN
from autofgl.nn.models.spec import (
    DEFAULT_HOPS,
    SEARCHED_FAMILY,
    BlendedSpec,
    ModelSpec,
    NetworkSpec,
    OwnSpec,
    SearchedSpec,
    own_names,
)
from autofgl.nn.space import fused_layers
from autofgl.nn.structure import Structure


class StackedGNN(GNN):
    """Convolutions one after the other, with dropout before each and an activation between."""

    def __init__(
        self,
        spec: ModelSpec,
        convs: Iterable[Convolution],
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__(spec)
        self.convs = nn.ModuleList(convs)
        self.activation = activation

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Convolve layer by layer."""
        *hidden, last = self.convs
        for conv in hidden:
            x = self.activation(conv(self.apply_dropout(x, generator), structure, generator))
        out: Tensor = last(self.apply_dropout(x, generator), structure, generator)
        return out


class GCN(StackedGNN):
    """The network of `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, [GCNConv(*sizes) for sizes in _sizes(spec)], _activation(spec))


class SAGE(StackedGNN):
    """GraphSAGE with the mean aggregator over all neighbors, from `"Inductive Representation
    Learning on Large Graphs" <https://arxiv.org/abs/1706.02216>`_.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, [SAGEConv(*sizes) for sizes in _sizes(spec)], _activation(spec))


class GIN(StackedGNN):
    """The network of `"How Powerful are Graph Neural Networks?"
    <https://arxiv.org/abs/1810.00826>`_ for nodes, without batch normalization.
    """

    def __init__(self, spec: ModelSpec) -> None:
        hidden = spec.hidden
        super().__init__(spec, [GINConv(*sizes, hidden_channels=hidden) for sizes in _sizes(spec)])


class SGC(StackedGNN):
    """The network of `"Simplifying Graph Convolutional Networks"
    <https://arxiv.org/abs/1902.07153>`_: propagation and one linear map.

    The paper has no dropout; here the spec's applies to the input, as in the other families. With
    ``sgc_teleport`` it propagates by personalized PageRank.
    """

    def __init__(self, spec: ModelSpec) -> None:
        sizes, alpha = (spec.in_features, spec.classes), spec.sgc_teleport or 0.0
        super().__init__(spec, [SGConv(*sizes, K=spec.steps, alpha=alpha)])


class GAT(StackedGNN):
    """The network of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_: several
    heads side by side in the hidden layers, one in the last.
    """

    def __init__(self, spec: ModelSpec) -> None:
        (*hidden, last), head = _sizes(spec), spec.hidden // spec.heads
        convs = [GATConv(width, head, spec.heads, dropout=spec.dropout) for width, _ in hidden]
        convs.append(GATConv(*last, concat=False, dropout=spec.dropout))
        super().__init__(spec, convs, activation=functional.elu)


class ARMA(StackedGNN):
    """The network of `"Graph Neural Networks with Convolutional ARMA Filters"
    <https://arxiv.org/abs/1901.01343>`_. The last convolution has no activation.
    """

    def __init__(self, spec: ModelSpec) -> None:
        stacks, steps, dropped = spec.stacks, spec.stack_layers, spec.root_dropout
        convs = [ARMAConv(*sizes, stacks, steps, dropout=dropped) for sizes in _sizes(spec)]
        convs[-1].act = None
        super().__init__(spec, convs)


class APPNP(GNN):
    """The network of `"Predict then Propagate: Graph Neural Networks meet Personalized PageRank"
    <https://arxiv.org/abs/1810.05997>`_: a perceptron, then propagation of its predictions.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.lins = nn.ModuleList(Linear(*sizes) for sizes in _sizes(spec))
        self.activation = _activation(spec)
        self.prop = APPNPConv(K=spec.steps, alpha=spec.teleport)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Predict, then propagate."""
        *hidden, last = self.lins
        for lin in hidden:
            x = self.activation(lin(self.apply_dropout(x, generator)))
        out: Tensor = self.prop(last(self.apply_dropout(x, generator)), structure)
        return out


class GRAND(GNN):
    r"""The network of `"Graph Random Neural Network for Semi-Supervised Learning on Graphs"
    <https://arxiv.org/abs/2005.11079>`_: features are averaged over 0 to K hops, then classified by
    a perceptron (Eq. 1).

    .. math::
        \bar{\mathbf{X}} = \frac{1}{K + 1} \sum_{k=0}^{K}
        \left(\tilde{\mathbf{D}}^{-1/2} (\mathbf{A} + \mathbf{I})
        \tilde{\mathbf{D}}^{-1/2} \right)^k \mathbf{X}

    The first linear map comes before the average, with which it commutes, so that hops are as wide
    as the hidden layer. Its random propagation is the setting ``node_dropout``, its loss
    ``consistency``.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        first, *others = _sizes(spec)
        self.first = Linear(*first)
        self.lins = nn.ModuleList(Linear(*sizes) for sizes in others)
        self.hops = spec.steps

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Average over hops, then classify."""
        hop = total = self.first.product(x)
        for _ in range(self.hops):
            hop = structure.gcn @ hop
            total = total + hop
        out = self.first.add_bias(total / (self.hops + 1))
        for lin in self.lins:
            out = lin(self.apply_dropout(torch.relu(out), generator))
        return out


class AGNN(GNN):
    """The network of `"Attention-based Graph Neural Network for Semi-supervised Learning"
    <https://arxiv.org/abs/1803.03735>`_: attention layers between two linear ones. The first
    attention layer's β is fixed.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.lin1 = Linear(spec.in_features, spec.hidden)
        self.convs = nn.ModuleList(AGNNConv(requires_grad=i > 0) for i in range(spec.layers))
        self.lin2 = Linear(spec.hidden, spec.classes)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Map, attend layer by layer, map."""
        x = torch.relu(self.lin1(self.apply_dropout(x, generator)))
        for conv in self.convs:
            x = conv(x, structure)
        out: Tensor = self.lin2(self.apply_dropout(x, generator))
        return out


class GatedGraph(GNN):
    """Recurrent message passing between two linear layers, after `"Gated Graph Sequence Neural
    Networks" <https://arxiv.org/abs/1511.05493>`_. The gates are its only nonlinearity.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.lin1 = Linear(spec.in_features, spec.hidden)
        self.conv = GatedGraphConv(spec.hidden, num_layers=spec.layers)
        self.lin2 = Linear(spec.hidden, spec.classes)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """Map, pass messages, map."""
        state = self.conv(self.lin1(self.apply_dropout(x, generator)), structure)
        out: Tensor = self.lin2(self.apply_dropout(state, generator))
        return out


class SearchedNetwork(GNN):
    """A network of A(L), FL-AGCNS section 3.1, trained and kept after a search.

    Stage 1 is a fully connected layer with the activation IS, stage 2 the tree of convolutions
    with the mean of their outputs, stage 3 a fully connected layer with the activation OS. There
    is no activation between convolutions. Without any layer, stage 2 hands on stage 1's output;
    stage 3 has the width of the classes (the paper says 64).
    """

    spec: SearchedSpec

    def __init__(self, spec: SearchedSpec) -> None:
        super().__init__(spec)
        self.genotype = spec.parsed()
        self.input = Linear(spec.in_features, spec.hidden)
        self.convs = nn.ModuleList(
            layer_type(layer.type, spec.own_layers).make(spec.hidden)
            for layer in self.genotype.layers
        )
        self.output = Linear(spec.hidden, spec.classes)

    def logits(self, x: NodeInput, structure: Structure, generator: Rng) -> Tensor:
        """The three stages; the scores are those after the output activation."""
        start = self.input(self.apply_dropout(x, generator))
        outputs = [ACTIVATION_FUNCTIONS[self.genotype.input](start)]
        for conv, layer in zip(self.convs, self.genotype.layers, strict=True):
            inputs = outputs[layer.previous or 0]
            inputs = dropout(inputs, self.spec.layer_dropout, self.training, generator)
            outputs.append(conv(inputs, structure, generator))
        chosen = [outputs[index] for index in fused_layers(self.genotype, self.spec.fusion)]
        fused = chosen[0] if len(chosen) == 1 else torch.stack(chosen).mean(0)
        out = self.output(self.apply_dropout(fused, generator))
        return ACTIVATION_FUNCTIONS[self.genotype.output](out)

    @property
    def tracked_buffers(self) -> tuple[str, ...]:
        """Those of layers from outside."""
        names = {
            f"convs.{index}.{name}"
            for index, conv in enumerate(self.convs)
            if isinstance(conv, OwnConvolution)
            for name, _ in conv.named_buffers()
        }
        return tuple(name for name in self.state_dict() if name in names)


#: The networks by the family of their description.
MODELS: dict[str, Callable[..., GNN]] = {
    "agnn": AGNN,
    "appnp": APPNP,
    "arma": ARMA,
    "gat": GAT,
    "gatedgraph": GatedGraph,
    "gcn": GCN,
    "gin": GIN,
    "grand": GRAND,
    "sage": SAGE,
    "sfgnn": SeparatedGNN,
    "sgc": SGC,
    SEARCHED_FAMILY: SearchedNetwork,
}


def empty_network(spec: NetworkSpec) -> GNN:
    """The network of a description, for parameters that are loaded."""
    if isinstance(spec, OwnSpec):
        return build_own(spec)
    if isinstance(spec, BlendedSpec):
        return BlendedGNN(spec)
    return MODELS[spec.family](spec)


def build_network(spec: NetworkSpec, generator: Rng = None) -> GNN:
    """The network of a description, with freshly drawn parameters."""
    if isinstance(spec, OwnSpec):
        return build_own(spec, generator)
    network = empty_network(spec)
    network.reset_parameters(generator)
    return network


def receptive_hops(spec: NetworkSpec) -> int | None:
    """How far a network looks: nodes at a greater distance do not enter a node's output.

    None for a network from outside, or with layers from there, of which nobody knows.
    """
    if isinstance(spec, SearchedSpec):
        reach = [0]
        for layer in spec.parsed().layers:
            kind = layer_type(layer.type, spec.own_layers)
            if kind.whole:
                return None
            reach.append(reach[layer.previous or 0] + kind.hops)
        return max(reach)
    if not isinstance(spec, ModelSpec):
        return None
    if isinstance(spec, BlendedSpec):
        return max(spec.layers, spec.common_layers)
    if spec.family in DEFAULT_HOPS:
        return spec.steps
    return spec.layers * (spec.stack_layers if spec.family == "arma" else 1)


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """How many parameters a network has that would be built so; none is, whatever its size.

    Raises:
        UserError: There are more than any machine could address.
    """
    try:
        with torch.device("meta"):
            return sum(value.numel() for value in build().parameters())
    except (RuntimeError, OverflowError) as error:
        raise UserError("a network of this size cannot be built") from error


def parameter_count(spec: NetworkSpec, weights: Mapping[str, Any]) -> int:
    """Parameters of a network with given weights, which may have buffers too."""
    if own_names(spec):
        return count_parameters(partial(empty_network, spec))
    return sum(value.size for value in weights.values())


def check_network(spec: NetworkSpec, nodes: Iterable[int] = ()) -> GNN | None:
    """Refuse a network from outside that cannot be built or run, on graphs of some sizes too.

    Raises:
        UserError: One line says why.
    """
    if not own_names(spec):
        return None
    if isinstance(spec, SearchedSpec):
        for home in own_names(spec):
            OwnConvolution(home, spec.hidden)
    network = build_network(spec)
    if isinstance(network, OwnNetwork) and 1 in nodes:
        probe = copy.deepcopy(network).train()
        with global_randomness(None):
            try_out(probe, f"{network.spec.title}, in training,", 1)
    return network


def _activation(spec: ModelSpec) -> Callable[[Tensor], Tensor]:
    """What the spec has between its layers."""
    return ACTIVATION_FUNCTIONS[spec.activation or "relu"]


def _sizes(spec: ModelSpec) -> list[tuple[int, int]]:
    """Input and output width of each of the spec's layers."""
    widths = [spec.in_features, *[spec.hidden] * (spec.layers - 1), spec.classes]
    return list(pairwise(widths))
