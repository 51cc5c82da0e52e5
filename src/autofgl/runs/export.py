"""Models on disk: ``model.json`` says what to build, ``model.safetensors`` holds the weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError
from torch import nn

from autofgl.atomic import write_bytes, write_text
from autofgl.errors import UserError
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import spec_from_json

_SINGLE = "model"


def save_models(
    folder: Path,
    models: dict[str, dict[str, Any]],
    network: dict[str, Any],
    info: dict[str, Any],
    networks: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Write the weights and the description of one network or of one for each client.

    Args:
        folder: The run folder.
        models: Weights by name; ``model`` if there is only one; none if they stay with the clients.
        network: JSON form of the network.
        info: What a user of the weights must know besides, such as feature scaling.
        networks: JSON form of each client's network, where they differ.
    """
    flat = {
        _key(name, key): np.ascontiguousarray(value)
        for name, weights in models.items()
        for key, value in weights.items()
    }
    write_bytes(folder / "model.safetensors", safetensors.numpy.save(flat))
    description = {"format": 1, "network": network, "models": sorted(models), **info}
    if networks:
        description["networks"] = networks
    write_text(folder / "model.json", json.dumps(description, indent=2) + "\n")


def read_description(folder: Path) -> dict[str, Any]:
    """What ``model.json`` says.

    Raises:
        UserError: There is no finished run, or the file is damaged.
    """
    path = folder / "model.json"
    try:
        description = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{folder} holds no model: is it a finished run?") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    if not isinstance(description, dict) or description.get("format") != 1:
        raise UserError(f"{path} is not a model description of this version")
    return description


def load_model(folder: Path, name: str | None = None) -> nn.Module:
    """The trained network of a run as a plain module, in evaluation mode.

    Args:
        folder: The run folder.
        name: Which client's network, where every client has its own.

    Raises:
        UserError: There is no model, it is damaged, or ``name`` must be given.
    """
    description = read_description(folder)
    chosen = _choose(description["models"], name)
    network = description.get("networks", {}).get(chosen, description["network"])
    model = build_network(spec_from_json(network))
    path = folder / "model.safetensors"
    try:
        flat = safetensors.numpy.load(path.read_bytes())
        weights = {
            key: torch.from_numpy(flat[_key(chosen, key)].copy()) for key in model.state_dict()
        }
        model.load_state_dict(weights)
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise UserError(f"{path} is missing or damaged: {error}") from error
    return model.eval()


def _choose(names: list[str], name: str | None) -> str:
    if not names:
        raise UserError(
            "the networks of this run stayed with their clients: run it again with "
            "--set collect_models=true"
        )
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        asked = "this run has a model for each client" if name is None else f"no model '{name}'"
        raise UserError(f"{asked}: choose one of {', '.join(names)} with --client")
    return name


def _key(name: str, key: str) -> str:
    return key if name == _SINGLE else f"{name}/{key}"
