"""A client's own mix of classes as a candidate: where only the shares of the classes differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.auto.shelf import PRIOR, shift_of
from autofgl.methods.auto.verdicts import Choosing, Chosen
from autofgl.runs.export import read_description

TINY: dict[str, Any] = {"recipes": 4, "trial_rounds": 12, "tune": 0, "trials": 0, "rounds": 40}
TINY |= {"ways": False, "finalists": 1, "hidden": 8, "lr": 0.05, "ensemble": 0, "across": False}


def test_the_shift_by_hand() -> None:
    shift = shift_of([30, 0, 10], [0.5, 0.25, 0.25])
    own = np.array([30 + 0.5 * PRIOR, 0.25 * PRIOR, 10 + 0.25 * PRIOR]) / (40 + PRIOR)
    assert np.allclose(shift, np.log(own / [0.5, 0.25, 0.25]))
    assert np.allclose(shift_of([0, 0], [0.4, 0.6]), 0), "without labels nothing is known"
    assert shift_of([5, 0], [1.0, 0.0])[1] == 0, "nor of a class that nobody has"


@pytest.fixture(scope="module")
def unlike_mixes() -> list[ClientGraph]:
    knobs = DataSettings(nodes=500, classes=3, features=60, degree=3, topic_strength=0.08)
    graph = autofgl.load("synthetic", seed=2, settings=knobs)
    cut = PartitionSettings(dirichlet_beta=0.3)
    return autofgl.partition(graph, 4, "dirichlet", seed=1, settings=cut)


def test_clients_that_have_other_shares_gain(
    unlike_mixes: list[ClientGraph], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = Choosing.choose

    def only_mixes(choosing: Choosing, every: Any, costs: Any) -> Chosen:
        kept = [one for one in every if one.kind == "common" or "mix of classes" in one.label]
        return choose(choosing, kept, costs)

    monkeypatch.setattr(Choosing, "choose", only_mixes)
    result = autofgl.auto(unlike_mixes, out=out, secure="none", **TINY)
    assert result.figures["look"]["skew"] > 0.05
    lead = result.figures["choice"]
    assert lead["label"].endswith("with the own mix of classes")
    same = lead["label"].split(",")[0]
    plain = next(one for one in result.figures["candidates"] if one["label"] == same)
    assert lead["loss"] < 0.95 * plain["loss"]

    # What is left predicts as it was proven.
    about = read_description(out)["ensembles"]
    mixed = [name for name, one in about.items() if "shifts" in one]
    assert mixed
    right = tested = 0
    for graph in unlike_mixes:
        label = autofgl.predict(out, graph, graph.name).label
        right += (label == graph.y)[graph.test_mask].sum()
        tested += graph.test_mask.sum()
    assert result.test_accuracy == pytest.approx(right / tested)
    module, graph = result.models[mixed[0]], next(g for g in unlike_mixes if g.name == mixed[0])
    assert module.shifts[0], "and so does the module"
    assert about[mixed[0]]["members"] == [f"{graph.name}/0"]
