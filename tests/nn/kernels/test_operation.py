"""Without torch's private names everything is the same, but for constants made in a transform."""

import importlib.util
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from autofgl.nn.kernels import operation
from autofgl.nn.models.networks import build_network
from autofgl.nn.models.spec import ModelSpec
from autofgl.nn.structure import Structure

EDGES = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
PRIVATE = ("_plain_mode", "_in_transform", "_unwrapped")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as it is imported with a torch that has none of the names."""
    spec = importlib.util.spec_from_file_location("bare_operation", operation.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "_C", SimpleNamespace(Generator=torch.Generator))
        patch.setattr(torch, "func", SimpleNamespace())
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def without_names(bare: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """All operations use what is there instead."""
    for name in PRIVATE:
        assert getattr(operation, name) is not getattr(bare, name), name
        monkeypatch.setattr(operation, name, getattr(bare, name))


def step(family: str) -> list[Tensor]:
    """Scores and gradients of a training step, and the scores of an evaluation."""
    network = build_network(
        ModelSpec(family=family, in_features=4, classes=3, hidden=8, dropout=0.2),
        torch.Generator().manual_seed(0),
    )
    x, structure = torch.arange(12.0).reshape(3, 4) / 12, Structure(EDGES, 3)
    scores = network(x, structure, generator=torch.Generator().manual_seed(1))
    functional.cross_entropy(scores, torch.arange(3)).backward()
    with torch.inference_mode():
        evaluated = network.eval()(x, Structure(EDGES, 3))
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    return [scores.detach(), evaluated.clone(), *gradients]


EXPECTED = {family: step(family) for family in ("gcn", "gat", "sage")}


@pytest.mark.usefixtures("without_names")
@pytest.mark.parametrize("family", EXPECTED)
def test_training_is_the_same(family: str) -> None:
    for got, want in zip(step(family), EXPECTED[family], strict=True):
        assert torch.equal(got, want)


@pytest.mark.usefixtures("without_names")
def test_structures_made_before_a_transform_work_in_it() -> None:
    structure = Structure(EDGES, 3)
    _ = structure.gcn.csr, structure.gcn.T  # laid out outside
    got = torch.func.grad(lambda x: (structure.gcn @ x).square().sum())(torch.ones(3, 2))
    x = torch.ones(3, 2, requires_grad=True)
    (structure.gcn @ x).square().sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(got, x.grad)


def test_the_fallbacks_are_what_they_say(bare: ModuleType) -> None:
    assert bare._plain_mode is nullcontext
    assert bare._in_transform() is True
    tensor = torch.ones(2)
    assert bare._unwrapped(tensor) is tensor
    with torch.inference_mode(), bare.constants():
        assert not torch.ones(2).is_inference()


def test_no_other_module_uses_private_names() -> None:
    import autofgl

    assert "autofgl.nn.kernels.operation" in sys.modules
    from pathlib import Path

    for path in Path(autofgl.__file__).parent.rglob("*.py"):
        assert "torch._C." not in path.read_text(), path
