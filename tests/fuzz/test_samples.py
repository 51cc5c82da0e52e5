"""A small sample of each fuzzer; the fuzzers themselves are programs."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import codec
import damaged_folders


def test_hostile_messages() -> None:
    findings = codec.fuzz(1500, seed=0, bomb_size=1 << 14)
    assert not findings.wrong
    assert findings.counts["read"] > 50
    assert findings.counts["refused"] > 500


@pytest.mark.parametrize("name", ["empty dicts", "negative integers", "lists of lists"])
def test_a_large_bomb_takes_less_than_ten_times_its_size(name: str) -> None:
    data = dict(codec.bombs(1 << 17))[name]
    outcome, peak = codec._measured(data)
    assert outcome == "refused"
    assert peak < codec.FREE + codec.MOST * len(data)


def test_damaged_folders(tmp_path: Path) -> None:
    cases = damaged_folders.make_cases(tmp_path, ["fedavg"])
    counts, wrong = damaged_folders.fuzz(cases, 15, 3, tmp_path)
    assert not wrong
    assert counts["same weights"] + counts["same weights, from the checkpoint before"] > 3
    assert counts["one line"] > 3
