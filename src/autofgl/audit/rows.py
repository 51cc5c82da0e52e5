"""What a curious peer of FedGraph rebuilds from the rows of its neighbors' boundary nodes.

Notation: node u with features x(u) [d]; W_r, b_r weights of round r, which all clients receive;
h the width of a hidden layer, R evaluations, of which each shows u once more.

``share=all``: the first convolution's rows are x(u) W1_r, h numbers that are linear in d unknowns.
Weights change from round to round, so that R rounds are R h equations: d / h rounds are enough for
least squares, and far fewer for features that are mostly zero, such as words of a text.

``share=hidden``: the second convolution's rows are relu(z(u) W1_r + b1_r) W2_r with z(u), the mean
of features over u and its neighbors at home. That is no longer linear, and has as many numbers as
the second convolution is wide; gradient descent on z still finds some of the words.

Only evaluations are used: they have no dropout, and the weights are those that everybody has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from autofgl.audit.transcript import RowsSeen, Transcript
from autofgl.audit.verdict import Leak, graded
from autofgl.graphs.client_graph import ClientGraph, Ints, to_dense

Matrix = npt.NDArray[np.float64]

#: Nodes of one owner that are attacked; more would only take longer.
_MOST_NODES = 30
#: Singular values below this share of the largest one are noise of float32.
_SMALLEST = 1e-7
#: Share of the unknowns from which on equations are enough: the rest are features that nobody has.
_ENOUGH = 0.95
_DESCENT_STEPS, _DESCENT_RATE, _SPARSITY = 400, 0.01, 1e-3


@dataclass(frozen=True)
class Views:
    """What a peer has seen of some nodes of an owner: rows ``[R, n, width]``, weights by round."""

    owner: str
    nodes: Ints
    rows: npt.NDArray[np.float32]
    weights: Sequence[Mapping[str, Any]]


def row_leaks(
    transcript: Transcript,
    graphs: Sequence[ClientGraph],
    share: str,
    scaling: Any,
    report: Callable[[str], None] | None = None,
) -> list[Leak]:
    """What the client that receives the most rows rebuilds of one peer's features."""
    attack = "features from exchanged rows"
    peer = max(transcript.rows, key=lambda name: len(transcript.rows[name]), default="")
    k = 1 if share == "all" else 2
    views = peer_views(transcript, peer, k) if peer else None
    if views is None:
        return [Leak("curious peer", attack, "nothing", "clients exchange no rows")]
    owner = next(graph for graph in graphs if graph.name == views.owner)
    features = to_dense(owner.x).astype(np.float64)
    if scaling:
        order = 2 if scaling == "unit" else 1
        features /= np.maximum(np.linalg.norm(features, order, axis=1, keepdims=True), 1e-12)
    if report is not None:
        report(f"rebuilding features of {len(views.nodes)} nodes from {len(views.rows)} views")
    if k == 1:
        mine = next(graph for graph in graphs if graph.name == peer)
        return [_linear_leak(attack, views, features, bool(to_dense(mine.x).min() >= 0))]
    return [_hidden_leak(attack, views, features, owner)]


def peer_views(transcript: Transcript, peer: str, k: int) -> Views | None:
    """The evaluations of convolution ``k`` that a peer saw of the owner that sent it most."""
    begun = {ask["tag"]: ask for ask in transcript.received(peer, "begin")}
    seen = [
        rows
        for rows in transcript.rows[peer]
        if rows.k == k and begun[rows.tag]["purpose"] != "train"
    ]
    if not seen:
        return None
    owners = [rows.owner for rows in seen]
    owner = max(sorted(set(owners)), key=lambda name: max(_size(seen, name)))
    mine = [rows for rows in seen if rows.owner == owner]
    nodes = mine[0].nodes
    for rows in mine:
        nodes = np.intersect1d(nodes, rows.nodes)
    nodes = nodes[:_MOST_NODES]
    if not len(nodes):
        return None
    stack = np.stack([rows.rows[np.searchsorted(rows.nodes, nodes)] for rows in mine])
    return Views(owner, nodes, stack, [begun[rows.tag]["weights"] for rows in mine])


def _size(seen: Sequence[RowsSeen], owner: str) -> list[int]:
    return [len(rows.nodes) for rows in seen if rows.owner == owner]


