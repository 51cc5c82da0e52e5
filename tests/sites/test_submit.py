"""Runs at sites, before any site is asked."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from autofgl.methods.baselines import FedAvg

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.sites import submit
from autofgl.sites.submit import read_run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: fedavg\ndataset: cora", "every site has its own graph"),
        ("method: centralized", "cannot run across sites"),
        ("method: fedavgg", "fedavg"),
        ("method: fedavg\nnonsense: 1", "nonsense"),
    ],
)
def test_runs_that_make_no_sense_across_sites(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_run(tmp_path / "run.yaml")


class Reversed(FedAvg):
    """Arranges the graphs, and pools nothing."""

    @classmethod
    def arrange(cls, clients: Sequence[ClientGraph]) -> list[ClientGraph]:
        return list(reversed(clients))


class Pooling(FedAvg):
    """Pools the graphs in some other way than by arranging them."""

    pools: ClassVar[bool] = True


def test_a_method_says_itself_whether_it_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.yaml").write_text("method: fedavg")
    monkeypatch.setattr(submit, "find_method", lambda name: Reversed)
    assert read_run(tmp_path / "run.yaml").method == "fedavg"
    monkeypatch.setattr(submit, "find_method", lambda name: Pooling)
    with pytest.raises(UserError, match="fedavg pools the graphs: it cannot run across sites"):
        read_run(tmp_path / "run.yaml")
