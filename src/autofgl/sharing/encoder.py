"""An encoder of one's own for each client and a common head (LG-FedAvg, Liang et al., 2020).

The other way round than :mod:`autofgl.sharing.head`: all layers but the last, θ_l in the paper, are
a client's own local representation and never leave it; the last layer, θ_g, is averaged as a common
model is (Algorithm 1). So clients may read their features each in their own way, as those of
ASFGNN do (:mod:`autofgl.sharing.own_encoder`), with any network of two layers or more; and a round
sends the last layer only. Encoders begin with the same weights everywhere.

At the end the mean of all encoders goes into the model that is left behind, for clients that come
later; figures are of each client's own encoder.
"""

from typing import Any

from autofgl.federation.payload import Payload
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.sharing import Sharing
from autofgl.sharing.common import CommonClient, network_spec
from autofgl.sharing.head import HeadServer, head_of
from autofgl.sharing.personal import collected


class EncoderClient(CommonClient):
    """Trains the common last layer on embeddings that are its own."""

    def __init__(
        self, data: ClientData, recipe: Recipe, settings: Any, secure: str, trial: bool = False
    ) -> None:
        super().__init__(data, recipe, settings, secure, trial)
        names = [name for name, _ in self.local.model.named_parameters()]
        self._own |= set(names) - head_of(names, "encoder")

    def about(self) -> Payload:
        """The whole network, if it is collected."""
        return collected(self.settings, self.local)


ENCODER = Sharing("encoder", HeadServer, EncoderClient, network_spec)
