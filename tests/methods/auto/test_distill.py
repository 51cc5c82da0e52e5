"""One network that learns from the mean of the best finalists."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.candidates import Candidate, teacher_of
from autofgl.methods.auto.settings import AutoSettings
from autofgl.runs import checkpoint
from autofgl.runtime.federated_settings import FederatedSettings
from federations import close, local_model, make, parties, to_the_end

TINY: dict[str, Any] = {"recipes": 4, "trial_rounds": 8, "tune": 0, "trials": 0, "rounds": 30}
TINY |= {"finalists": 2, "hidden": 8, "lr": 0.05, "ways": False, "distill": True}


def near_each_other(method: Any) -> None:
    """Whatever their losses are, they are near each other."""
    for one in method._candidates:
        one["loss"] = 1.0 + 1e-3 * one["entrant"]


def to_the_lesson(method: Any) -> None:
    while not method._bench.begun or method._bench.left:
        method.step()
    near_each_other(method)


def test_clients_take_one_network_that_was_taught(small_clients: list[ClientGraph]) -> None:
    method = make("auto", small_clients, **TINY)
    method.setup()
    to_the_lesson(method)
    assert not method.done
    rows = to_the_end(method)
    assert "taught by a mean of" in rows[0]["decision"]
    label = method._bench.entrants[-1].label
    assert all(row["code"] == label for row in rows)
    outcome = method.finish()
    candidates = outcome.extra["candidates"]
    assert not [one for one in candidates if one["kind"] == "ensemble"]
    assert any(one["label"].startswith(label) for one in candidates)


def test_it_predicts_nearly_what_the_mean_does(small_clients: list[ClientGraph]) -> None:
    method = make("auto", small_clients, **{**TINY, "rounds": 80})
    method.setup()
    to_the_lesson(method)
    at = len(method._bench.entrants)
    to_the_end(method)
    for party in parties(method).values():
        teacher = method._bench.entrants[at].teacher
        assert len(teacher) > 1
        shelf = party._shelf
        mean, taught = shelf.log_probabilities(teacher), shelf.log_probabilities([[f"{at}+0", 1.0]])
        assert (mean.argmax(1) == taught.argmax(1)).mean() > 0.9


def test_it_goes_on_where_it_was(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    """Killed while it learns: what teaches is built again from the shelf."""
    ends = []
    for stops in (False, True):
        folder = tmp_path / str(stops)
        method = make("auto", small_clients, secure="shares", folder=folder, **TINY)
        method.setup()
        to_the_lesson(method)
        for _ in range(4):
            method.step()
        if stops:
            method.before_checkpoint()
            checkpoint.save(folder, 1, {"method": method.state()}, method.federation)
            method.step()
            method.federation.close()
            method = make("auto", small_clients, secure="shares", folder=folder, **TINY)
            method.load_state(checkpoint.load_latest(folder, method.federation)["method"])
        to_the_end(method)
        ends.append(method.finish().extra["candidates"])
        method.federation.close()
    assert ends[0] == ends[1]


def test_without_dropout_who_teaches_itself_changes_nothing(
    small_clients: list[ClientGraph],
) -> None:
    settings = FederatedSettings(hidden=8, dropout=0.0)
    alone, taught = (local_model(small_clients[0], settings) for _ in range(2))
    expected = alone.gradient(1)
    taught.teach(taught.logits().log_softmax(1).numpy())
    assert close(taught.gradient(1), expected, 1e-6)
    taught.teach(torch.zeros_like(taught.logits()).log_softmax(1).numpy())
    assert not close(taught.gradient(1), expected, 1e-6)


def test_in_batches_a_node_has_its_own_teacher(small_clients: list[ClientGraph]) -> None:
    """One batch of all training nodes: their teacher counts, and no other's."""
    graph = small_clients[0]
    count = int(graph.train_mask.sum())
    settings = FederatedSettings(hidden=8, dropout=0.0, batch=count, fanout="64,64")
    wrong = np.full((graph.num_nodes, graph.classes), -np.log(graph.classes))
    one, other = (local_model(graph, settings) for _ in range(2))
    one.teach(wrong)
    wrong = wrong.copy()
    wrong[~graph.train_mask] = np.log(np.eye(graph.classes)[0] * 0.98 + 0.01 / graph.classes)
    other.teach(wrong)
    assert close(one.gradient(1), other.gradient(1), 1e-6)


def test_who_may_teach() -> None:
    def candidate(entrant: int, loss: float) -> Candidate:
        return Candidate([[f"{entrant}+0", 1.0]], "", "common", entrant, loss)

    every = [candidate(0, 1.0), candidate(1, 1.04), candidate(1, 1.2), candidate(2, 1.2)]
    assert teacher_of(every, 3) == [["0+0", 1.0], ["1+0", 1.0]]
    assert teacher_of([*every, candidate(3, 1.01)], 2) == [["0+0", 1.0], ["3+0", 1.0]]
    assert teacher_of([candidate(0, 1.0), candidate(1, 1.2)], 3) == []


def test_it_takes_a_mean_to_learn_from() -> None:
    with pytest.raises(UserError, match="set ensemble=2"):
        AutoSettings(distill=True, ensemble=1)
