"""A common body and a head of one's own for each client (FedPer, Arivazhagan et al., 2019).

The last layer of the network, W_P in the paper, is personal: it never leaves its client. All layers
below, W_B, are averaged as those of a common model are (Algorithm 1 and 2). With gradients averaged
a client applies its own gradient to its head in the step that all take with the summed one. Heads
begin with the same weights everywhere.

At the end the mean of all heads goes into the model that is left behind, for clients that come
later; figures are of each client's own head.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from autofgl.errors import UserError
from autofgl.federation.payload import Payload
from autofgl.nn.models.sfgnn import DISCRIMINATOR
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import WEIGHTS, Form
from autofgl.runtime.reversal import Flat
from autofgl.runtime.sharing import Ending, Sharing
from autofgl.sharing.common import CommonClient, CommonServer, network_spec
from autofgl.sharing.personal import collected, with_models


class HeadClient(CommonClient):
    """Trains the common network, but for its last layer, which it keeps for itself."""

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        self._own |= head_of(name for name, _ in self.local.model.named_parameters())

    def about(self) -> Payload:
        """The whole network, if it is collected."""
        return collected(self.settings, self.local)


class HeadServer(CommonServer):
    """Averages the layers that clients have in common."""

    conclude_options: ClassVar[Mapping[str, Form]] = {"model": WEIGHTS}

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        super().__init__(clients, settings, seed)
        self._keeps = True
        self.foretells = False  # what clients keep takes steps of its own

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:  # noqa: ARG002
        """Losses depend on what clients keep, too."""
        return None

    def outcome(self, end: Ending) -> Outcome:
        """What is common with the mean of what is not, or the clients' own networks."""
        return with_models(super().outcome(end), end)


def head_of(parameters: Iterable[str], way: str = "head") -> frozenset[str]:
    """The parameters of the last layer among all of a network, in the order in which it has them.

    A layer is a part of the network by its name, or by its number in a list. Two-step networks with
    a discriminator have that for a head.

    Raises:
        UserError: There is only one layer, so that nothing would be common.
    """
    names = list(parameters)
    if heads := [name for name in names if name.startswith(DISCRIMINATOR)]:
        return frozenset(heads)
    paths = [name.split(".") for name in names]
    while len({path[0] for path in paths}) == 1 and len(paths[0]) > 2 and not paths[0][1].isdigit():
        paths = [path[1:] for path in paths]
    layers = [tuple(path[: 1 + path[1].isdigit()]) if path[1:] else (path[0],) for path in paths]
    if len(set(layers)) < 2:
        raise UserError(
            f"sharing={way} takes a network of two layers at least, one of which is common: choose "
            "another network, or sharing=personal"
        )
    return frozenset(name for name, layer in zip(names, layers, strict=True) if layer == layers[-1])


HEAD = Sharing("head", HeadServer, HeadClient, network_spec)