def solve_linear(views: Views, nonnegative: bool) -> Matrix:
    """x of each node from x W_r, ``[n, d]``: least squares.

    With far fewer equations than unknowns, non-negative least squares: for features that are mostly
    zero its solution is the sparse one (Slawski and Hein, 2013).
    """
    matrices = [np.asarray(w["convs.0.lin.weight"], np.float64) for w in views.weights]
    left = np.concatenate([matrix.T for matrix in matrices])  # [R h, d]
    right = np.concatenate([one.T for one in views.rows]).astype(np.float64)  # [R h, n]
    solution, _, rank, _ = np.linalg.lstsq(left, right, rcond=_SMALLEST)
    solved: Matrix = solution.T
    if not nonnegative or rank > _ENOUGH * left.shape[1]:
        return solved

    from scipy.optimize import nnls

    for at, column in enumerate(right.T):
        try:
            solved[at] = nnls(left, column, maxiter=1000)[0]
        except RuntimeError:  # did not converge: the least-squares solution stays
            continue
    return solved


def solve_hidden(views: Views) -> Matrix:
    """z of each node from relu(z W1_r + b1_r) W2_r, ``[n, d]``, by projected gradient descent."""
    first, bias, second = (
        torch.tensor(np.stack([np.asarray(w[key]) for w in views.weights]))
        for key in ("convs.0.lin.weight", "convs.0.bias", "convs.1.lin.weight")
    )
    target = torch.tensor(views.rows)
    scale = target.square().mean((1, 2), keepdim=True) + 1e-12  # of a round: all count the same
    flat = first.permute(1, 0, 2).reshape(first.shape[1], -1)  # [d, R h]
    guess = torch.full((len(views.nodes), first.shape[1]), 0.01, requires_grad=True)
    optimizer = torch.optim.Adam([guess], lr=_DESCENT_RATE)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, _DESCENT_STEPS)
    for _ in range(_DESCENT_STEPS):
        optimizer.zero_grad()
        hidden = (guess @ flat).reshape(len(guess), *bias.shape) + bias  # [n, R, h]
        seen = torch.einsum("nrh,rhc->rnc", torch.relu(hidden), second)
        loss = ((seen - target).square() / scale).mean() * len(guess) + _SPARSITY * guess.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        slower.step()
        with torch.no_grad():
            guess.clamp_(min=0)
    return guess.detach().numpy().astype(np.float64)


def precision_at_size(guess: Matrix, truth: Matrix) -> tuple[float, float]:
    """How many of the k largest guesses are features that a node has k of; and by chance."""
    has = truth > 0
    counts = has.sum(1)
    order = np.argsort(-guess, axis=1)
    hits = [
        has[row, order[row, :count]].mean() for row, count in enumerate(counts.tolist()) if count
    ]
    return float(np.mean(hits)), float(counts.mean() / truth.shape[1])


def exact_rows(guess: Matrix, truth: Matrix) -> int:
    """Nodes of which everything is known: the same features, or the same values to 1 %."""
    largest = guess.max(1, keepdims=True)
    same = ((guess > largest / 2) == (truth > 0)).all(1) & (largest[:, 0] > 0)
    error = np.linalg.norm(guess - truth, axis=1)
    return int((same | (error < 0.01 * np.linalg.norm(truth, axis=1))).sum())


def _linear_leak(attack: str, views: Views, features: Matrix, nonnegative: bool) -> Leak:
    truth = features[views.nodes]
    guess = solve_linear(views, nonnegative)
    exact, count = exact_rows(guess, truth), len(views.nodes)
    precision, chance = precision_at_size(guess, truth)
    got = (
        f"raw features of {exact} of {count} boundary nodes of {views.owner}, exactly, by least "
        f"squares over {len(views.rows)} rounds"
    )
    verdict = "everything" if exact > 0.9 * count else graded(precision, chance, 1.0)
    return Leak("curious peer", attack, verdict, got, "precision", precision, chance)


def _hidden_leak(attack: str, views: Views, features: Matrix, owner: ClientGraph) -> Leak:
    source, target = owner.edge_index
    around = (features > 0).astype(np.float64)
    np.add.at(around, target, (features > 0)[source])
    precision, chance = precision_at_size(solve_hidden(views), around[views.nodes])
    got = (
        f"features of {len(views.nodes)} boundary nodes of {views.owner} and their neighbors, "
        f"mixed, from {len(views.rows)} rounds"
    )
    verdict = graded(precision, chance, 1.0)
    return Leak("curious peer", attack, verdict, got, "precision", precision, chance)
