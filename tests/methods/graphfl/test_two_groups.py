"""Two groups of clients that need different hops and rates: each client ends with its group's."""

import numpy as np
import pytest

from autofgl.graphs.client_graph import ClientGraph
from federations import make, rounds

NODES, CLASSES, WORDS = 120, 3, 12


def client(name: str, seed: int, *, far: bool) -> ClientGraph:
    """With ``far`` edges tell the class and features hardly do; otherwise it is the reverse, and
    features are ten times as large, so that steps have to be smaller.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, NODES)
    near = [np.flatnonzero(y == y[node]) if far else np.arange(NODES) for node in range(NODES)]
    pairs = [(node, int(other)) for node in range(NODES) for other in rng.choice(near[node], 4)]
    low, high = np.array(sorted({(min(pair), max(pair)) for pair in pairs if len({*pair}) > 1})).T
    x = rng.normal(0, 1, (NODES, WORDS))
    x[np.arange(NODES), y] += 1.0 if far else 3.0
    scaled = (x * (0.3 if far else 3.0)).astype(np.float32)
    edges = np.stack([np.append(low, high), np.append(high, low)])
    graph = ClientGraph.unsplit(name, scaled, edges, y, CLASSES)
    masks = np.zeros((3, NODES), np.bool_)
    for mask, nodes in zip(masks, np.split(rng.permutation(NODES), [18, 70]), strict=True):
        mask[nodes] = True
    return graph.with_masks(*masks)


def mean_hops(hops: int, teleport: float) -> float:
    """How far what a node takes in comes from: hops, or the mean of personalized PageRank."""
    if not teleport:
        return hops
    parts = [teleport * (1 - teleport) ** hop for hop in range(hops)]
    return float(np.arange(hops) @ parts + hops * (1 - teleport) ** hops)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_clients_of_each_group_end_with_what_theirs_needs(seed: int) -> None:
    near = [client(f"near-{at}", at, far=False) for at in range(3)]
    far = [client(f"far-{at}", 10 + at, far=True) for at in range(3)]
    method = make(
        "graphfl-ga", [*near, *far], seed=seed, strict=False, population=12, iterations=4,
        families="sgc", fitness="adapted", adapt="always", first_order=True, lr=1.0, horizon=1,
    )  # fmt: skip
    rounds(method, 6)
    found = {row["name"]: row["configuration"] for row in method.finish().per_client}
    hops = {name: mean_hops(one["hops"], one["teleport"]) for name, one in found.items()}
    rates = {name: np.log(one["inner_lr"]) for name, one in found.items()}
    groups = [[graph.name for graph in group] for group in (near, far)]
    print({name: (round(hops[name], 1), round(one["inner_lr"], 2)) for name, one in found.items()})
    assert max(hops[name] for name in groups[0]) < 4 < np.median([hops[name] for name in groups[1]])
    small, large = (np.mean([rates[name] for name in group]) for group in groups)
    assert large - small > np.log(3)
