"""Rate and optimizer of the outer step, by vote."""

from typing import Any

import numpy as np
import pytest

from autofgl.errors import AutoFGLError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.graphfl.configurator import Configurator
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.methods.graphfl.votes import (
    SCALES,
    bounded_loss,
    decide,
    farther,
    line_losses,
    shared_genes,
)
from autofgl.runtime.local_model import WORST_LOSS
from federations import make, rounds


def test_losses_along_the_last_move() -> None:
    before, after = {"w": np.zeros(1, "f4")}, {"w": np.ones(1, "f4")}

    def loss(weights: Any) -> float:
        if weights["w"][0] > 1.4:
            raise AutoFGLError("diverged")
        return float((weights["w"][0] - 0.7) ** 2)

    found = line_losses(before, after, loss)
    assert found[:3] == pytest.approx([(scale - 0.7) ** 2 for scale in SCALES[:3]], abs=1e-6)
    assert found[3] == WORST_LOSS
    assert (farther(found), farther([0.0] * 4), farther([])) == (0.5, 1.0, 1.0)
    assert [bounded_loss(value) for value in (1.0, 1e9, np.nan)] == [1.0, WORST_LOSS, WORST_LOSS]


def test_the_least_sum_decides(small_clients: list[ClientGraph]) -> None:
    settings = GraphFLGASettings(optimizers="adam,sgd", lr=4.0)
    space = Configurator(small_clients[0], settings, 0).space
    common = shared_genes(space)
    assert (common["optimizer"], common["sgd_lr"]) == ("sgd", 4.0)
    assert decide(space, common, [0.0] * 4, [0.0] * 2) == common, "nobody voted"
    assert decide(space, common, [0.9, 0.5, 0.7, 1.0], [0, 0])["sgd_lr"] == 2.0
    assert decide(space, common, [0.1, 0.5, 0.7, 1.0], [0, 0])["sgd_lr"] == 2.0, "not to nothing"
    assert decide(space, common, [5.0, 4, 3, 2], [0, 0])["sgd_lr"] == 6.0
    assert decide(space, {**common, "sgd_lr": 9.0}, [5.0, 4, 3, 2], [0, 0])["sgd_lr"] == 10.0
    changed = decide(space, common, [4.0, 2, 1, 5], [1.0, 2.0])
    assert (changed["optimizer"], changed["adam_lr"]) == ("adam", common["adam_lr"])


def test_the_average_goes_back_where_it_went_too_far(small_clients: list[ClientGraph]) -> None:
    """Half of the last step is taken off the average after this one, and the rate is halved."""
    quick = {"population": 3, "iterations": 1, "inner_steps": 1, "adapt_steps": 1, "horizon": 1}
    found = []
    for line in ([1.0, 0.9, 0.8, 0.9], [1.0, 0.5, 0.8, 0.9]):
        method = make("graphfl-ga", small_clients, **quick)
        sharing = method.training.sharing
        rounds(method, 1)
        start, before = sharing._last["sgc/out.0.lin.weight"], sharing.weights
        judge = sharing.judge

        def voted(*given: Any, line: Any = line, judge: Any = judge, own: Any = sharing) -> Any:
            result = judge(*given)
            own._line = line
            return result

        sharing.judge = voted
        method.step()
        rate = sharing._advice["common"]["sgd_lr"]
        found.append((rate, start, before["sgc/out.0.lin.weight"], sharing.weights))
    (rate, start, before, after), (half, _, _, back) = found
    assert half == rate / 2
    expected = after["sgc/out.0.lin.weight"] - 0.5 * (before - start)
    np.testing.assert_allclose(back["sgc/out.0.lin.weight"], expected, atol=1e-6)


@pytest.mark.parametrize("optimizers", ["sgd", "adam,sgd"])
def test_all_clients_take_the_rate_of_the_vote(
    small_clients: list[ClientGraph], optimizers: str
) -> None:
    quick = {"population": 3, "iterations": 1, "inner_steps": 1, "adapt_steps": 1}
    method = make("graphfl-ga", small_clients, **quick, optimizers=optimizers, families="sgc")
    rates = []
    for _ in rounds(method, 4):
        rates.append(method.training.sharing._advice["common"])
    assert rates[-1]["sgd_lr"] != GraphFLGASettings().lr, "it was too small or too large"
    outcome = method.finish()
    chosen = {row["configuration"]["sgd_lr"] for row in outcome.per_client}
    assert chosen == {rates[-1]["sgd_lr"]} or optimizers != "sgd"


def test_a_gene_of_each_client_if_there_is_no_vote(small_clients: list[ClientGraph]) -> None:
    quick = {"population": 4, "iterations": 1, "inner_steps": 1, "adapt_steps": 1}
    method = make(
        "graphfl-ga",
        small_clients,
        **quick,
        common_rate=False,
        environment=False,
    )
    rounds(method, 2)
    assert method.training.sharing._advice["common"] == {}
    rates = {row["configuration"]["sgd_lr"] for row in method.finish().per_client}
    assert len(rates) == len(small_clients)
