"""An optimiser's memory as a payload, so that a resumed run goes on with it."""

import torch

from autofgl.federation.payload import Payload


def optimiser_state(optimiser: torch.optim.Optimizer) -> Payload:
    """Copies of the moments, by the number of their parameter."""
    return {
        str(index): {key: value.numpy().copy() for key, value in entry.items()}
        for index, entry in optimiser.state_dict()["state"].items()
    }


def load_optimiser_state(optimiser: torch.optim.Optimizer, state: Payload) -> None:
    """Take up where :func:`optimiser_state` was taken; the settings stay as they are."""
    moments = {
        int(index): {key: torch.from_numpy(value.copy()) for key, value in entry.items()}
        for index, entry in state.items()
    }
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
