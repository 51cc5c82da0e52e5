"""The generations of FL-AGCNS: the controller's side of Algorithms 1 and 2.

:mod:`autofgl.search.feo` has the steps of the evolution.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from autofgl.federation import Traffic
from autofgl.federation.payload import Payload
from autofgl.methods.fl_agcns.client import (
    code_kinds,
    code_scores,
    cost_of,
    objective_values,
    variation,
)
from autofgl.methods.fl_agcns.portfolio import known_codes
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, genotypes, make_codes, make_space
from autofgl.runtime.bounds import ROUNDING, share_form
from autofgl.runtime.clients import Clients
from autofgl.runtime.details import kind_form
from autofgl.runtime.outcome import Row
from autofgl.runtime.private import LARGEST_LOSS
from autofgl.runtime.replies import SUM, TAKE, WHOLE, Array, Form, Record
from autofgl.runtime.state import Saved
from autofgl.search.baselines import RandomSearch
from autofgl.search.evolution import fronts, ranks
from autofgl.search.feo import evolve, gamma, next_population, quotas
from autofgl.seeding import numpy_generator
from autofgl.tasks.losses import balanced_weights

BEGIN = Record({"counts": SUM, "val": WHOLE, "params": Array((None,), 0)})


def figure_forms(codes: int, settings: FLAGCNSSettings, nodes: int) -> dict[str, Form]:
    """What federated losses, accuracies and counted predictions of so many codes can be."""
    within = Array((codes,), -ROUNDING, 1 + ROUNDING)
    counts = {f"val_{kind}": kind_form(kind, [nodes] * codes) for kind in code_kinds(settings)}
    return {"losses": Array((codes,), -ROUNDING), "correct": within, **counts}


class Generations(Saved):
    """The population P, and how it gets from one generation to the next."""

    saved = (
        "count", "warmup", "_totals", "_class_weights", "_val_counts", "_tables", "population",
        "_values",
    )  # fmt: skip

    def __init__(self, clients: Clients, settings: FLAGCNSSettings, seed: int) -> None:
        self._clients = clients
        self._settings = settings
        self._seed = seed
        self.space = make_space(settings)
        self.codes = make_codes(self.space)
        self.population: Any = None
        self.count = 0
        self.warmup = settings.warmup
        self._totals = [0, 0, 0]
        self._class_weights: list[float] = []
        self._val_counts: dict[str, int] = {}
        self._tables: dict[str, Any] = {}
        self._values: Any = None

    def setup(self, room: Payload | None = None) -> None:
        """Count the nodes and draw the first population (Algorithm 2, lines 2 and 3); ``room`` says
        what clients do with a training that they have.
        """
        message = {"stage": "search-", **(room or {})}
        replies = self._clients.call("begin_search", message, reply=BEGIN).ok
        if self._settings.class_weight == "balanced":
            self._totals, labels = self._clients.count_labels("search-start", replies)
            self._class_weights = balanced_weights(labels)
        else:
            self._totals = self._clients.count_nodes("search-start", replies)
        self._val_counts = {name: reply["val"] for name, reply in replies.items()}
        tables = {"params": self._clients.agreed(replies, ("params",))["params"]}
        if "latency" in self._settings.objective_names:
            session, form = self._clients.session(), Record({"latency": SUM})
            timed = self._clients.call("latency", session, reply=form).ok
            tag = f"latency{session.get('session', '')}"
            table = Array((1 + len(self.space.types),), low=0)
            forms = {"table": table, "clients": Array((1,), 0.5)}
            total = self._clients.total(tag, timed, "latency", forms)
            tables["latency"] = total["table"] / total["clients"]
        self._tables = {name: tables[name] for name in self._settings.objective_names[1:]}
        self.population = self._sample(0)

    def step(self) -> Row:
        """One generation."""
        self.count += 1
        clock = _Clock(self._clients.federation.meter)
        if self.count <= self.warmup:
            self.population = self._sample(self.count)
        about = {"generation": self.count, **self._broadcast}
        steps = range(self._settings.weight_steps)
        messages = ({"codes": self._step_codes(step), **about} for step in steps)
        update = weight_steps(self._clients, self.count, messages)
        clock.lap("weights")
        figures = self._federated_losses(self.count, {"codes": self.population, **update})
        values = self._objectives(figures, self.population)
        clock.lap("losses")
        share = self._share()
        row = self._row(figures, ranks(values), share)
        if self.count <= self.warmup:
            self._values = values
        else:
            self._evolve(values, share)
        clock.lap("evolve")
        return {**row, **clock.laps}

    def end_warmup(self) -> None:
        """Evolve from the next generation on."""
        self.warmup = min(self.warmup, self.count)

    def best_codes(self) -> list[str]:
        """The networks of the last P, best first (Algorithm 2, lines 19 to 22), each once.

        With one objective the first is argmin FLL; with several, the first front leads. Codes that
        differ in the numbers of their layers only are one network outside the SuperNet.
        """
        figures = self._federated_losses(self.count + 1, {"codes": self.population})
        self._values = self._objectives(figures, self.population)
        best_first = self.population[np.argsort(ranks(self._values), kind="stable")]
        chosen: dict[Any, str] = {}
        for network in genotypes(self.space, best_first):
            chosen.setdefault(network.shape(), str(network))
        return list(chosen.values())

    def front(self) -> list[dict[str, Any]]:
        """The codes of P that no other beats in all objectives, best validation first."""
        values = self._values.reshape(len(self.population), -1)
        rows = fronts(values)[0]
        rows = rows[np.argsort(values[rows, 0], kind="stable")]
        shown = values[rows]
        names = self._settings.objective_names
        if names[0] != "loss":
            shown[:, 0] = (1 - shown[:, 0]).round(4)  # see autofgl.runtime.trials.fitness
        networks = genotypes(self.space, self.population[rows])
        return [
            {"genotype": str(network), **dict(zip(names, row.tolist(), strict=True))}
            for network, row in zip(networks, shown, strict=True)
        ]

    @property
    def val_nodes(self) -> int:
        """Validation nodes of the federation."""
        return self._totals[1]

    def parameters(self, genotype: str) -> int:
        """Number of parameters of a network, where ``params`` is an objective."""
        code = self.space.encode(self.space.parse(genotype))
        return round(float(cost_of(self._tables["params"], self.space, [code])[0]))

    def measure(self, codes: Any, session: str = "") -> Mapping[str, Any]:
        """Federated validation losses and accuracies of codes under the present shared weights."""
        return self._federated_losses(f"again{session}", {"codes": codes})

    def _step_codes(self, step: int) -> Any:
        count = self._settings.codes_per_step
        if not count or count >= len(self.population):
            return self.population
        rng = numpy_generator(self._seed, "step-codes", self.count, step)
        return self.population[rng.choice(len(self.population), count, replace=False)]

    def _evolve(self, values: Any, share: float) -> None:
        """Algorithm 1, controller: P_FL to the clients, their codes and losses back, the next P."""
        rng = numpy_generator(self._seed, "controller-evolution", self.count)
        ways = variation(self._settings)
        shared = evolve(self.codes, self.population, ranks(values), rng, ways)
        children = len(shared) - len(self.population)
        parties = list(self._clients.names)
        counts = [self._val_counts[name] for name in parties]
        places = quotas(len(self.population), share, counts).clients
        about = {"generation": self.count, **self._broadcast}
        replies = self._clients.call(
            "evolve",
            {"shared": shared, "children": children, "tables": self._tables, **about},
            reply=Record({"losses": SUM, "codes": self._codes_form()}),
            each={name: {"quota": quota} for name, quota in zip(parties, places, strict=True)},
        )
        tag, forms = f"children-{self.count}", self._forms(children)
        figures = self._clients.total(tag, replies.ok, "losses", forms)
        fresh = self._objectives(figures, shared[len(shared) - children :])
        losses = ranks(np.concatenate([values, fresh]))
        received = [reply["codes"] for reply in replies.ok.values()]
        self.population = next_population(
            self.codes, received, shared, losses, len(self.population), rng, ways
        )
        self._values = None

    def _federated_losses(self, at: int | str, payload: Payload) -> Mapping[str, Any]:
        message = {**payload, "generation": at, **self._broadcast}
        replies = self._clients.call("losses", message, reply=TAKE.having(losses=SUM))
        self._clients.require_taken(replies.ok)
        forms = {**self._forms(len(payload["codes"])), "train_loss": Array((), -ROUNDING)}
        return self._clients.total(f"losses-{at}", replies.ok, "losses", forms)

    def _forms(self, codes: int) -> dict[str, Form]:
        return figure_forms(codes, self._settings, self.val_nodes)

    @property
    def _broadcast(self) -> Payload:
        """What clients are told of the federation's nodes."""
        weights = {"class_weights": self._class_weights} if self._class_weights else {}
        return {"totals": self._totals, **weights}

    def _codes_form(self) -> Form:
        """Codes of the space, at most as many as the population has."""

        def fault(codes: Any) -> str:
            limits = self.space.cardinalities
            return "" if (codes < limits).all() else "is out of bounds"

        genes = len(self.space.cardinalities)
        return Array((None, genes), 0, kinds="iu", also=fault)

    def _objectives(self, figures: Mapping[str, Any], codes: Any) -> Any:
        costs = {name: cost_of(table, self.space, codes) for name, table in self._tables.items()}
        names, untold = self._settings.objective_names, np.zeros(len(codes))
        losses = figures.get("losses", untold)
        return objective_values(names, losses, self._scores(figures, untold), costs)

    def _scores(self, figures: Mapping[str, Any], untold: Any = None) -> Any:
        """What the objective makes of the figures; with differential privacy accuracies alone."""
        correct = figures.get("correct", untold)
        return correct if self._clients.private else code_scores(self._settings, correct, figures)

    def _share(self) -> float:
        """γ of this generation; the ablations have all or nothing."""
        fixed = {"controller": 0.0, "clients": 1.0}
        return fixed.get(self._settings.optimizers, gamma(max(self.count - self.warmup, 1)))

    def _row(self, figures: Mapping[str, Any], order: Any, share: float) -> Row:
        best = int(np.argmin(order))
        networks = genotypes(self.space, self.population)
        types = Counter(layer.type for code in networks for layer in code.existing)
        layers = max(1, sum(types.values()))
        if self._clients.private:  # the search goes by the noise, the history need not
            bounds = {"losses": LARGEST_LOSS, "correct": 1.0}
            figures = {name: np.clip(one, 0, bounds[name]) for name, one in figures.items()}
        losses, correct = figures.get("losses"), figures.get("correct")
        train_loss, scores = figures.get("train_loss"), self._scores(figures)
        judged = f"val_{self._settings.objective}" if code_kinds(self._settings) else "val_accuracy"
        return {
            "train_loss": None if train_loss is None else float(train_loss),
            "val_loss": None if losses is None else float(losses[best]),
            "val_accuracy": None if correct is None else float(correct[best]),
            judged: None if scores is None else float(scores[best]),
            "test_accuracy": None,
            "generation": self.count,
            "best_fll": None if losses is None else float(np.min(losses)),
            "median_fll": None if losses is None else float(np.median(losses)),
            "gamma": share,
            "unique_codes": len(self.codes.unique(self.population)),
            "best_code": str(networks[best]),
            "operations": {kind: count / layers for kind, count in sorted(types.items())},
        }

    def _sample(self, generation: int) -> Any:
        rng = numpy_generator(self._seed, "population", generation)
        start = filter(None, map(str.strip, self._settings.start.split(";")))
        known = known_codes(self.space) if self._settings.known else ()
        networks = [*map(self.space.parse, start), *known]
        given = [self.space.encode(one) for one in networks[: self._settings.population // 2]]
        search = RandomSearch(self.codes, rng)
        search.tell(self.codes.stack(given), np.zeros(len(given)))
        fresh = search.ask(max(0, self._settings.population - len(given)))
        return np.concatenate([self.codes.stack(given), fresh])[: self._settings.population]


def weight_steps(clients: Clients, generation: int, messages: Iterable[Payload]) -> Payload:
    """Steps on the shared weights (Eq. 2); what is left is the last gradient, to be taken in."""
    update: Payload = {}
    for step, message in enumerate(messages):
        form = TAKE.having(gradient=SUM)
        replies = clients.call("weights", {"step": step, **message, **update}, reply=form)
        clients.require_taken(replies.ok)
        tag, forms = f"gradient-{generation}-{step}", {"share": share_form()}
        update = {"gradient": clients.seal(tag, replies.ok, "gradient", forms)}
    return update


def rejoin_search(clients: Clients, generation: int) -> None:
    """Give clients that are back, and sit aside, the SuperNet as it is after a generation."""
    if clients.aside:
        message = {"stage": "search-", "round": generation}
        clients.catch_up(clients.aside, message, op="join_search", with_state=True)


class _Clock:
    """Seconds and bytes of the phases of a generation."""

    def __init__(self, meter: Traffic) -> None:
        self.laps: dict[str, float] = {}
        self._meter = meter
        self._time, self._bytes = time.perf_counter(), self._total()

    def lap(self, phase: str) -> None:
        """The phase that ends here."""
        now, total = time.perf_counter(), self._total()
        self.laps[f"{phase}_s"] = round(now - self._time, 6)
        self.laps[f"{phase}_bytes"] = total - self._bytes
        self._time, self._bytes = now, total

    def _total(self) -> int:
        return sum(self._meter.total(direction) for direction in ("up", "down", "peer"))
