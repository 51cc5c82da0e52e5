"""Networks as users write them, for tests; other processes import this file too."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GAT, GCN, GIN, GCNConv, GraphSAGE


class Normed(nn.Module):
    """Two convolutions with BatchNorm and dropout between them."""

    def __init__(self, in_features: int, classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.first = GCNConv(in_features, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.last = GCNConv(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x, edge_index)))
        return self.last(nn.functional.dropout(x, 0.5, self.training), edge_index)


class Weighted(nn.Module):
    """Takes weights of edges, and positional sizes of other names."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.conv = GCNConv(width, outputs)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.conv(x, edge_index, edge_weight)


class PredictThenPropagate(nn.Module):
    """PyG's APPNP layer behind a perceptron."""

    def __init__(self, in_features: int, classes: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(in_features, hidden), nn.Linear(hidden, classes)
        self.propagate, self.dropout = APPNP(K=10, alpha=0.1), dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = nn.functional.dropout(x, self.dropout, self.training)
        x = nn.functional.dropout(torch.relu(self.lin1(x)), self.dropout, self.training)
        return self.propagate(self.lin2(x), edge_index)


def gcn(in_features: int, classes: int) -> nn.Module:
    return GCN(in_features, 16, 2, classes, dropout=0.5)


def gat(in_features: int, classes: int) -> nn.Module:
    return GAT(in_features, 16, 2, classes, heads=4, dropout=0.5)


def sage(in_features: int, classes: int) -> nn.Module:
    return GraphSAGE(in_features, 16, 2, classes, dropout=0.5)


def gin(in_features: int, classes: int) -> nn.Module:
    return GIN(in_features, 16, 2, classes, dropout=0.5, norm="batch_norm")


class Wide(nn.Module):
    """Gives one score too many."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_features, classes + 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class EdgeFeatures(Weighted):
    """Needs what no graph here has."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:  # type: ignore[override]
        return self.conv(x, edge_index, edge_attr)


class OfData(Weighted):
    """Takes a whole data object."""

    def forward(self, data: Tensor) -> Tensor:  # type: ignore[override]
        return data


class Asking(nn.Module):
    """Asks for what nobody gives."""

    def __init__(self, in_features: int, classes: int, temperature: float) -> None:
        super().__init__()


class Failing(Weighted):
    """Fails when it is run."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        raise RuntimeError("no luck\ntoday")


class Frozen(Weighted):
    """Has nothing to train."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.requires_grad_(False)


class ByNode(nn.Module):
    """Learns a row for each node, which no other graph has."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.rows, self.classes = nn.UninitializedParameter(), classes

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if isinstance(self.rows, nn.UninitializedParameter):
            self.rows.materialize((len(x), self.classes))
            nn.init.zeros_(self.rows)
        return self.rows + 0


_SIZES = iter(range(4, 1000))


class Moody(nn.Module):
    """Another width every time."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        width = next(_SIZES)
        self.first, self.last = nn.Linear(in_features, width), nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.first(x))


class Number:
    """Not even a module."""

    def __init__(self, in_features: int, classes: int) -> None:
        self.sizes = (in_features, classes)
