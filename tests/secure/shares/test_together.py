"""Parties that are only ever in a sum together: what the sums of a run differ by."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from sum_network import SECRET, SumNetwork, draw, exact_sum, names

from autofgl.errors import UserError
from autofgl.identity import GroupSecret
from autofgl.secure import SecureSumError, SumSettings, make_client, make_server
from autofgl.secure.shares.groups import groups_of, sets_of
from autofgl.secure.shares.masks import FRACTION_BITS

SETS = sets_of(tuple(names(8)), 2)


def set_of(name: str) -> tuple[str, ...]:
    return next(own for own in SETS if name in own)


@pytest.mark.parametrize(("count", "together"), [(8, 1), (8, 2), (9, 2), (7, 3), (3, 3), (50, 4)])
def test_sets_follow_from_the_names(count: int, together: int) -> None:
    given = SumSettings(tuple(names(count)), mode="shares", together=together)
    turned = SumSettings(tuple(reversed(names(count))), mode="shares", together=together)
    sets = [own for group in groups_of(given) for own in group.sets]
    assert sorted(name for own in sets for name in own) == names(count)
    assert all(together <= len(own) < 2 * together for own in sets)
    again = [own for group in groups_of(turned) for own in group.sets]
    assert {frozenset(own) for own in again} == {frozenset(own) for own in sets}


@pytest.mark.parametrize("phase", ["roster", "protect", "settle"])
def test_a_lost_party_takes_its_set_out_of_the_sum(phase: str) -> None:
    network = SumNetwork("shares", 8, together=2)
    lost = [SETS[0][0]] if phase != "settle" else [SETS[0][0], SETS[0][1]]
    network.lost_at = {lost[0]: phase, **dict.fromkeys(lost[1:], "protect")}
    network.ready()
    vectors = draw(network.parties)
    left = [name for name in network.parties if name not in SETS[0]]
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert list(total.contributors) == left
    own = {name: vectors[name] for name in left}
    assert np.array_equal(total.vectors["w"], exact_sum(own, FRACTION_BITS))


def test_who_is_lost_after_the_confirmations_stays_in_the_sum() -> None:
    network = SumNetwork("shares", 8, together=2)
    network.lost_at = {SETS[0][0]: "reveal"}
    network.ready()
    sent = network.contribute("t", draw(network.parties))
    assert len(network.server.total("t", sent, network.ask).contributors) == 8


@given(losses=st.lists(st.sets(st.sampled_from(names(8)), max_size=2), min_size=2, max_size=6))
@settings(max_examples=8, deadline=None)
def test_sums_differ_by_whole_sets(losses: list[set[str]]) -> None:
    """Over any rounds: what is lost in one is back in the next."""
    network = SumNetwork("shares", 8, together=2).ready()
    for number, lost in enumerate(losses):
        sent = network.contribute(f"t{number}", draw(network.parties))
        there = {name: one for name, one in sent.items() if name not in lost}
        try:
            total = network.server.total(f"t{number}", there, network.ask)
        except SecureSumError:
            assert len({name for one in lost for name in set_of(one)}) > 2
            continue
        out = set(network.parties) - set(total.contributors)
        assert out == {name for one in lost for name in set_of(one)}


def test_a_server_that_leaves_one_out_opens_nothing() -> None:
    """The very attack on sums of any parties, which works there, and is refused here."""
    victim = names(8)[3]
    for together in (1, 2):
        network = SumNetwork("shares", 8, together=together).ready()
        network.server._groups = groups_of(SumSettings(tuple(names(8))))  # type: ignore[attr-defined]
        vectors = draw(network.parties)
        first = network.sum("all", vectors)
        sent = network.contribute("but one", vectors)
        sent.pop(victim)
        if together == 1:
            rest = network.server.total("but one", sent, network.ask).vectors
            assert np.allclose(first["w"] - rest["w"], vectors[victim]["w"], atol=1e-6)
            continue
        with pytest.raises(SecureSumError):
            network.server.total("but one", sent, network.ask)
        assert any("whole sets" in why for why in network.refusals)


def test_a_set_adds_more_than_zeros_as_a_whole_or_not_at_all() -> None:
    network = SumNetwork("shares", 8, together=2).ready()
    vectors = draw(network.parties)
    sent = network.contribute("one", vectors, idle=[SETS[0][0]])
    with pytest.raises(SecureSumError):
        network.server.total("one", sent, network.ask)
    assert any("not all of them have anything to add" in why for why in network.refusals)
    sent = network.contribute("both", vectors, idle=SETS[0])
    assert len(network.server.total("both", sent, network.ask).contributors) == 8


def test_parties_of_other_terms_have_no_keys_in_common() -> None:
    """A server that tells some parties of no sets finds nobody who sums with those."""
    network = SumNetwork("shares", 8, together=2)
    identity: Any = GroupSecret("p00", SECRET)
    network.clients["p00"] = make_client(
        "shares", name="p00", parties=network.parties, identity=identity
    )
    network.ready()
    assert "p00" not in network.clients["p01"]._ring.roster  # type: ignore[attr-defined]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UserError, match="secure_together is for secure mode 'shares'"):
        make_server("ckks", parties=names(8), together=2)
    with pytest.raises(UserError, match="more than the 8 parties"):
        make_server("shares", parties=names(8), together=9)
