"""The ledger: what it keeps over restarts, and what it says of a damaged file."""

import tracemalloc
from pathlib import Path

import pytest

from autofgl.secure import SecureSumError
from autofgl.secure.ledger import Ledger


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_first_note_counts(tmp_path: Path, on_disk: bool) -> None:
    ledger = Ledger(tmp_path / "made" / "ledger" if on_disk else None)
    assert ledger.get("t", "view") is None
    assert ledger.note("t", "view", "one") == "one"
    assert ledger.note("t", "view", "two") == "one"
    assert ledger.note("t", "vectors", "three") == "three"
    assert ledger.get("t", "view") == "one"


def test_notes_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for tag in ("a", "b\nc", "d é \x00"):
        Ledger(path).note(tag, "view", tag.upper())
    again = Ledger(path)
    assert [again.get(tag, "view") for tag in ("a", "b\nc", "d é \x00")] == [
        "A",
        "B\nC",
        "D É \x00",
    ]
    assert again.note("a", "view", "other") == "A"
    assert path.stat().st_size < 3 * 100


def test_a_line_that_a_crash_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.note("a", "view", "one")
    whole = path.stat().st_size
    ledger.note("b", "view", "two")
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        again = Ledger(path)
        assert again.get("a", "view") == "one"
        assert again.get("b", "view") is None
        again.note("b", "view", "three")
        assert Ledger(path).get("b", "view") == "three"


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    for tag in "abc":
        ledger.note(tag, "view", "one")
    data = path.read_bytes()
    for at in range(len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(SecureSumError, match=r"ledger is damaged in line \d: restore it"):
            Ledger(path)
    path.write_bytes(data[:1] + data[2:])
    with pytest.raises(SecureSumError, match="damaged in line 1"):
        Ledger(path)


def test_a_ledger_that_cannot_be_written_stops_the_sum(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = Ledger(tmp_path / "file" / "ledger")
    with pytest.raises(SecureSumError, match="cannot be written"):
        ledger.note("t", "view", "one")
    assert ledger.get("t", "view") is None
    (tmp_path / "folder").mkdir()
    with pytest.raises(SecureSumError, match="cannot be read"):
        Ledger(tmp_path / "folder")


@pytest.mark.parametrize("on_disk", [True, False])
def test_memory_does_not_grow_with_the_sums(tmp_path: Path, on_disk: bool) -> None:
    """A run may have any number of rounds; 2,000 notes in a dict took some 700 KB."""
    ledger = Ledger(tmp_path / "ledger" if on_disk else None)
    ledger.note("update-0", "vectors", "0" * 64)
    tracemalloc.start()
    try:
        for number in range(1, 2001):
            ledger.note(f"update-{number}", "vectors", f"{number:064}")
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000
    assert ledger.get("update-1", "vectors") == f"{1:064}"
    assert repr(ledger) == "Ledger(2001 notes)"
    assert ledger._notes._base.execute("PRAGMA cache_size").fetchone() == (64,)
