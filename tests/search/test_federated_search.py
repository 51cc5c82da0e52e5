"""Where the clients' own optimisers pay.

On :func:`landscapes.disagreeing_clients` the controller's population soon agrees on every client's
decoy, and no single mutation leads out. A client does not care about the others' decisive genes, so
these drift freely in its population: what it sends keeps values alive that the controller has
already discarded, and once the right combination is among them, crossover and FLL put the clients'
parts together. Where there is nothing to be led astray by, the clients' evaluations buy less.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from landscapes import SimulatedSearch, disagreeing_clients

from autofgl.search import gamma

SEEDS = range(20)
BUDGET = 9000


def controller_only(generation: int) -> float:
    return 0.0


def regrets(size: int, share: Any) -> Any:
    """Distance from the optimum after equally many losses, all clients' together."""
    return np.array(
        [
            SimulatedSearch(disagreeing_clients(seed), size, seed).run(BUDGET, share)
            for seed in SEEDS
        ]
    )


def test_feo_beats_the_controller_alone_where_clients_disagree() -> None:
    feo, alone = regrets(60, gamma), regrets(60, controller_only)
    better, worse = np.sum(feo < alone - 1e-9), np.sum(feo > alone + 1e-9)
    print(f"regret: FEO {feo.mean():.4f}, controller alone {alone.mean():.4f}")
    print(f"FEO better in {better}, worse in {worse} of {len(SEEDS)} seeds")
    assert feo.mean() < 0.6 * alone.mean()
    assert better > 2 * worse


def test_the_optimum_is_known_and_not_what_each_client_wants() -> None:
    """In a smaller copy of the problem, by looking at every code."""
    federation = disagreeing_clients(0, choices=3)
    everything = np.indices((3,) * 12).reshape(12, -1).T
    losses = np.stack([loss(everything) for loss in federation.losses])
    mean = np.array(federation.val_counts) @ losses / sum(federation.val_counts)
    assert mean.min() == pytest.approx(federation.optimum)
    assert np.sum(losses[:, np.argmin(mean)] > losses.min(axis=1)) >= 2
