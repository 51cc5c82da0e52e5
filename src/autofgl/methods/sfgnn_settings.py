"""Settings of SFGNN and ASFGNN, and the hyper-parameters of single clients."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError

from autofgl.errors import UserError, unknown_name
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.settings import ClientsSettings, TrainSettings
from autofgl.nn.models.spec import ModelSpec

#: What each client may have a value of its own for.
OWN = ("dropout", "weight_decay", "layers", "lr")
#: What is the same at all clients: embeddings meet one discriminator.
COMMON = "hidden"


class SFGNNSettings(ClientsSettings, TrainSettings):
    """Separated message passing and a federated discriminator."""

    layers: int = Field(default=2, ge=1, le=16, description="depth K of the message passing")
    select: Literal["accuracy", "loss", "last"] = Field(
        default="accuracy",
        description="which round's weights are kept: best mean of the clients' validation "
        "accuracies (the loss breaks ties), lowest validation loss, or the last",
    )
    chosen_by: Literal["federation", "client"] = Field(
        default="federation",
        description="who says which round that is: all together, or each client for itself by its "
        "own validation nodes, as if it were alone",
    )
    local_epochs: int = Field(default=1, ge=1, description="local steps of a client in a round")
    mixing: Literal["js", "none", "constant"] = Field(
        default="js",
        description="js: a client keeps the share JS(Q_i, Q_s) of its own discriminator; "
        "none: it takes the mean as it is; constant: it keeps the share 'keep'",
    )
    keep: float = Field(
        default=0.5, ge=0, le=1, description="mixing=constant: from 0, the mean, to 1, its own"
    )
    per_client: str = Field(
        default="",
        description="hyper-parameters of single clients, such as "
        "'client-0 layers=4 lr=0.005; client-1 dropout=0'",
    )
    collect_models: bool = Field(
        default=False,
        description="put every client's whole network into the run folder; else message passing "
        "never leaves its client",
    )


def own_settings(settings: SFGNNSettings, changes: Mapping[str, Any]) -> SFGNNSettings:
    """The settings with a client's own hyper-parameters.

    Raises:
        UserError: A value does not fit.
    """
    try:
        return type(settings).model_validate({**settings.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"per_client: {key}={first['input']}: {first['msg']}") from error


def hyper_parameters(settings: SFGNNSettings, clients: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Hyper-parameters of every client: the settings', or its own in ``per_client``.

    Raises:
        UserError: ``per_client`` names something unknown or a value that does not fit.
    """
    given = _parsed(settings.per_client, clients)
    found = {}
    for name in clients:
        own = own_settings(settings, given.get(name, {}))
        found[name] = {key: getattr(own, key) for key in (*OWN, COMMON)}
    return found


def sfgnn_spec(graph: ClientGraph, settings: SFGNNSettings) -> ModelSpec:
    """The network of a client."""
    return ModelSpec(
        family="sfgnn",
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        layers=settings.layers,
        dropout=settings.dropout,
    )


def _parsed(text: str, clients: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, *pairs = part.split()
        if name not in clients:
            raise unknown_name("client in per_client", name, clients)
        own = found.setdefault(name, {})
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals or key not in OWN:
                raise UserError(
                    f"per_client: '{pair}' is not key=value with one of {', '.join(OWN)}"
                )
            own[key] = value
    return found
