from pathlib import Path

import torch

import autofgl
from autofgl.graphs.client_graph import ClientGraph


def test_loading_a_model_leaves_the_global_generator_alone(
    small_clients: list[ClientGraph], out: Path
) -> None:
    autofgl.run("fedavg", small_clients, out=out, rounds=1, model="gat", hidden=8)
    before = torch.get_rng_state()
    autofgl.load_model(out)
    autofgl.predict(str(out), small_clients[0])
    assert torch.equal(torch.get_rng_state(), before)
