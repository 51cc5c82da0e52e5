"""GraphFL and GraphFL with a genetic algorithm in every client, as methods.

docs/methods.md says where we differ from the authors' code of GraphFL.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, ClassVar

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Configurations
from autofgl.methods.graphfl.self_configured import SELF_CONFIGURED, SelfConfiguredServer
from autofgl.methods.graphfl.settings import GraphFLGASettings, GraphFLSettings
from autofgl.nn.models.networks import count_parameters, empty_network
from autofgl.nn.models.spec import spec_from_json
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.specs import family_spec
from autofgl.secure import make_server
from autofgl.sharing.meta.server_test import server_test
from autofgl.sharing.meta.sharing import META, new_clients


class GraphFL(SharedTraining):
    """Clients meta-learn a network that adapts to few labels (:mod:`autofgl.sharing.meta`)."""

    Settings: ClassVar[type[GraphFLSettings]] = GraphFLSettings
    ways: ClassVar = {"meta": META}

    _server_graph: ClientGraph | None = None

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """Somebody has to train, on two classes at least."""
        super().check(clients, settings, secure)
        check_roles(clients, settings, secure)

    def take_server_graph(self, graph: ClientGraph) -> None:
        """What the server tests the last model on."""
        self._server_graph = graph

    def finish(self) -> Outcome:
        """Both test phases under their names, if the server has one."""
        return with_server_test(super().finish(), self._server_graph, self.settings, self.seed)


class GraphFLGA(SharedTraining):
    """GraphFL with clients that configure themselves by a genetic algorithm."""

    Settings: ClassVar[type[GraphFLGASettings]] = GraphFLGASettings
    ways: ClassVar = {"self-configured": SELF_CONFIGURED}
    _server_graph: ClientGraph | None = None

    @classmethod
    def parameters(cls, graph: ClientGraph, settings: Any) -> int:
        """Those of all shapes together, which every client holds."""
        shapes = Configurations(family_spec(graph, settings), settings).shape_specs
        return sum(count_parameters(partial(empty_network, spec)) for spec in shapes)

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """As GraphFL; a client's configuration is that of the last round."""
        super().check(clients, settings, secure)
        check_roles(clients, settings, secure)
        if settings.select != "last":
            raise UserError(
                f"select={settings.select}: a client's configuration is that of the last round, "
                "so that graphfl-ga has select=last only"
            )

    @property
    def notices(self) -> list[str]:
        """As always; and what a search costs."""
        own = self.settings
        children = own.population * (1 - own.retention) * (1 - own.random_selection)
        trials = round(own.population + (own.iterations - 1) * children)
        more = ""
        if own.evolve_structure and own.families == "sgc":
            more = ", networks without hidden layers; with families=sgc,gcn,appnp it takes longer"
        return [
            *super().notices,
            f"a search tries {trials} configurations at most (population={own.population}, "
            f"iterations={own.iterations}){more}",
        ]

    def take_server_graph(self, graph: ClientGraph) -> None:
        """What the server tests the last model on."""
        self._server_graph = graph

    def finish(self) -> Outcome:
        """As GraphFL, with the number of chromosomes that were tried; the server adapts as the
        clients do on average.
        """
        settings = self.settings.model_copy(update={"inner_lr": self._sharing.inner_lr})
        outcome = with_server_test(super().finish(), self._server_graph, settings, self.seed)
        return replace(outcome, extra={**outcome.extra, "trials": self._sharing.trials})

    @property
    def _sharing(self) -> SelfConfiguredServer:
        sharing = self.training.sharing
        assert isinstance(sharing, SelfConfiguredServer)
        return sharing


def with_server_test(
    outcome: Outcome, graph: ClientGraph | None, settings: Any, seed: int
) -> Outcome:
    """Both test phases under their names, if the server has nodes for one."""
    if graph is None:
        return outcome
    server = server_test(
        graph, spec_from_json(outcome.spec), outcome.models["model"], settings, seed
    )
    both = {
        "clients_test_accuracy": outcome.test_accuracy,
        "server_test_accuracy": server.test_accuracy,
        "server_test": asdict(server),
    }
    own = settings.test_phase == "server"
    headline = server.test_accuracy if own else outcome.test_accuracy
    return replace(outcome, test_accuracy=headline, extra={**outcome.extra, **both})


def check_roles(clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
    """A UserError if new clients or unseen classes leave too little to train on."""
    names = [graph.name for graph in clients]
    train = len(names) - len(new_clients(names, settings.new_clients))
    fewest = make_server(secure, parties=names, threshold=settings.secure_threshold or None).fewest
    if train < fewest:
        raise UserError(
            f"new_clients={settings.new_clients} leaves {train} clients that train, and --secure "
            f"{secure} reveals no sum of fewer than {fewest}: lower one of them"
        )
    if settings.unseen_classes > clients[0].classes - 2:
        raise UserError(
            f"unseen_classes={settings.unseen_classes} leaves fewer than two of the "
            f"{clients[0].classes} classes to train on"
        )
