"""Counted predictions against scikit-learn, however they are cut into clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from scipy.special import softmax
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

from autofgl.tasks.counts import (
    bin_of,
    calibration_counts,
    confusion_counts,
    log_odds,
    prediction_counts,
    score_counts,
)
from autofgl.tasks.figures import (
    _average_precision,
    _average_precision_of_many,
    all_figures,
    objective_value,
    score_figures,
)
from autofgl.tasks.objectives import FEWEST_BINS, OBJECTIVES, SCORE_BINS

KINDS = ("confusion", "scores", "calibration")


def predictions(rng: Generator, nodes: int, classes: int, rare: float = 0.03) -> tuple:
    """Logits of a network that has learned something, and labels, the last class being rare."""
    shares = [(1 - rare) / (classes - 1)] * (classes - 1) + [rare]
    labels = rng.choice(classes, nodes, p=shares)
    labels[:classes] = np.arange(classes)
    logits = rng.normal(size=(nodes, classes)) * 1.5
    logits[np.arange(nodes), labels] += 2
    logits[:, -1] -= 4
    return logits.astype(np.float32), labels


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("nodes", [1000, 5000])
def test_figures_are_those_of_scikit_learn(classes: int, nodes: int) -> None:
    for seed in range(5):
        logits, labels = predictions(np.random.default_rng(seed), nodes, classes)
        parts = np.array_split(np.arange(nodes), 4)
        counted = [prediction_counts(logits[p], labels[p], KINDS, SCORE_BINS) for p in parts]
        figures = all_figures({kind: sum(one[kind] for one in counted) for kind in KINDS})
        chosen = logits.argmax(1)
        assert figures["confusion"] == confusion_matrix(labels, chosen).tolist()
        assert figures["accuracy"] == figures["micro_f1"] == (chosen == labels).mean()
        assert figures["micro_f1"] == pytest.approx(f1_score(labels, chosen, average="micro"))
        assert figures["macro_f1"] == pytest.approx(f1_score(labels, chosen, average="macro"))
        balanced = balanced_accuracy_score(labels, chosen)
        assert figures["balanced_accuracy"] == pytest.approx(balanced)
        recall = recall_score(labels, chosen, average=None)
        precision = precision_score(labels, chosen, average=None, zero_division=0)
        assert [one["recall"] for one in figures["classes"]] == pytest.approx(recall.tolist())
        told = [one.get("precision", 0) for one in figures["classes"]]
        assert told == pytest.approx(precision.tolist())
        scores, truth = softmax(logits.astype(np.float64), axis=1), np.eye(classes)[labels]
        if classes == 2:
            scores, truth = scores[:, 1], labels
        assert figures["auroc"] == pytest.approx(roc_auc_score(truth, scores), abs=0.002)
        exact = average_precision_score(truth, scores)
        assert figures["average_precision"] == pytest.approx(exact, abs=0.002)


def test_figures_of_absent_classes_follow_scikit_learn() -> None:
    """A class without nodes has no recall; one that is neither there nor predicted has no F1."""
    labels, chosen = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1])
    figures = all_figures({"confusion": confusion_counts(np.eye(4)[chosen], labels)})
    assert figures["balanced_accuracy"] == 0.75
    macro = f1_score(labels, chosen, average="macro", zero_division=0)
    assert figures["macro_f1"] == pytest.approx(macro)
    assert figures["classes"][2:] == [{"nodes": 0, "precision": 0.0}, {"nodes": 0}]


def test_what_is_not_defined_is_left_out() -> None:
    nothing = prediction_counts(np.zeros((0, 3)), np.zeros(0, np.int64), KINDS, 512)
    assert all_figures(nothing).keys() == {"classes", "confusion"}
    one_class = score_counts(np.zeros((4, 2)), np.ones(4, np.int64), 64)
    assert score_figures(one_class) == {}
    for name, kind in OBJECTIVES.items():
        assert not kind or objective_value(name, nothing[kind]) == 0.0


def test_a_problem_without_both_kinds_is_no_part_of_the_mean() -> None:
    logits, labels = predictions(np.random.default_rng(0), 400, 3)
    labels[labels == 2] = 1
    found = score_figures(score_counts(logits, labels, SCORE_BINS))
    scores = softmax(logits.astype(np.float64), axis=1)
    exact = np.mean([roc_auc_score(labels == c, scores[:, c]) for c in (0, 1)])
    assert found["auroc"] == pytest.approx(exact, abs=0.002)


def test_calibration_error_by_hand() -> None:
    logits = np.log(np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]]))
    figures = all_figures({"calibration": calibration_counts(logits, np.array([0, 1, 1]))})
    assert figures["calibration_error"] == pytest.approx((2 * abs(0.5 - 0.9) + abs(1 - 0.7)) / 3)


def test_log_odds_are_exact_however_sure_a_network_is() -> None:
    logits = np.array([[1.0, 2.0, 0.5], [50.0, -60.0, 3.0]])
    likely = softmax(logits[0])
    assert log_odds(logits)[0] == pytest.approx(np.log(likely / (1 - likely)))
    assert log_odds(logits)[1] == pytest.approx([47.0, -110.0, -47.0])


@given(st.lists(st.floats(-500, 500), min_size=2, max_size=30), st.integers(1, 5000))
def test_bins_keep_the_order(odds: list[float], bins: int) -> None:
    values = np.sort(np.array(odds))
    places = bin_of(values, bins)
    assert (np.diff(places) >= 0).all()
    assert places.min() >= 0
    assert places.max() < bins


def test_infinite_odds_have_bins() -> None:
    assert bin_of(np.array([-np.inf, np.inf]), 10).tolist() == [0, 9]


@pytest.mark.parametrize(("classes", "shape"), [(2, (1, 2, 8192)), (4, (4, 2, 2048))])
def test_cells_are_shared_by_the_classes(classes: int, shape: tuple[int, ...]) -> None:
    logits, labels = predictions(np.random.default_rng(0), 50, classes)
    assert score_counts(logits, labels, SCORE_BINS).shape == shape
    logits, labels = predictions(np.random.default_rng(0), 100, 70)
    assert score_counts(logits, labels, SCORE_BINS).shape == (70, 2, FEWEST_BINS)
    assert score_counts(logits, labels, 16).shape == (70, 2, 16)


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_of_full_bins_is_that_of_single_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    others, own = (rng.integers(0, 30, 50).astype(np.float64) for _ in range(2))
    others[3] = own[5] = 0
    one_by_one = _average_precision(others, own)
    assert _average_precision_of_many(others[::-1], own[::-1]) == pytest.approx(one_by_one)


def test_many_nodes_take_no_memory() -> None:
    """A client may claim to have any number of them."""
    claimed = np.full((1, 2, 50), 2.0**40 / 100)
    assert 0.4 < score_figures(claimed)["average_precision"] < 0.6
