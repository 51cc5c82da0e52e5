"""A run that is killed in any stage ends with the same weights, also behind secure sums."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.runs import checkpoint
from federations import make, to_the_end

TINY: dict[str, Any] = {"recipes": 4, "trial_rounds": 4, "tune": 2, "trials": 2, "rounds": 6}
TINY |= {"finalists": 1, "hidden": 8, "lr": 0.05}


def untimed(extra: dict[str, Any]) -> dict[str, Any]:
    """Without the seconds that a pass takes."""
    front = [{key: one[key] for key in one if key != "inference_s"} for one in extra["front"]]
    return {**extra, "front": front}


@pytest.mark.slow
@pytest.mark.parametrize("secure", ["none", "shares"])
def test_killed_in_every_stage(
    small_clients: list[ClientGraph], tmp_path: Path, secure: str
) -> None:
    """Saved in the middle of each stage and after the last round; what follows is lost."""
    whole = make("auto", small_clients, secure=secure, **TINY)
    whole.setup()
    rows = to_the_end(whole)
    expected = whole.finish()
    ends = {row["phase"]: row["round"] for row in rows}
    assert list(ends) == ["race", "search", "finals"]
    for at in (3, ends["race"] + 1, ends["search"] + 1, len(rows) - 1, len(rows)):
        folder = tmp_path / f"after {at}"
        first = make("auto", small_clients, secure=secure, folder=folder, **TINY)
        first.setup()
        while first.round < at:
            first.step()
        first.before_checkpoint()
        checkpoint.save(folder, at, {"method": first.state()}, first.federation)
        if not first.done:
            first.step()
        first.federation.close()
        second = make("auto", small_clients, secure=secure, folder=folder, **TINY)
        second.load_state(checkpoint.load_latest(folder, second.federation)["method"])
        to_the_end(second)
        found = second.finish()
        second.federation.close()
        shutil.rmtree(folder)
        assert untimed(found.extra) == untimed(expected.extra), at
        for key, value in expected.models["model"].items():
            assert np.array_equal(found.models["model"][key], value), at


@pytest.mark.slow
def test_over_nvflare_it_is_the_same(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    """Without recipes across clients, which a site turns down unless its owner allows them."""
    settings = {**TINY, "across": False}
    results = {
        engine: autofgl.run("auto", small_clients, engine=engine, out=tmp_path / engine, **settings)
        for engine in ("inprocess", "nvflare")
    }
    here, there = results["inprocess"], results["nvflare"]
    assert here.figures["certificate"] == there.figures["certificate"]
    weights = [(one.folder / "model.safetensors").read_bytes() for one in (here, there)]
    assert weights[0] == weights[1]
