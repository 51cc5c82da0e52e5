"""GraphFL and GraphFL with a genetic algorithm in every client, as methods.

docs/methods.md says where we differ from the authors' code of GraphFL.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurations import Configurations
from autofgl.methods.graphfl.self_configured import SELF_CONFIGURED, SelfConfiguredServer
from autofgl.methods.graphfl.settings import GraphFLGASettings, GraphFLSettings
from autofgl.nn.models.networks import count_parameters, empty_network
from autofgl.runtime.method import SharedTraining
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.specs import family_spec
from autofgl.secure import make_server
from autofgl.sharing.meta.sharing import META, new_clients


class GraphFL(SharedTraining):
    """Clients meta-learn a network that adapts to few labels (:mod:`autofgl.sharing.meta`)."""

    Settings = GraphFLSettings
    ways: ClassVar = {"meta": META}

    @classmethod
    def check(cls, clients: Sequence[ClientGraph], settings: Any, secure: str) -> None:
        """Somebody has to train, on two classes at least."""
        super().check(clients, settings, secure)
        check_roles(clients, settings, secure)


class GraphFLGA(SharedTraining):
    """GraphFL with clients that configure themselves by a genetic algorithm."""

    Settings = GraphFLGASettings
    ways: ClassVar = {"self-configured": SELF_CONFIGURED}

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

    def finish(self) -> Outcome:
        """As GraphFL, with the number of chromosomes that were tried."""
        outcome, sharing = self.training.finish(), self.training.sharing
        assert isinstance(sharing, SelfConfiguredServer)
        return replace(outcome, extra={**outcome.extra, "trials": sharing.trials})


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
