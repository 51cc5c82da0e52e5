"""SFGNN: separated message passing and a federated discriminator (ASFGNN without its tuning).

Zheng et al., 2020. Every client has a GraphSAGE of its own depth that turns its nodes into
embeddings (Algorithm 1) and never leaves it, and a discriminator of two layers that turns
embeddings into classes. In a round (Algorithm 2) each client takes a local step on both and hands
in its discriminator W_i, the label counts N_i of its training nodes and its accuracy M_i; the
server learns sums only::

    W_s = mean of W_i        Q_s = Σ N_i / ΣΣ N        M = mean of M_i

and sends W_s and Q_s back. A client whose labels are like everybody's takes W_s, one with other
labels keeps more of its own: W_i ← js_i · W_i + (1 − js_i) · W_s with js_i = JS(Q_i‖Q_s).

Where we differ from the paper: training is full-batch, so that N_i counts all training nodes; the
freshly trained W_i is mixed and not that of the round before (:mod:`autofgl.methods.label_mixing`);
initial weights are the same everywhere; Eq. 4 has y and ŷ swapped; the metric of a round is that of
the mixed weights; a client without training nodes takes W_s and has no say in it.

===========  =======================================================================================
Who          learns what
===========  =======================================================================================
Server       sums over the clients: discriminators, label counts, losses, right predictions,
             accuracies, node counts; every client's hyper-parameters. With ``secure=none`` also
             each client's part of every sum, with ``collect_models`` each client's network.
Clients      W_s, Q_s and the federation's node counts. With two clients that is the other one's
             discriminator and label counts, since the own part can be subtracted.
Nobody else  features, labels of nodes, edges and message passing of another client.
===========  =======================================================================================
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from autofgl.federation.engines.inprocess import PartyFactory
from autofgl.federation.federation import Federation
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.method import Method, Outcome, Row
from autofgl.methods.outcome import client_lines
from autofgl.methods.separated_training import SeparatedTraining, client_means
from autofgl.methods.sfgnn_client import SFGNNClient
from autofgl.methods.sfgnn_settings import SFGNNSettings, hyper_parameters, sfgnn_spec
from autofgl.methods.sums import FederatedSums
from autofgl.nn.networks import in_words, spec_from_json


class SFGNN(Method):
    """The server."""

    summary: ClassVar[str] = "own message passing for each client, one discriminator for all"
    Settings: ClassVar[type[SFGNNSettings]] = SFGNNSettings
    sums_securely: ClassVar[bool] = True
    default_secure: ClassVar[str] = "shares"
    settings: SFGNNSettings

    def __init__(
        self, federation: Federation, settings: SFGNNSettings, seed: int, secure: str = "none"
    ) -> None:
        super().__init__(federation, settings, seed, secure)
        self._sums = FederatedSums(federation, secure, settings.secure_threshold)
        self._hyper = hyper_parameters(settings, federation.parties)
        self._training = self._fresh_training("")

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """See :meth:`Method.check`; ``per_client`` must name clients."""
        super().check(clients, settings, secure)
        hyper_parameters(settings, [graph.name for graph in clients])

    @classmethod
    def check_network(cls, graph: ClientGraph, settings: Any) -> None:
        """See :meth:`Method.check_network`."""
        sfgnn_spec(graph, settings)

    @classmethod
    def party(
        cls, graph: ClientGraph, settings: SFGNNSettings, seed: int, secure: str = "none"
    ) -> PartyFactory:
        """The client side."""
        return lambda context: SFGNNClient(context, graph, settings, seed, secure)

    @property
    def done(self) -> bool:
        """All rounds made, or patience lost."""
        patience = self.settings.patience
        return super().done or bool(patience and self._training.best.since_lower_loss >= patience)

    def connect(self) -> None:
        """Agree on keys."""
        self._sums.setup()

    def setup(self) -> None:
        """Have the clients build their networks."""
        self._training.begin(self._hyper, trial=False)

    def step(self) -> Row:
        """One round."""
        self.round += 1
        return {**self._training.step(), "round": self.round}

    def finish(self) -> Outcome:
        """Evaluate the last mean too, then report on the weights that were kept."""
        self._training.evaluate_last()
        replies, total = self._training.conclude()
        metrics = self._training.metrics(total)
        specs = {name: reply["spec"] for name, reply in replies.items()}
        return Outcome(
            test_accuracy=metrics.test_accuracy,
            val_accuracy=metrics.val_accuracy,
            per_client=client_lines({name: reply["own"] for name, reply in replies.items()}),
            spec=next(iter(specs.values())),
            specs=specs,
            models=self._collected(),
            parameters=max(reply["parameters"] for reply in replies.values()),
            inference_s=float(total["seconds"][0] / total["seconds"][1]),
            architecture="; ".join(
                f"{name}: {in_words(spec_from_json(spec))}" for name, spec in specs.items()
            ),
            extra={
                "best_round": self._training.best.round,
                "val_loss": metrics.val_loss,
                **client_means(total["own"]),
                "client_hyperparameters": {name: self._hyper[name] for name in specs},
            },
        )

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {"round": self.round, "training": self._training.state()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round = state["round"]
        self._training.load_state(state["training"])

    def _fresh_training(self, stage: str) -> SeparatedTraining:
        return SeparatedTraining(self._sums, self._call, self.settings.select, stage)

    def _collected(self) -> dict[str, Any]:
        """Every client's network, if they may be collected."""
        if not self.settings.collect_models:
            return {}
        replies = self._call("export", {}).ok
        return {name: reply["weights"] for name, reply in replies.items()}

    def _call(
        self, op: str, payload: Payload, each: Mapping[str, Payload] | None = None
    ) -> Replies:
        """A client that is late joins again: it mixes whatever it holds with the next mean."""
        return self.call_clients(
            op,
            payload,
            each=each,
            min_ok=self.settings.min_clients,
            timeout=self.settings.timeout,
            wait_for_late=True,
        )
