"""What a report says about a search."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from run_folders import page_of, write_run

from autofgl.report.sections.search import rank_correlations


def test_what_a_hyperparameter_has_to_do_with_the_score(tmp_path: Path) -> None:
    # lr rises with the score throughout, layers fall but for one swap, hidden never varies
    trials = [(0.01, 5, 0.2), (0.02, 3, 0.3), (0.03, 4, 0.4), (0.04, 2, 0.5), (0.05, 1, 0.6)]
    rows = [
        {"round": at, "trial": at, "score": score, "best_score": score,
         "hyper": {"a": {"lr": lr, "layers": layers}, "hidden": 8}}
        for at, (lr, layers, score) in enumerate(trials, 1)
    ]  # fmt: skip
    assert rank_correlations(rows) == pytest.approx({"a lr": 1.0, "a layers": -0.9})
    page = page_of(write_run(tmp_path / "run", rows))
    assert {"hyperparameters", "search"} <= set(page.ids)
    assert rank_correlations(rows[:4]) == {}
