"""The losses against torch's own and against equations."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from autofgl.tasks.losses import NodeLoss, balanced_weights, disagreement, distance_from

LABELS = torch.tensor([0, 0, 0, 1, 1, 2])


def logits() -> torch.Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_without_anything_it_is_the_cross_entropy_to_the_last_bit() -> None:
    scores, loss = logits(), NodeLoss()
    assert torch.equal(loss.mean(scores, LABELS), F.cross_entropy(scores, LABELS))
    whole = F.cross_entropy(scores, LABELS, reduction="sum")
    assert torch.equal(loss.total(scores, LABELS), whole)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    counts = np.bincount(LABELS)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=LABELS.numpy())
    assert balanced_weights(counts) == pytest.approx(expected.tolist())
    assert balanced_weights([4, 0, 4]) == pytest.approx([2 / 3, 0, 2 / 3]), "nobody has class 1"
    assert balanced_weights([0, 0]) == [0, 0]


def test_weighted_means_of_clients_add_up_to_that_of_all_nodes() -> None:
    scores = logits()
    loss = NodeLoss().with_weights(balanced_weights(np.bincount(LABELS)))
    whole = F.cross_entropy(scores, LABELS, weight=torch.tensor(loss.class_weights))
    assert torch.allclose(loss.mean(scores, LABELS), whole)
    parts = [slice(0, 2), slice(2, 6)]
    shares = [len(LABELS[part]) / 6 * loss.mean(scores[part], LABELS[part]) for part in parts]
    assert torch.allclose(sum(shares), whole)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_focal_loss_is_equation_5(gamma: float) -> None:
    scores = logits()
    right = scores.softmax(1)[torch.arange(6), LABELS]
    weights = torch.tensor([1.0, 2.0, 3.0])
    loss = NodeLoss("focal", gamma).with_weights(weights.tolist())
    expected = weights[LABELS] * (1 - right) ** gamma * -right.log()
    assert torch.allclose(loss.each(scores, LABELS), expected, atol=1e-6)
    assert torch.allclose(loss.total(scores, LABELS), expected.sum(), atol=1e-6)


def test_a_node_that_is_surely_right_has_a_finite_gradient() -> None:
    scores = torch.tensor([[200.0, -200.0]], requires_grad=True)
    NodeLoss("focal", 0.5).mean(scores, torch.tensor([0])).backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_disagreement_is_equations_4_to_6_of_grand() -> None:
    passes = [torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [0.5, 0.0]])]
    total = 0.0
    for node in range(2):
        each = [np.exp(one[node].numpy()) / np.exp(one[node].numpy()).sum() for one in passes]
        mean = (each[0] + each[1]) / 2
        sharpened = mean**2 / (mean**2).sum()
        total += sum(((sharpened - one) ** 2).sum() for one in each)
    assert float(disagreement(passes)) == pytest.approx(total / (2 * 2), rel=1e-6)


def test_what_passes_agree_on_is_a_constant() -> None:
    first = torch.tensor([[1.0, -1.0]], requires_grad=True)
    second = torch.tensor([[0.0, 0.5]])
    disagreement([first, second]).backward()
    predictions = [one.detach().softmax(1) for one in (first, second)]
    target = ((predictions[0] + predictions[1]) / 2).square()
    target /= target.sum()
    again = first.detach().clone().requires_grad_()
    ((again.softmax(1) - target).square().sum() / 2).backward()
    torch.testing.assert_close(first.grad, again.grad)


def test_the_distance_from_a_teacher_is_the_mean_kullback_leibler_divergence() -> None:
    scores = logits()
    taught = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)).log_softmax(1)
    p, q = taught.exp().numpy(), scores.detach().softmax(1).numpy()
    expected = (p * np.log(p / q)).sum() / 6
    with torch.no_grad():
        assert float(distance_from(taught, scores)) == pytest.approx(expected, rel=1e-5)
        assert float(distance_from(scores.log_softmax(1), scores)) == pytest.approx(0, abs=1e-6)
