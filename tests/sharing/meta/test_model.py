"""Tasks, outer steps and adaptation of one client's network."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.settings import GraphFLSettings
from autofgl.seeding import numpy_generator
from autofgl.sharing.meta.model import MetaModel, draw_task
from federations import close, local_model

#: Few and short steps.
QUICK: dict[str, Any] = {"tasks": 2, "inner_steps": 2, "adapt_steps": 2}


def local(client: ClientGraph, **settings: Any) -> MetaModel:
    model: MetaModel = local_model(client, GraphFLSettings(**settings), kind=MetaModel)
    return model


@pytest.mark.parametrize(
    ("nodes", "support", "query", "sizes"),
    [
        (20, 5, 10, (5, 10)),
        (20, 0, 0, (10, 10)),
        (21, 0, 0, (10, 11)),
        (21, 4, 0, (4, 17)),
        (20, 0, 3, (10, 3)),
        (20, 20, 10, (13, 7)),
        (9, 10, 20, (3, 6)),
        (5, 100, 1, (4, 1)),
        (5, 1, 100, (1, 4)),
        (3, 100, 0, (2, 1)),
        (2, 5, 5, (1, 1)),
        (2, 0, 0, (1, 1)),
    ],
)
def test_support_and_query_do_not_overlap(
    nodes: int, support: int, query: int, sizes: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_task(nodes, support, query, rng) for _ in range(20)]
    for task in drawn:
        assert (len(task.support), len(task.query)) == sizes
        both = torch.cat([task.support, task.query]).tolist()
        assert len(set(both)) == len(both)
        assert set(both) <= set(range(nodes))
    if nodes > 3:
        assert len({tuple(task.support.tolist()) for task in drawn}) > 1


def test_a_single_node_supports_and_judges() -> None:
    task = draw_task(1, 3, 7, np.random.default_rng(0))
    assert task.support.tolist() == task.query.tolist() == [0]


def test_tasks_depend_on_client_round_and_step(small_clients: list[ClientGraph]) -> None:
    def drawn(client: int, at: int, step: int) -> list[int]:
        model = local(small_clients[client], tasks=2)
        return [node for task in model.tasks(at, step) for node in task.support.tolist()]

    assert drawn(0, 1, 0) == drawn(0, 1, 0)
    assert len({tuple(drawn(0, at, step)) for at, step in [(1, 0), (2, 0), (1, 1)]}) == 3


def test_an_outer_step_of_gradient_descent_by_hand(small_clients: list[ClientGraph]) -> None:
    """θ - lr (g + decay θ), with g the mean of two tasks' gradients in float64 of plain torch."""
    settings: dict[str, Any] = {**QUICK, "optimizer": "sgd", "dropout": 0.0, "lr": 0.3}
    client = small_clients[0]
    model = local(client, **settings)
    x = client.to_pyg().x.double()
    n = client.num_nodes
    a = torch.eye(n, dtype=torch.float64)
    a[client.edge_index[1], client.edge_index[0]] = 1
    scale = a.sum(1) ** -0.5
    q = scale[:, None] * a * scale
    z = (q @ q @ x)[client.train_mask]
    y = torch.from_numpy(client.y[client.train_mask])
    start = {name: torch.tensor(value).double() for name, value in model.weights().items()}
    w, b = (value.requires_grad_() for value in start.values())
    total: Any = 0
    for task in model.tasks(1, 0):
        u, v = w, b
        for _ in range(2):
            s = torch.nn.functional.cross_entropy(z[task.support] @ u + v, y[task.support])
            du, dv = torch.autograd.grad(s, [u, v], create_graph=True)
            u, v = u - 0.1 * du, v - 0.1 * dv
        total += torch.nn.functional.cross_entropy(z[task.query] @ u + v, y[task.query]) / 2
    total.backward()
    loss = model.learn(1)
    assert loss == pytest.approx(float(total.detach()), rel=1e-5)
    for (name, value), found in zip(start.items(), model.weights().values(), strict=True):
        there = value.detach()
        assert value.grad is not None
        expected = there - 0.3 * (value.grad + 5e-4 * there)
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-6, err_msg=name)


def test_second_derivatives_change_the_step(small_clients: list[ClientGraph]) -> None:
    found = []
    for first_order in (False, True):
        model = local(small_clients[0], **QUICK, first_order=first_order)
        model.learn(1)
        found.append(model.weights())
    assert not close(*found, 1e-6)


def test_adaptation_descends_the_loss_of_the_training_nodes_only(
    small_clients: list[ClientGraph],
) -> None:
    client = small_clients[0]
    model = local(client, adapt_steps=5, adapt_lr=0.2)
    before = model.weights()
    found = model.adapted()
    assert close(before, model.weights(), 0), "the global weights are held"
    assert model.evaluate_adapted()[0] < model.evaluate()[0]
    others = ~client.train_mask
    wrong = replace(client, y=np.where(others, (client.y + 1) % client.classes, client.y))
    blind = local(wrong, adapt_steps=5, adapt_lr=0.2).adapted()
    assert all(torch.equal(found[name], blind[name]) for name in found)
    same = local(client, inner_lr=0.2, adapt_steps=5).adapted()
    assert all(torch.equal(found[name], same[name]) for name in found), "adapt_lr 0 is inner_lr"
    none = local(client, adapt_steps=0)
    assert np.array_equal(none.evaluate_adapted(), none.evaluate())


def test_adaptation_may_see_fewer_nodes(small_clients: list[ClientGraph]) -> None:
    client = small_clients[0]
    train = np.flatnonzero(client.train_mask)
    order = numpy_generator(0, "adaptation", client.name).permutation(len(train))
    seen = np.isin(np.arange(client.num_nodes), train[order[:3]])
    few = client.with_masks(seen, client.val_mask, client.test_mask)
    found, expected = local(client, adapt_support=3).adapted(), local(few).adapted()
    assert all(torch.equal(found[name], expected[name]) for name in found)
