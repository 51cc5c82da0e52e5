"""Should a client join? Its own test nodes answer."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from checker import check_page
from run_folders import page_of, write_run

from autofgl.report.sections.joining import answer_for, join_page


def line(low: float, high: float, **more: Any) -> dict[str, Any]:
    middle = (low + high) / 2
    whole = {
        "name": "bank", "train": 20, "val": 40, "test": 40, "val_accuracy": 0.9,
        "test_accuracy": 0.8, "alone_val_accuracy": 0.85, "alone_test_accuracy": 0.8 - middle,
        "gain": middle, "gain_val": 0.05, "gain_low": low, "gain_high": high,
    }  # fmt: skip
    return {**whole, **more}


@pytest.mark.parametrize(
    ("ends", "answer", "said"),
    [
        ((0.02, 0.1), "yes", "+6.0 points (95 % interval +2.0 to +10.0)"),
        ((-0.1, -0.02), "no", "better off alone"),
        ((-0.02, 0.03), "open", "no clear difference"),
    ],
)
def test_the_interval_decides(ends: tuple[float, float], answer: str, said: str) -> None:
    judged = answer_for(line(*ends))
    assert judged is not None
    assert judged.answer == answer
    assert said in judged.sentence


def test_who_was_not_compared_has_no_verdict() -> None:
    assert answer_for({"name": "bank", "test_accuracy": 0.5}) is None
    assert join_page({"name": "bank"}, "fedavg") is None
    judged = answer_for(line(-0.1, 0.1, test=0))
    assert judged is not None
    assert "no test nodes" in judged.sentence


def test_a_clients_page_stands_alone() -> None:
    common = {"common_val_accuracy": 0.9, "common_test_accuracy": 0.79, "over_common_val": 0.0}
    common |= {"over_common": 0.01, "over_common_low": -0.01, "over_common_high": 0.03}
    text = join_page(line(0.02, 0.1, **common), "fedavg, secure sums shares")
    assert text is not None
    page = check_page(text)
    assert "bank: should I join?" in page.text
    assert "fedavg, secure sums shares. Labeled nodes: 20 train, 40 val, 40 test." in page.text
    assert "-1.0 to +3.0" in page.text


def test_the_report_counts_answers(tmp_path: Path) -> None:
    lines = [line(0.02, 0.1), line(-0.02, 0.03, name="shop")]
    page = page_of(write_run(tmp_path / "run", per_client=lines, test_accuracy=0.8))
    assert "1 of 2 clients gain clearly over training alone, 0 lose clearly" in page.text
    assert "gain low" not in page.text, "it is not among the clients' sizes too"


def test_with_secure_sums_the_report_only_counts(tmp_path: Path) -> None:
    counts = {"clients_better": 2, "clients_same": 0, "clients_worse": 1}
    page = page_of(write_run(tmp_path / "run", test_accuracy=0.8, **counts))
    assert "2 clients are better than alone, 0 the same, 1 worse" in page.text
