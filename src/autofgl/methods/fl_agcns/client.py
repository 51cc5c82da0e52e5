"""The client side of FL-AGCNS, and what its search minimizes.

That is a validation figure, alone or together with a network's size and time, which are sums over
its parts. A table ``[1 + types]`` holds the share of input and output stage, and what one layer of
each type adds; with it anyone can tell the cost of a code without building its network.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from autofgl.federation.party import Context, Refused, require_later
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.nodes import MEGABYTE, SearchNodes
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, genotypes, make_codes, make_space
from autofgl.nn.conv import layer_type
from autofgl.nn.features import InputFeatures
from autofgl.nn.kernels.linear import Linear
from autofgl.nn.models.networks import count_parameters
from autofgl.nn.space import Genotype, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet import SuperNet
from autofgl.runtime.bounds import plausible_gradient, scale_vote
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.compression import UpdateCoder
from autofgl.runtime.details import from_units, objective_kinds, to_units
from autofgl.runtime.device import fetch, send
from autofgl.runtime.local_model import WORST_LOSS, median_seconds
from autofgl.runtime.round_client import RoundClient
from autofgl.runtime.sharing import Sharing
from autofgl.runtime.state import restore_state, saved_state
from autofgl.runtime.summing import average, weighted
from autofgl.runtime.trials import fitness
from autofgl.search.evolution import Variation
from autofgl.search.feo import Memo, client_step
from autofgl.seeding import numpy_generator, torch_generator
from autofgl.tasks.counts import prediction_counts
from autofgl.tasks.figures import objective_value
from autofgl.tasks.losses import NodeLoss

#: Bins of the scores of a class for each code: enough to tell good codes from bad ones.
CODE_BINS = 128
#: A cost of ``[1 + types]``: both ends of a network, then one layer of each type.
Table = Any


def objective_values(
    names: Sequence[str], losses: Any, scores: Any, costs: Mapping[str, Any]
) -> Any:
    """Values of codes, ``[n]`` for one objective and ``[n, k]`` for several, validation first."""
    first = fitness(losses, scores, names[0])
    if len(names) == 1:
        return first
    return np.column_stack([first, *(costs[name] for name in names[1:])])


def code_kinds(settings: FLAGCNSSettings) -> list[str]:
    """What is counted of every code's predictions, where codes are ranked by the objective."""
    return objective_kinds(settings) if settings.objective_names[0] == "objective" else []


def code_scores(settings: FLAGCNSSettings, correct: Any, sums: Mapping[str, Any]) -> Any:
    """What codes are ranked by unless it is the loss: share of correct predictions, or the
    objective from their counted predictions.
    """
    if not code_kinds(settings):
        return correct
    (kind,) = code_kinds(settings)
    counts = from_units(kind, sums[f"val_{kind}"])
    return np.array([objective_value(settings.objective, one) for one in counts])


def cost_of(table: Table, space: Space, codes: Any) -> Any:
    """A cost of each code, ``[n]``."""
    counts = np.zeros((len(codes), len(space.types)))
    for row, genotype in enumerate(genotypes(space, codes)):
        for layer in genotype.existing:
            counts[row, space.types.index(layer.type)] += 1
    return table[0] + counts @ np.asarray(table[1:])


def parameter_table(space: Space, graph: ClientGraph, settings: Any) -> Table:
    """Number of parameters."""
    ends = settings.hidden * (graph.num_features + graph.classes)
    ends += settings.hidden + graph.classes
    kinds = [layer_type(kind, space.own).make(settings.hidden) for kind in space.types]
    sizes = [sum(value.numel() for value in kind.parameters()) for kind in kinds]
    return np.array([ends, *sizes], np.float64)


def largest_searched(graph: ClientGraph, settings: Any) -> int:
    """Parameters of the largest network of the search space."""
    width, ends = settings.hidden, graph.num_features + graph.classes
    space = make_space(settings)
    kinds = [partial(layer_type(kind, space.own).make, width) for kind in space.types]
    layer = max(count_parameters(kind) for kind in kinds)
    return int(width * (ends + 1) + graph.classes + settings.layers * layer)


def make_supernet(graph: ClientGraph, settings: Any) -> SuperNet:
    """The SuperNet of the settings, for a graph; its weights are not drawn yet."""
    return SuperNet(
        make_space(settings),
        graph.num_features,
        graph.classes,
        settings.hidden,
        dropout=settings.dropout,
        layer_dropout=settings.layer_dropout,
        fusion=settings.fusion,
        per_predecessor=getattr(settings, "per_predecessor", False),
        memory=getattr(settings, "search_memory", 0) * MEGABYTE or None,
    )


