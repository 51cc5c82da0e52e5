"""Where networks compute."""

from typing import Any

import pytest
import torch

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.client import SharedSuperNet
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings
from autofgl.methods.graphfl.settings import GraphFLSettings
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.device import choose_device, fetch, send
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.specs import model_spec
from autofgl.sharing.meta.model import MetaModel, meta_gradient
from devices import CARD, OneDevice


def test_auto_takes_a_card_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto").type == choose_device("cpu").type == choose_device().type == "cpu"
    for name in ("cuda", "mps"):
        with pytest.raises(UserError, match=f"no device '{name}' here: use --device auto"):
            choose_device(name)
    asked: list[str] = []
    monkeypatch.setattr(torch, "empty", lambda _, device: asked.append(device) or torch.zeros(0))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    choose_device("auto")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    choose_device("auto")
    assert asked == ["mps", "cuda"]


def test_arrays_come_and_go_as_copies() -> None:
    tensor = torch.ones(3, requires_grad=True)
    array = fetch(tensor)
    array[0] = 5
    assert tensor[0] == 1
    array.flags.writeable = False
    back = send(array, tensor)
    assert back.tolist() == [5, 1, 1]
    assert send(array, tensor.to(CARD)).device == CARD


@pytest.mark.parametrize("how", [{}, {"batch": 8, "fanout": "3,2"}], ids=["all", "batches"])
def test_a_client_s_training_stays_on_its_device(
    how: dict[str, Any], small_clients: list[ClientGraph]
) -> None:
    client, settings = small_clients[0], FederatedSettings(hidden=8, **how)
    data = ClientData(client, 0, CARD)
    spec = model_spec(client, settings)
    inputs = data.inputs(True)
    here = LocalModel(client.name, ClientData(client, 0).inputs(True), spec, settings, 0)
    model = LocalModel(client.name, inputs, spec, settings, 0)
    with OneDevice():
        model.train(1, at=1)
        model.apply(here.gradient(1))
        model.descend(here.gradient(1))
        assert model.logits().device == CARD
        model.load_weights(here.weights())
    assert all(value.device == CARD for value in model.model.state_dict().values())
    moments = model._optimizer.state_dict()["state"][0]
    assert moments["exp_avg"].device == CARD
    assert inputs.without_test().nodes[2].device == CARD


def test_meta_learning_and_the_supernet_stay_on_their_device(
    small_clients: list[ClientGraph],
) -> None:
    client = small_clients[0]
    data = ClientData(client, 0, CARD)
    settings = GraphFLSettings(hidden=8)
    inputs = data.inputs(settings.normalize_features)
    model = MetaModel(client.name, inputs, model_spec(client, settings), settings, 0)
    (task,) = model.tasks(1, 0)
    with OneDevice():
        losses = [model._loss(part, torch.Generator()) for part in (task.support, task.query)]
        start = {name: value.detach() for name, value in model.model.named_parameters()}
        gradient, _ = meta_gradient(*losses, start, steps=2, rate=0.1, first_order=False)
    assert all(value.device == CARD for value in gradient.values())
    shared = SharedSuperNet(data, FLAGCNSSettings(layers=2, hidden=8))
    here = SharedSuperNet(ClientData(client, 0), FLAGCNSSettings(layers=2, hidden=8))
    weights = {name: fetch(value) for name, value in here.network.named_parameters()}
    with OneDevice():
        shared.apply(weights)
    assert all(value.device == CARD for value in shared.network.state_dict().values())


def test_a_run_names_its_device(small_clients: list[ClientGraph], tmp_path: Any) -> None:
    result = autofgl.run("fedavg", small_clients, rounds=1, device="cpu", out=tmp_path / "run")
    assert "device: cpu" in (result.folder / "config.yaml").read_text()
    with pytest.raises(UserError, match="unknown device 'gpu'"):
        autofgl.run("fedavg", small_clients, rounds=1, device="gpu", out=tmp_path / "other")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="no device 'cuda'"):
            autofgl.run("fedavg", small_clients, rounds=1, device="cuda", out=tmp_path / "other")
    assert not (tmp_path / "other").exists()
