import json
from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl.api import diagnose
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.diagnosis import Ranked, agreement

SMALL: dict[str, Any] = {
    "population": 6, "layers": 2, "generations": 2, "weight_steps": 2, "rounds": 4, "hidden": 8,
    "warmup": 1, "trials": 0,
}  # fmt: skip


def ranked(shared: list[float], alone: list[float]) -> list[Ranked]:
    return [Ranked("-", s, 1 - s, a, 1 - a) for s, a in zip(shared, alone, strict=True)]


def test_rank_correlations_by_hand() -> None:
    """Of the six pairs of 1 2 3 4 and 1 3 2 4 one is swapped: τ = (5 - 1) / 6, ρ = 1 - 6·2 / 60."""
    quality = agreement(ranked([0.1, 0.2, 0.3, 0.4], [0.1, 0.3, 0.2, 0.4]))
    assert quality.kendall_loss == pytest.approx(4 / 6)
    assert quality.spearman_loss == pytest.approx(0.8)
    assert quality.kendall_accuracy == pytest.approx(4 / 6)


def test_a_constant_ranking_agrees_with_nothing() -> None:
    assert agreement(ranked([0.5] * 3, [0.1, 0.2, 0.3])).spearman_loss == 0


@pytest.mark.parametrize("secure", ["none", "ckks"])
def test_a_finished_run_is_diagnosed(
    small_clients: list[ClientGraph], tmp_path: Path, secure: str
) -> None:
    autofgl.run("fl-agcns", small_clients, secure=secure, out=tmp_path / "run", **SMALL)
    before = (tmp_path / "run" / "result.json").read_bytes()
    seen: list[Ranked] = []
    quality = diagnose(tmp_path / "run", small_clients, networks=6, rounds=3, report=seen.append)
    assert quality.networks == seen
    assert len({one.genotype for one in seen}) == 6
    assert all(one.alone_loss > 0 and one.shared_loss > 0 for one in seen)
    assert json.loads((tmp_path / "run" / "diagnosis.json").read_text())["rounds"] == 3
    assert (tmp_path / "run" / "result.json").read_bytes() == before


def test_a_run_without_a_supernet_is_refused(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    autofgl.run("fedavg", small_clients, out=tmp_path / "run", rounds=2)
    with pytest.raises(UserError, match="no SuperNet"):
        diagnose(tmp_path / "run", small_clients)
