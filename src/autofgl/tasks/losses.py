"""What is minimized at labeled nodes: cross-entropy or the focal loss, with or without weights.

Notation: p_y the probability that a network gives to the right class y of a node, w_y the weight of
that class, n training nodes, n_c of class c, C classes.

- Cross-entropy: -log p_y.
- Focal loss (Lin et al., "Focal loss for dense object detection", 2017, Eq. 5): (1 - p_y)^γ times
  as much, so that nodes that are classified well count less.
- ``class_weight=balanced`` multiplies either by w_y = n / (C n_c), as scikit-learn does: all
  classes weigh the same, and w_y is 1 on average over the training nodes of all clients. A class
  without any weighs nothing.

A mean over nodes divides by their number and not by their weights: so the means of clients, weighed
by their training nodes, add up to that of all nodes together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class NodeLoss:
    """A loss of logits ``[n, C]`` at nodes with labels ``[n]``; no class weights: all are 1."""

    kind: str = "cross_entropy"
    gamma: float = 2.0
    class_weights: tuple[float, ...] = ()

    @classmethod
    def of(cls, settings: Any) -> "NodeLoss":
        """The one that settings ask for, before class weights are known."""
        return cls(settings.loss, settings.focal_gamma)

    def with_weights(self, class_weights: Sequence[float]) -> "NodeLoss":
        """The same with weights of the classes."""
        return replace(self, class_weights=tuple(map(float, class_weights)))

    @property
    def plain(self) -> bool:
        """Whether it is the cross-entropy and nothing else."""
        return self.kind == "cross_entropy" and not self.class_weights

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean over some nodes."""
        if self.plain:
            return F.cross_entropy(logits, labels)
        return self.each(logits, labels).mean()

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum over some nodes."""
        if self.plain:
            return F.cross_entropy(logits, labels, reduction="sum")
        return self.each(logits, labels).sum()

    def each(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of every node, ``[n]``."""
        losses = F.cross_entropy(logits, labels, reduction="none")
        if self.kind == "focal":
            # expm1: 1 - p is exact where p is near 1. The power has no slope at 0 if γ < 1.
            missing = (-torch.expm1(-losses)).clamp_min(torch.finfo(losses.dtype).tiny)
            losses = missing**self.gamma * losses
        if self.class_weights:
            losses = losses * losses.new_tensor(self.class_weights)[labels]
        return losses


def disagreement(passes: Sequence[Tensor]) -> Tensor:
    r"""Mean over nodes of how far the predictions of several passes ``[n, C]`` are from what they
    agree on (Feng et al., "Graph random neural networks for semi-supervised learning on graphs",
    2020, Eq. 4 to 6, with T = 1/2 and a mean over nodes as in the authors' code).

    With :math:`\bar{z}_{ic}` the mean over S passes of the probability of class c for node i,

    .. math::
        \frac{1}{S n} \sum_s \sum_i \lVert \bar{z}'_i - z_i^{(s)} \rVert^2, \quad
        \bar{z}'_{ic} = \bar{z}_{ic}^{1/T} \Big/ \sum_k \bar{z}_{ik}^{1/T}

    What they agree on is a constant in backpropagation.
    """
    predictions = torch.stack([logits.softmax(dim=1) for logits in passes])
    with torch.no_grad():
        sharpened = predictions.mean(0).square()
        sharpened /= sharpened.sum(dim=1, keepdim=True)
    return (predictions - sharpened).square().sum(dim=2).mean()


def distance_from(taught: Tensor, logits: Tensor) -> Tensor:
    r"""Mean over nodes of :math:`\mathrm{KL}(p \Vert q)`, with log p ``[n, C]`` what is taught and
    q the predictions: knowledge distillation (Hinton et al., "Distilling the knowledge in a neural
    network", 2015), at the temperature that the teacher is calibrated by.
    """
    return F.kl_div(F.log_softmax(logits, 1), taught, reduction="batchmean", log_target=True)


def balanced_weights(label_counts: Any) -> list[float]:
    """n / (C n_c) of each class from the numbers of training nodes n_c; 0 where there is none."""
    counts = np.asarray(label_counts, np.float64)
    shares = len(counts) * counts
    weights = np.divide(counts.sum(), shares, out=np.zeros_like(counts), where=shares > 0)
    return [float(weight) for weight in weights]


#: Temperatures by which logits are divided to compare networks by how well they could be
#: calibrated.
TEMPERATURES = tuple(float(one) for one in np.exp(np.linspace(-3.0, 1.5, 19)).round(4))


def tempered_losses(logits: Tensor, labels: Tensor, most: float) -> Any:
    """Summed cross-entropy of some nodes at every temperature, ``[T]``; at most so much a node.

    The least of the federation's sums is the loss after temperature scaling (Guo et al., "On
    calibration of modern neural networks", 2017). It does not depend on how sure of itself a
    network is, which decay and activations at the output change, and it varies less with the nodes
    than an accuracy does.
    """
    if not len(labels):
        return np.zeros(len(TEMPERATURES))
    return np.array([float(one.sum()) for one in _tempered(logits, labels, most)])


def calibrated_losses(logits: Tensor, labels: Tensor, most: float) -> Any:
    """Cross-entropy of each of some nodes at the temperature with the least sum, ``[n]``."""
    if not len(labels):
        return np.zeros(0)
    return min(_tempered(logits, labels, most), key=lambda one: float(one.sum())).numpy(force=True)


def _tempered(logits: Tensor, labels: Tensor, most: float) -> list[Tensor]:
    """Cross-entropy of every node, at every temperature."""
    sums = (F.cross_entropy(logits / one, labels, reduction="none") for one in TEMPERATURES)
    return [one.nan_to_num(most).clamp(max=most).double() for one in sums]
