"""Counts on their way through sums: exact in every mode, and refused where they cannot be."""

import math
from typing import Any

import numpy as np
import pytest

from autofgl.runtime.details import (
    COUNTED,
    detail_forms,
    from_units,
    kind_form,
    objective_forms,
    shapes,
    split_figures,
    to_units,
)
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.summing import COUNT_UNIT
from autofgl.secure.ckks import FRACTION_BITS as CKKS_BITS
from autofgl.secure.shares.masks import FRACTION_BITS
from autofgl.tasks.counts import prediction_counts

NODES = 40


def counts(rows: int = 2, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    each = [
        prediction_counts(rng.normal(size=(NODES, 3)), rng.integers(0, 3, NODES), COUNTED, 64)
        for _ in range(rows)
    ]
    return {kind: np.stack([one[kind] for one in each]) for kind in COUNTED}


def test_every_fixed_point_holds_counts_exactly() -> None:
    for bits in (FRACTION_BITS, CKKS_BITS):
        for kind, values in to_units(counts()).items():
            steps = values * 2.0**bits
            exact = np.rint(steps) == steps
            assert exact[..., 1:].all() if kind == "calibration" else exact.all()
            near = np.abs(np.rint(steps) / 2.0**bits - values) * COUNT_UNIT
            assert near.max() < 1e-5


def test_units_come_back() -> None:
    for kind, values in counts().items():
        back = from_units(kind, to_units({kind: values})[kind] + 1e-9)
        assert np.allclose(back, values, rtol=0, atol=1e-5)
        assert np.array_equal(back, values) == (kind != "calibration")


@pytest.mark.parametrize("kind", COUNTED)
def test_forms_take_counts_and_refuse_nonsense(kind: str) -> None:
    form, scaled = kind_form(kind, [NODES, NODES]), to_units(counts())[kind]
    assert form.fault(scaled) == ""
    assert kind_form(kind, [math.inf] * 2).fault(scaled) == ""
    assert "out of bounds" in kind_form(kind, [NODES - 1, NODES]).fault(scaled)
    assert "out of bounds" in kind_form(kind, [NODES, NODES - 1]).fault(scaled)
    assert "shape" in kind_form(kind, [NODES]).fault(scaled)
    assert "out of bounds" in form.fault(-scaled)
    assert "whole" in form.fault(scaled * 0.99)
    assert "NaN" in form.fault(scaled * np.nan)
    assert "shape" in form.fault(scaled.reshape(2, -1))


def test_a_confusion_matrix_is_square_and_confidences_are_at_most_one() -> None:
    oblong = np.zeros((1, 2, 3))
    assert "shape" in kind_form("confusion", [5]).fault(oblong)
    calibration = to_units(counts(1))["calibration"]
    calibration[..., 0] = 2 * calibration[..., 2]
    assert "out of bounds" in kind_form("calibration", [NODES]).fault(calibration)


def test_which_counts_are_asked_for() -> None:
    totals = [5, NODES, NODES]
    assert objective_forms(FederatedSettings(), totals) == {}
    assert objective_forms(FederatedSettings(objective="auroc"), totals).keys() == {"val_scores"}
    macro = FederatedSettings(objective="macro_f1")
    assert objective_forms(macro, totals).keys() == {"val_confusion"}
    assert detail_forms(macro, totals).keys() == set(COUNTED)
    coarse = FederatedSettings(score_bins=0)
    assert detail_forms(coarse, totals).keys() == set(COUNTED) - {"scores"}
    late = detail_forms(macro, [0, 0, 0], most=math.inf)
    assert late["confusion"].fault(to_units(counts())["confusion"]) == ""


def test_figures_are_of_the_kind_of_weights_that_is_asked_for() -> None:
    sums = to_units(counts(rows=4))
    both = [split_figures(sums, kind) for kind in (0, 1)]
    accuracies = [np.trace(one) / NODES for one in counts(rows=4)["confusion"]]
    found = [one[split]["accuracy"] for one in both for split in ("val", "test")]
    assert found == pytest.approx(accuracies)


def test_shapes_tell_clients_with_other_classes_apart() -> None:
    one, other = to_units(counts()), to_units(counts())
    assert shapes(one) == shapes({**other, "own": {"nodes": 3}, "seconds": 1.0})
    assert shapes(one) != shapes({**other, "confusion": np.zeros((2, 4, 4))})
