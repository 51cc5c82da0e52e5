"""Hyperparameters of single clients, and the joint space of all."""

from typing import Any

import pytest

from autofgl.errors import UserError
from autofgl.methods.asfgnn.settings import (
    ASFGNNSettings,
    SFGNNSettings,
    by_client,
    hyper_parameters,
    joint_space,
)
from autofgl.search.genes import Float, Integer, LogFloat, Ordinal


def test_hyper_parameters_of_single_clients() -> None:
    settings = SFGNNSettings(per_client="b layers=4 lr=0.5; a dropout=0")
    found = hyper_parameters(settings, ["a", "b"])
    assert found["a"]["dropout"] == 0
    assert found["a"]["layers"] == 2
    assert found["b"] == {
        "dropout": 0.5, "weight_decay": 5e-4, "layers": 4, "lr": 0.5, "hidden": 64,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("c layers=4", "client in per_client"),
        ("a hidden=4", "not key=value"),
        ("a layers", "not key=value"),
        ("a layers=0", "greater than or equal"),
    ],
)
def test_mistakes_in_per_client_are_named(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        hyper_parameters(SFGNNSettings(per_client=text), ["a", "b"])


def test_the_joint_space_has_genes_of_every_client_and_one_width() -> None:
    genes = {gene.name: gene for gene in joint_space(ASFGNNSettings(), ["a", "b"]).genes}
    own = [f"{c}.{name}" for c in "ab" for name in ("dropout", "weight_decay", "layers", "lr")]
    assert list(genes) == [*own, "hidden"]
    assert genes["a.dropout"] == Float("a.dropout", 0.0, 0.6)
    assert genes["b.lr"] == LogFloat("b.lr", 5e-4, 2e-2)
    assert genes["b.layers"] == Integer("b.layers", 1, 5)
    assert genes["hidden"] == Ordinal("hidden", (64, 128, 256, 512))


def test_the_paper_s_grid() -> None:
    settings = ASFGNNSettings(
        searcher="grid", tune_dropout="0,0.5", tune_weight_decay="0,5e-4,1e-3,5e-3,1e-2",
        tune_layers="1..5", tune_lr="5e-4,1e-3,5e-3,1e-2",
    )  # fmt: skip
    assert joint_space(settings, ["a", "b"]).size == (2 * 5 * 5 * 4) ** 2 * 4
    assert joint_space(settings.model_copy(update={"joint": False}), ["a", "b"]).size == 800


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"tune_lr": "1e-3..1e-2 cubic"}, "no scale"),
        ({"tune_lr": "fast"}, "tune_lr='fast'"),
        ({"tune_layers": "0..3"}, "greater than or equal"),
        ({"tune_dropout": "0.9..0.1"}, "low <= high"),
        ({"searcher": "grid"}, "needs lists"),
        (
            dict.fromkeys(
                ["tune_lr", "tune_layers", "tune_dropout", "tune_weight_decay", "tune_hidden"], ""
            ),
            "nothing is tuned",
        ),
    ],
)
def test_mistakes_in_the_space_are_named(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        joint_space(ASFGNNSettings(**settings), ["a", "b"])


def test_what_is_not_tuned_is_as_it_was_set() -> None:
    fixed = {name: {"lr": 0.1, "layers": 2, "hidden": 8} for name in "ab"}
    found = by_client({"a.lr": 0.5, "hidden": 16}, fixed)
    assert found["a"] == {"lr": 0.5, "layers": 2, "hidden": 16}
    assert found["b"] == {"lr": 0.1, "layers": 2, "hidden": 16}
    assert by_client({"lr": 0.7}, fixed)["b"]["lr"] == 0.7