@torch.no_grad()
def latency_table(space: Space, data: ClientData, settings: Any) -> Table:
    """Milliseconds of one pass over a client's graph, as measured here and now."""
    graph, device = data.graph, data.device
    features = InputFeatures.from_client(graph.x).to(device)
    structure = Structure.from_client(graph).to(device)
    first = Linear(graph.num_features, settings.hidden).to(device)
    last = Linear(settings.hidden, graph.classes).to(device)
    hidden = first(features)
    runs: list[Callable[[], object]] = [lambda: last(first(features))]
    for kind in space.types:
        convolution = layer_type(kind, space.own).make(settings.hidden).to(device).eval()
        runs.append(partial(convolution, hidden, structure, None))
    times = []
    for run in runs:
        run()  # the first call does not count
        times.append(1000 * median_seconds(run))
    return np.array(times)


#: What a client answers that searches a SuperNet, besides what its training needs.
SEARCH_OPERATIONS = frozenset({"begin_search", "join_search", "weights"})


def search_phases(*searching: str) -> dict[str, Mapping[str, str]]:
    """The phases of a training, and one that answers what a search needs."""
    before = {"begin_search": "search", "join_search": "search"}
    search = dict.fromkeys(["join_search", "weights", *searching, "common_state"], "search")
    trained = {name: {**ops, **before} for name, ops in RoundClient.phases.items()}
    go_on = {"start": "started", "catch_up": "training", "go_on": "training"}
    return {**trained, "search": {**search, **go_on}}


