"""Trials that it takes to tune the hyperparameters of 2, 5, 10 and 20 clients together.

    python -m benchmarks.asfgnn_clients --searchers local bayes random --clients 2 20

Every simulated client has a loss with an optimum of its own in dropout, L2, depth and learning rate
and a taste for a common width; a share of every loss (``--coupling``) is what the others do, as
with a common discriminator. Printed: the median over seeds of the trials after which the best
trial's mean loss has come a part of the way from that of random settings to the optimum.
"""

import argparse
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from autofgl.search.baselines import RandomSearch
from autofgl.search.bayes import Bayes
from autofgl.search.genes import Float, Integer, LogFloat, Ordinal
from autofgl.search.own_part import OwnPart, elected, explores
from autofgl.search.space import SearchSpace
from autofgl.seeding import child_seed, numpy_generator

OWN = (
    Float("dropout", 0.0, 0.6),
    LogFloat("weight_decay", 1e-5, 1e-2),
    Integer("layers", 1, 5),
    LogFloat("lr", 5e-4, 2e-2),
)
WIDTH = Ordinal("hidden", (64, 128, 256, 512))
STARTUP = 10


class Clients:
    """Simulated clients: squared distances from their optima, on a scale from 0 to 1 a gene."""

    def __init__(self, clients: int, seed: int, coupling: float = 0.05) -> None:
        rng = numpy_generator(seed, "clients")
        self.count, self._coupling = clients, coupling
        self._best = rng.random((clients, len(OWN)))
        self._importance = rng.dirichlet(np.ones(len(OWN)), clients)
        self._width = rng.random(clients)
        places = np.linspace(0, 1, len(WIDTH.choices))
        self._width_loss = 0.2 * (places[None] - self._width[:, None]) ** 2
        self.optimum = float(self._width_loss.mean(0).min()) + self._shift(0)
        self.random = float(np.mean([self.losses(*self._draw(rng)).mean() for _ in range(500)]))

    def losses(self, own: list[dict[str, Any]], width: Any) -> Any:
        """Each client's loss in a trial, ``[n]``."""
        places = np.array([[_place(gene, one[gene.name]) for gene in OWN] for one in own])
        away = (self._importance * (places - self._best) ** 2).sum(1) * 3
        alone = away + self._width_loss[:, WIDTH.choices.index(width)]
        return (1 - self._coupling) * alone + self._coupling * away.mean()

    def gain(self, loss: float) -> float:
        """The part of the way from random settings to the optimum."""
        return (self.random - loss) / (self.random - self.optimum)

    def _shift(self, away: float) -> float:
        return self._coupling * away - self._coupling * float(self._width_loss.mean(0).min())

    def _draw(self, rng: np.random.Generator) -> tuple[list[dict[str, Any]], Any]:
        own = [{gene.name: gene.draw(rng) for gene in OWN} for _ in range(self.count)]
        return own, WIDTH.draw(rng)


def _place(gene: Any, value: float) -> float:
    """Where a value is in its gene's range, from 0 to 1."""
    low, high = gene.low, gene.high
    if isinstance(gene, LogFloat):
        low, high, value = np.log(low), np.log(high), np.log(value)
    return float((value - low) / (high - low))


def tuned_at_home(clients: Clients, trials: int, seed: int) -> list[float]:
    """The mean loss of each trial where each client tunes its own part."""
    space = SearchSpace((*OWN, WIDTH))
    seeds = [child_seed(seed, "client", number) for number in range(clients.count)]
    parts = [OwnPart(space, WIDTH.name, one, startup=STARTUP) for one in seeds]
    means = []
    for number in range(1, trials + 1):
        explore = explores(number, trials, STARTUP)
        votes = np.sum([part.votes(explore) for part in parts], axis=0)
        width = WIDTH.choices[elected(votes, numpy_generator(seed, "election", number))]
        tried = [part.candidate(explore, width) for part in parts]
        losses = clients.losses(tried, width)
        for part, one, loss in zip(parts, tried, losses.tolist(), strict=True):
            part.tell(one, loss)
        means.append(float(losses.mean()))
    return means


def tuned_together(clients: Clients, trials: int, seed: int, searcher: str) -> list[float]:
    """The same where the server proposes for all in one space."""
    numbers = range(clients.count)
    genes = [replace(gene, name=f"{number}.{gene.name}") for number in numbers for gene in OWN]
    space = SearchSpace((*genes, WIDTH))
    if searcher == "random":
        tuner: Any = RandomSearch(space, seed)
    else:
        model: Any = {"bayes": "gp", "tpe": "tpe"}[searcher]
        tuner = Bayes(space, seed, startup=STARTUP, model=model)
    means = []
    for _ in range(trials):
        [one] = tuner.ask()
        own = [
            {gene.name: one[f"{number}.{gene.name}"] for gene in OWN}
            for number in range(clients.count)
        ]
        means.append(float(clients.losses(own, one[WIDTH.name]).mean()))
        tuner.tell([one], [means[-1]])
    return means


def trials_to(gains: list[float], goal: float) -> float:
    """The first trial with such a gain; infinite if there is none."""
    return next((at for at, gain in enumerate(gains, 1) if gain >= goal), float("inf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searchers", nargs="*", default=["local", "bayes", "tpe", "random"])
    parser.add_argument("--clients", type=int, nargs="*", default=[2, 5, 10, 20])
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--goals", type=float, nargs="*", default=[0.8, 0.9])
    parser.add_argument("--coupling", type=float, default=0.05)
    given = parser.parse_args()
    for searcher in given.searchers:
        for count in given.clients:
            curves = []
            for seed in given.seeds:
                clients = Clients(count, seed, given.coupling)
                if searcher == "local":
                    means = tuned_at_home(clients, given.trials, seed)
                else:
                    means = tuned_together(clients, given.trials, seed, searcher)
                curves.append([clients.gain(mean) for mean in means])
            reached = ", ".join(
                f"{goal:.0%}: {median(trials_to(one, goal) for one in curves):g}"
                for goal in given.goals
            )
            best = median(max(one) for one in curves)
            print(
                f"{searcher}, {count} clients: trials to {reached}; best gain {best:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
