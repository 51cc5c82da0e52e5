"""A client that trains whatever network of the search space it is told to."""

from typing import Any, ClassVar

from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedavg_client import FedAvgClient
from autofgl.methods.search_settings import SpaceSettings
from autofgl.nn.found import FoundSpec
from autofgl.nn.networks import spec_from_json


class FoundClient(FedAvgClient):
    """Federated averaging of a network that the server names by its code.

    Until it is told one, it holds the smallest network of the space.
    """

    operations: ClassVar[frozenset[str]] = FedAvgClient.operations | {"adopt"}

    def __init__(
        self, context: Context, graph: ClientGraph, settings: Any, seed: int, secure: str
    ) -> None:
        spec = found_spec(graph, settings, "identity | - | identity")
        super().__init__(context, graph, spec, settings, seed, secure)
        self._space_settings: SpaceSettings = settings

    def adopt(self, payload: Payload) -> Payload:
        """Begin with the network of a genotype, at initial weights that are the same everywhere."""
        self._adopt(found_spec(self._graph, self._space_settings, payload["genotype"]))
        return {}

    def state(self) -> Payload:
        """What federated averaging needs, and which network it is about."""
        return {**super().state(), "spec": self._local.spec.to_json()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._adopt(spec_from_json(state["spec"]))
        super().load_state(state)


def found_spec(graph: ClientGraph, settings: SpaceSettings, genotype: str) -> FoundSpec:
    """The stand-alone network of a genotype under the settings' training protocol."""
    return FoundSpec(
        genotype=genotype,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        dropout=settings.dropout,
        layer_dropout=settings.layer_dropout,
        fusion=settings.fusion,
    )