class SharedSuperNet:
    """The SuperNet and its optimizer: all clients take the same steps, so that W is never sent.

    Steps follow each other by generation and number. A client that missed some takes the SuperNet
    of another one.
    """

    def __init__(self, data: ClientData, settings: Any) -> None:
        self.network = make_supernet(data.graph, settings)
        self.network.reset_parameters(torch_generator(data.seed, "supernet"))
        self.network.to(data.device)
        self._optimizer = torch.optim.Adam(
            self.network.parameters(),
            lr=settings.search_lr or settings.lr,
            weight_decay=settings.search_weight_decay,
        )
        self.loss = NodeLoss.of(settings)
        self._last = (0, -1)

    def weigh(self, payload: Payload) -> None:
        """Balance the loss, if the server has told weights of the classes."""
        if "class_weights" in payload:
            self.loss = self.loss.with_weights(payload["class_weights"])

    def begin(self) -> None:
        """No step has been made yet."""
        self._last = (0, -1)

    def require_new(self, payload: Payload) -> None:
        """Refuse a step that was made before."""
        require_later("step", (payload["generation"], payload["step"]), self._last)

    def enter_step(self, payload: Payload) -> tuple[int, int]:
        """Begin a step; its generation and number."""
        self._last = (payload["generation"], payload["step"])
        return self._last

    def take(self, payload: Payload, coder: UpdateCoder, checked: bool) -> Payload:
        """One step along the sum of the last gradients, if there is one; says so if it is refused.

        It is ``checked`` where the server sees sums alone.
        """
        if "gradient" in payload:
            opened = coder.open(payload["gradient"])
            if checked and not plausible_gradient(opened):
                return {"refused": True}
            coder.observe(opened)
            self.apply(average(opened))
        return {}

    def apply(self, gradient: Mapping[str, Any]) -> None:
        """One step along a gradient; parameters that it does not name stay as they are."""
        for name, parameter in self.network.named_parameters():
            given = gradient.get(name)
            parameter.grad = None if given is None else send(given, parameter)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state(self) -> Payload:
        """Weights, moments and the last step."""
        weights = {name: fetch(value) for name, value in self.network.state_dict().items()}
        return {
            "weights": weights,
            "last": list(self._last),
            **saved_state(self, ("_optimizer",)),
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        with torch.no_grad():
            for name, value in self.network.state_dict().items():
                value.copy_(send(state["weights"][name], value))
        self._last = (state["last"][0], state["last"][1])
        restore_state(self, ("_optimizer",), state)


def own_vote(gradient: Mapping[str, Any], secure: str) -> dict[str, Any]:
    """What :func:`plausible_gradient` asks for besides, where the server sees sums alone."""
    return {} if secure == "none" else scale_vote(gradient)


class FLAGCNSClient(RoundClient):
    """Holds the SuperNet while it is searched, and a population of its own; later the searched
    network. The search is a stage of its own.
    """

    operations: ClassVar[frozenset[str]] = RoundClient.operations | SEARCH_OPERATIONS | {
        "latency", "losses", "evolve",
    }  # fmt: skip
    phases: ClassVar = search_phases("latency", "evolve")  # losses at any time
    saved = ("_supernet", "_own", "_evolved")
    common = ("_supernet",)

    def __init__(
        self,
        context: Context,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: FLAGCNSSettings,
        secure: str,
    ) -> None:
        super().__init__(context, data, ways, settings, secure)
        self._supernet = SharedSuperNet(data, settings)
        self._space = make_space(settings)
        self._codes = make_codes(self._space)
        self._nodes = SearchNodes(data, settings)
        self._measured: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._weigh_search({})
        self._memo = Memo(self._codes, self._own_losses)
        self._own: Any = None
        self._evolved = 0
        self._tables: Payload = {}
        self._train_loss = 0.0

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a step or a generation that was made before, and what no noise would cover."""
        super().permit(op, payload)
        if op == "weights":
            self._supernet.require_new(payload)
        if op == "evolve":
            require_later("generation", payload["generation"], self._evolved)
        if self.private and (op == "latency" or (op == "evolve" and payload["quota"])):
            raise Refused(f"no noise covers what '{op}' asks for, and --dp is on")

    def begin_search(self, payload: Payload) -> Payload:
        """Node counts; in the clear those of validation, for quotas, and sizes of networks."""
        self.make_room(payload)
        self.trainings.enter(payload["stage"])
        self._supernet.begin()
        counts = self.count(f"{self.stage}start", self.data.counts(), self.label_counts())
        params = parameter_table(self._space, self.data.graph, self.settings)
        nodes = self._nodes.val_nodes
        shown = min(nodes, 1) if self.private else nodes
        return {"counts": counts, "val": shown, "params": params}

    def join_search(self, payload: Payload) -> Payload:
        """Take up the search where the others are; payload: ``stage``, ``round``, ``state``."""
        self.join_stage(payload)
        return {}

    def latency(self, payload: Payload) -> Payload:
        """Contribute to the mean time that networks take, where it is an objective."""
        table = latency_table(self._space, self.data, self.settings)
        tag = f"latency{payload.get('session', '')}"
        return {"latency": self.contribute(tag, {"table": table, "clients": np.ones(1)})}

    def weights(self, payload: Payload) -> Payload:
        """One weights step (Algorithm 2, lines 10 to 12; Eq. 2).

        Take in the last step's summed gradient, then contribute the weighted gradient of the mean
        over P of the mean training loss. Only parameters that P touches are in it; everybody
        has P, and so knows which ones these are.
        """
        self._weigh_search(payload)
        refused = self._take_gradient(payload)
        at = self._supernet.enter_step(payload)
        self.trainings.round = at[0]
        population = genotypes(self._space, payload["codes"])
        generator = torch_generator(self.data.seed, "supernet-dropout", self.data.graph.name, *at)
        supernet = self._supernet.network
        supernet.train()
        field = self._nodes.train_field(*at)
        gradient, losses = supernet.gradient(population, field, generator)
        finite = np.nan_to_num(losses, nan=WORST_LOSS, posinf=WORST_LOSS)
        self._train_loss = float(np.minimum(finite, WORST_LOSS).mean())
        mean = {name: value / len(population) for name, value in gradient.items()}
        share = self._nodes.train_nodes / max(payload["totals"][0], 1)
        tag = f"gradient-{at[0]}-{at[1]}"
        update = weighted(mean, share) | own_vote(mean, self._secure)
        broadcast = {"totals": payload["totals"], "codes": payload["codes"]}
        return {**refused, "gradient": self.contribute_for_clients(tag, update, broadcast)}

    def losses(self, payload: Payload) -> Payload:
        """Contribute to FLL(P), Eq. 1: own sums of validation losses over all validation nodes."""
        self._weigh_search(payload)
        self._forget()  # a resumed run would not know what was measured before
        refused = self._take_gradient(payload)
        train = self._train_loss * self._nodes.train_nodes / max(payload["totals"][0], 1)
        figures = self._figures(payload["codes"], payload)
        figures |= {} if self.private else {"train_loss": np.array(train)}
        tag = f"losses-{payload['generation']}"
        broadcast = {"totals": payload["totals"], "codes": payload["codes"]}
        return {**refused, "losses": self.contribute(tag, figures, broadcast=broadcast)}

    def evolve(self, payload: Payload) -> Payload:
        """The client's optimizer (Algorithm 1, client lines 2 to 6).

        Payload: ``shared`` is P_FL, whose last ``children`` codes have no federated loss yet;
        ``quota`` codes are asked for; ``tables`` give the costs that are objectives besides. A
        client without validation nodes has no preferences.
        """
        shared, children = payload["shared"], payload["children"]
        self._evolved = payload["generation"]
        self._tables = payload["tables"]
        best = self._codes.stack([])
        if payload["quota"] and self._nodes.val_nodes:
            own = shared[: self.settings.population] if self._own is None else self._own
            names = (self.data.graph.name, payload["generation"])
            rng = numpy_generator(self.data.seed, "client-evolution", *names)
            ways = variation(self.settings)
            step = client_step(self._codes, own, shared, self._memo, payload["quota"], rng, ways)
            self._own, best = step.population, step.best
        figures = self._figures(shared[len(shared) - children :], payload)
        broadcast = {"totals": payload["totals"], "shared": shared}
        protected = self.contribute(
            f"children-{payload['generation']}", figures, broadcast=broadcast
        )
        return {"codes": best, "losses": protected}

    def _weigh_search(self, payload: Payload) -> None:
        """Measure networks by the loss that is trained, with weights of the classes if any."""
        self._supernet.weigh(payload)
        self._nodes.weigh(self._supernet.loss.each)

    def _take_gradient(self, payload: Payload) -> Payload:
        """A step, if there is one; losses under the former weights are forgotten."""
        if "gradient" in payload:
            self._forget()
        return self._supernet.take(payload, self.coder, self._secure != "none")

    def _forget(self) -> None:
        self._memo.clear()
        self._measured.clear()

    def _figures(self, codes: Any, payload: Payload) -> dict[str, Any]:
        """Own losses and correct predictions of codes, over the federation's validation nodes, and
        counted predictions if the objective takes them; with differential privacy only what the
        search goes by, over the own nodes.
        """
        sums, counts = self._evaluated(codes)
        if self.private:
            means = sums / max(self._nodes.val_field.measured, 1)
            first = self.settings.objective_names[0]
            return {"losses": means[:, 0]} if first == "loss" else {"correct": means[:, 1]}
        weight = self._nodes.val_weight
        sums = weight * sums / max(payload["totals"][1], 1)
        whole = {kind: np.floor(weight * value) for kind, value in counts.items()}
        return {"losses": sums[:, 0], "correct": sums[:, 1], **to_units(whole, "val_")}

    def _evaluated(self, codes: Any) -> tuple[Any, dict[str, Any]]:
        """Sum of losses and correct predictions on the measured validation nodes, ``[n, 2]``,
        finite, and counts of their predictions. What was evaluated under the present weights is
        known: parents and children come several times in a generation.
        """
        networks = genotypes(self._space, codes)
        names = [str(network) for network in networks]
        new = {name: one for name, one in zip(names, networks, strict=True)
               if name not in self._measured}  # fmt: skip
        if new:
            sums, counts = self._evaluate_anew(list(new.values()))
            for row, name in enumerate(new):
                one = {kind: values[row] for kind, values in counts.items()}
                self._measured[name] = sums[row], one
        rows = [self._measured[name] for name in names]
        kinds = code_kinds(self.settings)
        stacked = {kind: np.stack([counts[kind] for _, counts in rows]) for kind in kinds}
        return np.stack([sums for sums, _ in rows]), stacked

    def _evaluate_anew(self, networks: Sequence[Genotype]) -> tuple[Any, dict[str, Any]]:
        field, kinds = self._nodes.val_field, code_kinds(self.settings)
        supernet = self._supernet.network
        if not field.measured:
            nothing = np.zeros((len(networks), 0, supernet.classes))
            return np.zeros((len(networks), 2)), self._counted(nothing, kinds)
        if kinds:
            outputs = supernet.outputs_of(networks, field)
            sums = fetch(field.part_sums(outputs))[:, 0]
            counts = self._counted(fetch(outputs), kinds)
        else:
            sums, counts = supernet.evaluate(networks, field)[:, 0], {}
        worst = WORST_LOSS * field.measured
        sums[:, 0] = np.clip(np.nan_to_num(sums[:, 0], nan=worst, posinf=worst), 0, worst)
        return sums[:, :2], counts

    def _counted(self, outputs: Any, kinds: Sequence[str]) -> dict[str, Any]:
        """Predictions of codes ``[n, T, classes]``; of one that is not finite there are none."""
        cells = min(self.settings.score_bins, CODE_BINS)
        rows, labels = [], fetch(self._nodes.val_field.labels)
        for one in outputs:
            finite = bool(np.isfinite(one).all())
            counts = prediction_counts(np.nan_to_num(one), labels, kinds, cells)
            rows.append({kind: value * finite for kind, value in counts.items()})
        return {kind: np.stack([row[kind] for row in rows]) for kind in kinds}

    def _own_losses(self, codes: Any) -> Any:
        """What this client's optimizer minimizes: L_val_i or the share of errors, and costs."""
        sums, counts = self._evaluated(codes)
        sums = sums / max(self._nodes.val_field.measured, 1)
        costs = {name: cost_of(table, self._space, codes) for name, table in self._tables.items()}
        scores = code_scores(self.settings, sums[:, 1], to_units(counts, "val_"))
        return objective_values(self.settings.objective_names, sums[:, 0], scores, costs)


def variation(settings: FLAGCNSSettings) -> Variation:
    """How children come about."""
    return Variation(settings.tournament, settings.crossover, settings.mutation)
