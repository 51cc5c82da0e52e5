"""Figures from counts, summed over clients or of one of them.

They follow scikit-learn's definitions: balanced accuracy is the mean recall of the classes that
there are nodes of, macro-F1 the mean over classes that are there or are predicted. With two classes
AUROC and average precision are those of class 1 against class 0; with more they are the means over
one-vs-rest problems that have nodes of both kinds. A figure that is not defined is left out.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from autofgl.tasks.counts import Counts, Floats
from autofgl.tasks.objectives import OBJECTIVES

#: In bins of more nodes than this, nodes are not looked at one by one.
_FULL_BIN = 4096


def objective_value(name: str, counts: Counts) -> float:
    """The figure that a run is judged by, from the counts that it takes; 0 if not defined."""
    kind = OBJECTIVES[name]
    figures = confusion_figures(counts) if kind == "confusion" else score_figures(counts)
    return float(figures.get(name, 0.0))


def all_figures(counts: Mapping[str, Counts]) -> dict[str, Any]:
    """Every figure that follows from the counts of one split, by name."""
    figures: dict[str, Any] = {}
    if "confusion" in counts:
        figures |= confusion_figures(counts["confusion"])
    if "scores" in counts:
        figures |= score_figures(counts["scores"])
    if "calibration" in counts:
        figures |= calibration_figures(counts["calibration"])
    if "confusion" in counts:
        figures |= class_figures(counts["confusion"])
    return figures


def confusion_figures(confusion: Counts) -> dict[str, float]:
    """Accuracy, balanced accuracy, macro- and micro-F1 from a confusion matrix ``[C, C]``."""
    right, there, predicted = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    if not there.sum():
        return {}
    accuracy = float(right.sum() / there.sum())
    named = there + predicted > 0
    return {
        "accuracy": accuracy,
        "balanced_accuracy": float((right[there > 0] / there[there > 0]).mean()),
        "macro_f1": float((2 * right[named] / (there + predicted)[named]).mean()),
        "micro_f1": accuracy,  # every node has one class and one prediction
    }


def class_figures(confusion: Counts) -> dict[str, Any]:
    """Nodes, recall and precision of each class, and the confusion matrix itself."""
    classes = []
    for right, there, predicted in zip(
        np.diag(confusion), confusion.sum(1), confusion.sum(0), strict=True
    ):
        one: dict[str, float] = {"nodes": int(there)}
        one |= {"recall": float(right / there)} if there else {}
        one |= {"precision": float(right / predicted)} if predicted else {}
        classes.append(one)
    return {"classes": classes, "confusion": confusion.astype(np.int64).tolist()}


def score_figures(scores: Counts) -> dict[str, float]:
    """AUROC and average precision from score histograms ``[K, 2, B]``."""
    both = [(others, own) for others, own in scores if others.any() and own.any()]
    if not both:
        return {}
    return {
        "auroc": float(np.mean([_auroc(*pair) for pair in both])),
        "average_precision": float(np.mean([_average_precision(*pair) for pair in both])),
    }


def calibration_figures(calibration: Counts) -> dict[str, float]:
    """Expected calibration error: how far confidence is from accuracy, bin by bin, by nodes."""
    confidence, right, nodes = calibration.T
    if not nodes.sum():
        return {}
    return {"calibration_error": float(np.abs(confidence - right).sum() / nodes.sum())}


def _auroc(others: Floats, own: Floats) -> float:
    """Share of pairs in which the node of the class has the higher score; equal bins are a half."""
    below = np.cumsum(others) - others / 2
    return float((own * below).sum() / (own.sum() * others.sum()))


def _average_precision(others: Floats, own: Floats) -> float:
    """Mean precision at the nodes of the class, from the highest score down.

    A bin says nothing of the order in it. Of m others and k nodes of the class in random order, the
    i-th of the latter has m i / (k + 1) of the former before it on average.
    """
    others, own = others[::-1], own[::-1]
    if own.max() > _FULL_BIN:
        return _average_precision_of_many(others, own)
    some = own > 0
    repeats = own[some].astype(np.int64)
    first = np.repeat(np.cumsum(own)[some] - own[some], repeats)
    ends = np.cumsum(repeats)
    at = np.arange(1, ends[-1] + 1) - np.repeat(ends - repeats, repeats)
    before = np.repeat(np.cumsum(others)[some] - others[some], repeats)
    mixed = np.repeat(others[some] / (own[some] + 1), repeats) * at
    right = first + at
    return float((right / (right + before + mixed)).mean())


def _average_precision_of_many(others: Floats, own: Floats) -> float:
    """The same without a number for each node, from the highest bin down.

    With a of the class and b others before a bin of k and m, the sum over its nodes is one of
    (a + i) / (a + b + d i) with d = 1 + m / (k + 1), and so, with c = (a + b) / d and digamma ψ,
    (k + (a − c) (ψ(k + 1 + c) − ψ(1 + c))) / d.
    """
    from scipy.special import digamma

    some = own > 0
    k, m = own[some], others[some]
    a, b = np.cumsum(own)[some] - k, np.cumsum(others)[some] - m
    d = 1 + m / (k + 1)
    c = (a + b) / d
    sums = (k + (a - c) * (digamma(k + 1 + c) - digamma(1 + c))) / d
    return float(sums.sum() / k.sum())
