"""FL-AGCNS: federated search for graph network architectures (Wang et al., 2021).

All networks of the search space share the weights of one SuperNet. A generation (Algorithm 2) makes
E_weight steps on the SuperNet's weights with the gradient of the whole population P, summed over
the clients (Eq. 2), and then evolves P (Algorithm 1): the controller by the federated validation
loss FLL (Eq. 1), every client by its own validation loss, and the next P holds codes of both. The
best code by FLL is then trained from scratch under federation.

A generation takes E_weight + 2 calls to every client. Where we differ from the paper: P_FL is P and
as many children, of which the best by FLL survive (see :mod:`autofgl.search.feo`); random codes end
less often than uniform genes would have it (``stop``); the chosen code may be the best of several
``finalists`` by federated validation.

Who learns what: the server learns P and, of each code, the federated validation loss and accuracy,
how many validation nodes each client has (for the quotas of Algorithm 1) and which codes it
prefers; with a secure mode nothing else of a client. Clients learn P,
the summed gradients and the final weights. Nobody sees features, labels or edges of another.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.federation.traffic import Traffic
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedavg_client import COUNT_UNIT
from autofgl.methods.final_training import FinalTraining
from autofgl.methods.fl_agcns_client import SearchClient, variation
from autofgl.methods.found_client import found_spec
from autofgl.methods.method import Method, Outcome, Row
from autofgl.methods.objectives import cost_of, objective_values
from autofgl.methods.search_settings import SearchSettings
from autofgl.methods.search_space import genotypes, make_codes, make_space
from autofgl.methods.sums import FederatedSums
from autofgl.search import RandomSearch, evolve, fronts, gamma, merge, quotas, ranks
from autofgl.seeding import numpy_generator


class FLAGCNS(Method):
    """The controller: generations of the search, then the training of the finalists."""

    summary: ClassVar[str] = "federated architecture search with a SuperNet and evolution"
    Settings: ClassVar[type[SearchSettings]] = SearchSettings
    sums_securely: ClassVar[bool] = True
    settings: SearchSettings

    def __init__(
        self, federation: Federation, settings: SearchSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self.sums = FederatedSums(federation, secure, settings.secure_threshold)
        self.space = make_space(settings)
        self.codes = make_codes(self.space)
        self._final = FinalTraining(federation, settings, seed, secure, self.sums)
        self._generations = settings.generations
        self._generation = 0
        self._totals = [0, 0, 0]
        self._val_counts: dict[str, int] = {}
        self._tables: dict[str, Any] = {}
        self.population: Any = None
        self._values: Any = None

    @classmethod
    def check_network(cls, graph: ClientGraph, settings: SearchSettings) -> None:
        """Refuse a training protocol that no network of the space can have."""
        found_spec(graph, settings, "identity | - | identity")

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: SearchSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        return lambda context: SearchClient(context, graph, settings, seed, secure)

    @property
    def rounds(self) -> int:
        """Generations, then the rounds of every finalist."""
        return self._generations + self.settings.rounds * self.settings.finalists

    @property
    def done(self) -> bool:
        """All finalists are trained."""
        return self._final.done

    def connect(self) -> None:
        """Agree on keys."""
        self.sums.setup()

    def setup(self) -> None:
        """Count the nodes and draw the first population (Algorithm 2, lines 2 and 3)."""
        replies = self._call("start", {"stage": "search-"}).ok
        total = self.sums.total("search-start", replies, "counts")["counts"] * COUNT_UNIT
        self._totals = [round(float(count)) for count in total]
        self._val_counts = {name: reply["val"] for name, reply in replies.items()}
        self._tables = self._cost_tables(next(iter(replies.values()))["params"])
        self.population = self._drawn(0)

    def wrap_up(self) -> None:
        """The budget is spent: end the search and train what was found."""
        self._generations = min(self._generations, max(self._generation, 1))

    def step(self) -> Row:
        """One generation, or one round of a finalist's training."""
        self.round += 1
        if self._generation < self._generations:
            return {"round": self.round, "phase": "search", **self._one_generation()}
        if not self._final.begun:
            self._final.begin(self._best_codes(self.settings.finalists))
        return {**self._final.step(), "round": self.round, "phase": "train"}

    def finish(self) -> Outcome:
        """The best finalist's outcome."""
        outcome = self._final.outcome()
        codes = [str(code) for code in genotypes(self.space, self._best_first()[:10])]
        extra = {**outcome.extra, "generations": self._generation, "population": codes}
        return replace(outcome, extra={**extra, "front": self._front()})

    def before_checkpoint(self) -> None:
        """See :class:`~autofgl.methods.fedavg.FedAvg`."""
        self._final.before_checkpoint()

    def state(self) -> Payload:
        """Everything between two rounds."""
        state: Payload = {
            "round": self.round,
            "generation": self._generation,
            "generations": self._generations,
            "totals": self._totals,
            "val_counts": self._val_counts,
            "tables": self._tables,
            "population": self.population,
            "final": self._final.state(),
        }
        return state if self._values is None else {**state, "values": self._values}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self._generation = state["round"], state["generation"]
        self._generations, self._totals = state["generations"], state["totals"]
        self._val_counts, self._tables = state["val_counts"], state["tables"]
        self.population, self._values = state["population"], state.get("values")
        self._final.load_state(state["final"])

    def _one_generation(self) -> dict[str, Any]:
        self._generation += 1
        clock = _Clock(self.federation.meter)
        if self._generation <= self.settings.warmup:
            self.population = self._drawn(self._generation)
        news = self._weight_steps()
        clock.lap("weights")
        figures = self._federated_losses("losses", {"codes": self.population, **news})
        values = self._objectives(figures, self.population)
        clock.lap("losses")
        share = self._share()
        row = self._row(figures, ranks(values), share)
        if self._generation <= self.settings.warmup:
            self._values = values
        else:
            self._evolve(values, share)
        clock.lap("evolve")
        return {**row, **clock.laps}

    def _weight_steps(self) -> Payload:
        """E_weight steps of Eq. 2; what is left is the last step's gradient, to be taken in."""
        news: Payload = {}
        for step in range(self.settings.weight_steps):
            message = {"step": step, "codes": self._step_codes(step), **self._message()}
            replies = self._call("weights", {**message, **news})
            tag = f"gradient-{self._generation}-{step}"
            news = {"gradient": self.sums.seal(tag, replies.ok, "gradient")}
        return news

    def _step_codes(self, step: int) -> Any:
        count = self.settings.codes_per_step
        if not count or count >= len(self.population):
            return self.population
        rng = numpy_generator(self.seed, "step-codes", self._generation, step)
        return self.population[rng.choice(len(self.population), count, replace=False)]

    def _evolve(self, values: Any, share: float) -> None:
        """Algorithm 1, controller: P_FL to the clients, their codes and losses back, the next P."""
        rng = numpy_generator(self.seed, "controller-evolution", self._generation)
        ways = variation(self.settings)
        shared = evolve(self.codes, self.population, ranks(values), rng, ways)
        children = len(shared) - len(self.population)
        parties = list(self.federation.parties)
        counts = [self._val_counts[name] for name in parties]
        places = quotas(len(self.population), share, counts).clients
        replies = self._call(
            "evolve",
            {"shared": shared, "children": children, "tables": self._tables, **self._message()},
            each={name: {"quota": quota} for name, quota in zip(parties, places, strict=True)},
        )
        figures = self.sums.total(f"children-{self._generation}", replies.ok, "losses")
        fresh = self._objectives(figures, shared[len(shared) - children :])
        losses = ranks(np.concatenate([values, fresh]))
        received = [reply["codes"] for reply in replies.ok.values()]
        self.population = merge(
            self.codes, received, shared, losses, len(self.population), rng, ways
        )
        self._values = None

    def _best_codes(self, count: int) -> list[str]:
        """Algorithm 2, lines 19 to 22: argmin FLL over the last P, and the next best."""
        self._generation += 1
        figures = self._federated_losses("losses", {"codes": self.population})
        self._values = self._objectives(figures, self.population)
        self._generation -= 1
        return [str(code) for code in genotypes(self.space, self._best_first()[:count])]

    def _best_first(self) -> Any:
        """P by the validation objective."""
        return self.population[np.argsort(self._values.reshape(len(self.population), -1)[:, 0])]

    def _front(self) -> list[dict[str, Any]]:
        """The codes of P that no other beats in all objectives, best validation first."""
        values = self._values.reshape(len(self.population), -1)
        rows = fronts(values)[0]
        rows = rows[np.argsort(values[rows, 0], kind="stable")]
        names = self.settings.objective_names
        return [
            {"genotype": str(code), **dict(zip(names, row.tolist(), strict=True))}
            for code, row in zip(
                genotypes(self.space, self.population[rows]), values[rows], strict=True
            )
        ]

    def measure(self, codes: Any) -> Mapping[str, Any]:
        """Federated validation losses and accuracies of codes under the present shared weights."""
        replies = self._call("losses", {"codes": codes, "generation": 0, "totals": self._totals})
        return self.sums.total("losses-0", replies.ok, "losses")

    def _federated_losses(self, op: str, payload: Payload) -> Mapping[str, Any]:
        replies = self._call(op, {**payload, **self._message()})
        return self.sums.total(f"{op}-{self._generation}", replies.ok, op)

    def _objectives(self, figures: Mapping[str, Any], codes: Any) -> Any:
        costs = {name: cost_of(table, self.space, codes) for name, table in self._tables.items()}
        names = self.settings.objective_names
        return objective_values(names, figures["losses"], figures["correct"], costs)

    def _cost_tables(self, params: Any) -> dict[str, Any]:
        """What the costs that are objectives are computed from."""
        tables = {"params": params}
        if "latency" in self.settings.objective_names:
            replies = self._call("latency", {}).ok
            total = self.sums.total("latency", replies, "latency")
            tables["latency"] = total["table"] / total["clients"]
        return {name: tables[name] for name in self.settings.objective_names[1:]}

    def _share(self) -> float:
        """γ of this generation; the ablations have all or nothing."""
        fixed = {"controller": 0.0, "clients": 1.0}
        evolved = self._generation - self.settings.warmup
        return fixed.get(self.settings.optimisers, gamma(max(evolved, 1)))

    def _row(self, figures: Mapping[str, Any], order: Any, share: float) -> dict[str, Any]:
        best = int(np.argmin(order))
        networks = genotypes(self.space, self.population)
        types = Counter(layer.type for code in networks for layer in code.existing)
        layers = max(1, sum(types.values()))
        return {
            "train_loss": float(figures["train_loss"]),
            "val_loss": float(figures["losses"][best]),
            "val_accuracy": float(figures["correct"][best]),
            "test_accuracy": None,
            "generation": self._generation,
            "best_fll": float(np.min(figures["losses"])),
            "median_fll": float(np.median(figures["losses"])),
            "gamma": share,
            "unique_codes": len(self.codes.unique(self.population)),
            "best_code": str(networks[best]),
            "operations": {kind: count / layers for kind, count in sorted(types.items())},
        }

    def _drawn(self, generation: int) -> Any:
        rng = numpy_generator(self.seed, "population", generation)
        known = [self.space.encode(self.space.parse(code)) for code in self.settings.start_codes]
        search = RandomSearch(self.codes, rng)
        search.tell(self.codes.stack(known), np.zeros(len(known)))
        fresh = search.ask(max(0, self.settings.population - len(known)))
        return np.concatenate([self.codes.stack(known), fresh])[: self.settings.population]

    def _message(self) -> Payload:
        return {"generation": self._generation, "totals": self._totals}

    def _call(self, op: str, payload: Payload, **how: Any) -> Replies:
        """A client that misses a step has other weights than the rest and must go."""
        least, timeout = self.settings.min_clients, self.settings.timeout
        return self.call_clients(op, payload, min_ok=least, timeout=timeout, **how)


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
