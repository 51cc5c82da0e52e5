"""Counts of predictions (:mod:`autofgl.tasks`) on their way through secure sums.

They travel in units of :data:`COUNT_UNIT` nodes. That is a power of two, so that every count is a
multiple of 2**-12: fixed-point numbers of ``shares`` (40 bits after the point) and ``ckks`` (28)
hold it exactly, and sums of counts are exact in every mode. Confidences, which are no counts, are
rounded by at most 2**-29 units in each client (:mod:`autofgl.secure.ckks`, Eq. 3): less than 1e-5
of a node.

In a round there is at most what the objective takes, of validation nodes, under a name that begins
with ``val_``; at the end there is everything, of validation and test nodes. The first axis of an
array is always the split.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from autofgl.federation.payload import Payload
from autofgl.runtime.bounds import ROUNDING
from autofgl.runtime.device import fetch
from autofgl.runtime.metrics import Metrics
from autofgl.runtime.outcome import Outcome
from autofgl.runtime.replies import Array, Form
from autofgl.runtime.summing import COUNT_UNIT
from autofgl.tasks.counts import CONFIDENCES, Counts, prediction_counts
from autofgl.tasks.figures import all_figures, objective_value
from autofgl.tasks.objectives import OBJECTIVES

#: Splits whose predictions are counted in the end.
DETAILED = ("val", "test")
#: Axes of the counts of each kind, besides that of the splits.
_AXES: dict[str, tuple[int | None, ...]] = {
    "confusion": (None, None),
    "scores": (None, 2, None),
    "calibration": (CONFIDENCES, 3),
}


#: No graph has more nodes: beyond it, counts are no whole numbers any more.
MOST_NODES = 2.0**40
#: All kinds.
COUNTED = tuple(_AXES)


def detail_kinds(settings: Any) -> list[str]:
    """What is counted in the end; no histograms of scores where there are to be no bins."""
    return [kind for kind in _AXES if kind != "scores" or settings.score_bins]


def objective_kinds(settings: Any) -> list[str]:
    """What the objective takes in every round; nothing for accuracy, which is always there."""
    return list(filter(None, [OBJECTIVES[settings.objective]]))


def to_units(counts: Mapping[str, Counts], prefix: str = "") -> dict[str, Counts]:
    """Counts as they are summed."""
    return {f"{prefix}{kind}": values / COUNT_UNIT for kind, values in counts.items()}


def without_objective(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures without what a round has for the objective: the end has all counts."""
    judged = {f"val_{kind}" for kind in _AXES}
    return {name: value for name, value in figures.items() if name not in judged}


def from_units(kind: str, scaled: Any) -> Counts:
    """Counts of a sum; all but confidences are whole numbers again."""
    counts = np.asarray(scaled, np.float64) * COUNT_UNIT
    whole = np.rint(counts)
    if kind == "calibration":
        whole[..., 0] = counts[..., 0]
    return np.maximum(whole, 0.0)


def kind_form(kind: str, nodes: Sequence[float]) -> Form:
    """Of summed counts, with at most so many nodes in each row: none below 0, whole numbers, and no
    more than there are.
    """
    most = np.minimum(nodes, MOST_NODES) / COUNT_UNIT

    def fault(scaled: Any) -> str:
        parts = scaled[..., 1:] if kind == "calibration" else scaled
        counts = parts * COUNT_UNIT
        if np.abs(counts - np.rint(counts)).max(initial=0) > ROUNDING * COUNT_UNIT:
            return "should count whole nodes"
        if kind == "calibration":
            confidence, right, count = np.moveaxis(scaled, -1, 0)
            too_many = np.maximum(confidence, right) > count + ROUNDING
            totals = count.sum(1)
        else:
            square = kind != "confusion" or scaled.shape[1] == scaled.shape[2]
            if not square:
                return "has another shape than it should"
            too_many = np.zeros(1, np.bool_)
            totals = scaled.sum((2, 3)).T if kind == "scores" else scaled.sum((1, 2))
        wrong = too_many.any() or (totals > most + ROUNDING).any()
        return "is out of bounds" if wrong else ""

    return Array((len(nodes), *_AXES[kind]), -ROUNDING, also=fault)


