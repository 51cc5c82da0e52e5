"""A name of a sum stands for one sum: new keys, new processes, the same ledgers."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork, draw

from autofgl.secure import SecureSumError, SumNotOpened, SumRefused

SECURE = ["ckks", "shares", "shares-additive"]


def network(mode: str, folder: Path, count: int = 5) -> SumNetwork:
    return SumNetwork(mode, count, folder, threshold=3).ready()


@pytest.mark.parametrize("mode", SECURE)
def test_a_resumed_run_gets_the_same_sum(mode: str, tmp_path: Path) -> None:
    vectors = draw(network(mode, tmp_path / "other").parties)
    first = network(mode, tmp_path).sum("t", vectors)
    again = network(mode, tmp_path)
    assert np.array_equal(again.sum("t", vectors)["w"], first["w"])
    assert again.sum("next", vectors)["w"].size == 40


@pytest.mark.parametrize("mode", SECURE)
def test_a_tag_never_serves_for_other_values(mode: str, tmp_path: Path) -> None:
    before = network(mode, tmp_path)
    vectors = draw(before.parties)
    before.contribute("t", vectors)
    client = network(mode, tmp_path).clients["p00"]
    for other in (
        {"w": vectors["p00"]["w"] + 1},
        {"w": vectors["p00"]["w"].reshape(4, 10)},
        {"v": vectors["p00"]["w"]},
    ):
        with pytest.raises(SumRefused, match="used the tag 't' before, for other values"):
            client.protect("t", other)
    with pytest.raises(SumRefused, match="for other values"):
        client.protect("t", vectors["p00"], reveal="parties")
    with pytest.raises(SumRefused, match="for other values"):
        client.protect("t", vectors["p00"], active=False)
    client.protect("t", vectors["p00"])


@pytest.mark.parametrize("phase", ["protect", "settle"])
def test_a_repeated_sum_is_of_the_same_parties(phase: str, tmp_path: Path) -> None:
    before = network("shares", tmp_path)
    vectors = draw(before.parties)
    before.lost_at = {"p01": "protect", "p03": phase}
    first = before.server.total("t", before.contribute("t", vectors), before.ask)
    assert first.contributors == ("p00", "p02", "p04")
    again = network("shares", tmp_path)
    total = again.server.total("t", again.contribute("t", vectors), again.ask)
    assert total.contributors == first.contributors
    assert np.array_equal(total.vectors["w"], first.vectors["w"])


@pytest.mark.parametrize("phase", ["protect", "settle"])
def test_a_repeated_sum_cannot_do_without_one_of_them(phase: str, tmp_path: Path) -> None:
    before = network("shares", tmp_path)
    vectors = draw(before.parties)
    before.lost_at = {"p01": "protect"}
    before.sum("t", vectors)
    again = network("shares", tmp_path)
    again.lost_at = {"p03": phase}
    with pytest.raises(SumNotOpened, match="'t' was begun with p03 and cannot"):
        again.sum("t", vectors)
    assert again.sum("next", vectors)["w"].size == 40


def test_a_sum_that_was_not_opened_can_be_tried_again(tmp_path: Path) -> None:
    """With the same contributors, also in the same session."""
    before = network("shares", tmp_path)
    vectors = draw(before.parties)
    sent = before.contribute("t", vectors)
    before.lost_at = dict.fromkeys(("p00", "p01", "p02"), "reveal")
    with pytest.raises(SumNotOpened, match="needs 3 parties, 2 answered; nothing was revealed"):
        before.server.total("t", sent, before.ask)
    before._gone.clear()
    before.lost_at = {}
    total = before.server.total("t", {**sent}, before.ask)
    assert total.contributors == tuple(before.parties)
    with pytest.raises(SumNotOpened, match="begun with p00"):
        before.server.total("t", {n: s for n, s in sent.items() if n != "p00"}, before.ask)


def test_a_client_without_the_others_ledgers_gets_nowhere(tmp_path: Path) -> None:
    """A server that lost its own ledger, or hides it, asks for other parties: nobody helps."""
    before = network("shares", tmp_path)
    vectors = draw(before.parties)
    before.sum("t", vectors)
    (tmp_path / "server").unlink()
    again = network("shares", tmp_path)
    again.lost_at = {"p00": "protect"}
    with pytest.raises(SecureSumError, match="nothing was revealed"):
        again.sum("t", vectors)
    assert all("confirmed other contributors" in why for why in again.refusals)


def test_ledgers_stay_small(tmp_path: Path) -> None:
    made = network("shares", tmp_path)
    for step in range(20):
        made.sum(f"stage-1-update-{step}", draw(made.parties, seed=step))
    for path in tmp_path.iterdir():
        assert path.stat().st_size < 20 * 260