def objective_forms(
    settings: Any, totals: Sequence[int], kinds: int = 1, most: float = 1.0
) -> dict[str, Form]:
    """Of what a round sums up for the objective, of several kinds of weights; see
    :func:`detail_forms`.
    """
    nodes = [_at_most(totals[1], most)] * kinds
    return {f"val_{kind}": kind_form(kind, nodes) for kind in objective_kinds(settings)}


def detail_forms(
    settings: Any, totals: Sequence[int], kinds: int = 1, most: float = 1.0
) -> dict[str, Form]:
    """Of what is summed up in the end; ``totals`` are training, validation and test nodes, of which
    ``most`` times as many may be there.
    """
    nodes = [_at_most(total, most) for total in totals[1:]] * kinds
    return {kind: kind_form(kind, nodes) for kind in detail_kinds(settings)}


def _at_most(nodes: int, most: float) -> float:
    return most if math.isinf(most) else most * nodes


def with_objective(
    metrics: Metrics, settings: Any, sums: Mapping[str, Any], row: int = 0
) -> Metrics:
    """A round's metrics with the value that rounds compete by, if it is not the accuracy."""
    name = settings.objective
    kind = OBJECTIVES[name]
    if f"val_{kind}" not in sums:
        return metrics
    counts = from_units(kind, sums[f"val_{kind}"])[row]
    return metrics.judged_by(name, objective_value(name, counts))


def plain_sum(parts: Mapping[str, Mapping[str, Any]], prefix: str = "") -> dict[str, Any]:
    """The sum of clients' counts where the server sees each of them."""
    names = [f"{prefix}{kind}" for kind in COUNTED]
    first = next(iter(parts.values()))
    return {
        name: np.sum([part[name] for part in parts.values()], axis=0)
        for name in names
        if name in first
    }


def shapes(part: Mapping[str, Any]) -> Payload:
    """What counts a client gives, and of how many classes: the same at all clients."""
    return {name: list(np.shape(value)) for name, value in part.items() if np.ndim(value) > 2}


def objective_of(settings: Any, logits: Tensor, labels: Tensor, accuracy: float) -> float:
    """The objective of some predictions, whose accuracy is known, as they are."""
    kind = OBJECTIVES[settings.objective]
    if not kind:
        return accuracy
    counts = prediction_counts(fetch(logits), fetch(labels), [kind], settings.score_bins)
    return objective_value(settings.objective, counts[kind])


def split_figures(sums: Mapping[str, Any], kind: int = 0) -> dict[str, Any]:
    """Figures of validation and test nodes from summed counts, of one kind of weights."""
    counts = {name: from_units(name, sums[name]) for name in _AXES if name in sums}
    return {
        split: all_figures({name: values[row] for name, values in counts.items()})
        for row, split in enumerate(DETAILED, start=len(DETAILED) * kind)
    }


def detailed(
    outcome: Outcome,
    settings: Any,
    sums: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]],
    kind: int = 0,
) -> Outcome:
    """An outcome with all figures that follow from summed counts, and from each client's own where
    the server sees those ``parts``; a client's line does without the tables of its classes.
    """
    tables = ("classes", "confusion")
    lines = []
    for line in outcome.per_client:
        figures = split_figures(parts[line["name"]], kind) if line["name"] in parts else {}
        short = {
            split: {name: value for name, value in one.items() if name not in tables}
            for split, one in figures.items()
        }
        lines.append({**line, "metrics": short} if short else line)
    whole = split_figures(sums, kind)
    return replace(outcome, objective=settings.objective, metrics=whole, per_client=lines)
