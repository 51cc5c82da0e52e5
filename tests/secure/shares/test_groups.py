"""Beyond 30 parties sums are made in groups."""

import sys
from pathlib import Path

import numpy as np
import pytest

from families import family

sys.path.insert(0, str(Path(__file__).parents[1]))
from sum_network import SumNetwork, draw, exact_sum, names

from autofgl.errors import UserError
from autofgl.federation.payload import encoded_size
from autofgl.secure import SecureSumError, SumSettings
from autofgl.secure.shares.groups import groups_of
from autofgl.secure.shares.masks import FRACTION_BITS


def settings(count: int, threshold: int | None = None) -> SumSettings:
    return SumSettings(tuple(names(count)), threshold)


@pytest.mark.parametrize("count", [2, 3, 17, 30, 31, 32, 39, 40, 59, 61, 100, 299, 1000])
def test_groups_cover_all_parties_and_are_of_a_size(count: int) -> None:
    groups = groups_of(settings(count))
    assert sorted(name for group in groups for name in group.members) == sorted(names(count))
    sizes = [len(group.members) for group in groups]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= 30
    assert count <= 30 or min(sizes) >= 15
    assert (len(groups) == 1) == (count <= 30)
    for group in groups:
        assert 2 * group.threshold > len(group.members)
        assert group.threshold == 2 * len(group.members) // 3 + 1
    assert sum(group.threshold for group in groups) >= 2 * count // 3 + 1


def test_groups_follow_from_the_names_alone() -> None:
    assert groups_of(settings(50)) == groups_of(settings(50))
    turned = SumSettings(tuple(reversed(names(50))))
    ours = {frozenset(group.members) for group in groups_of(settings(50))}
    assert {frozenset(group.members) for group in groups_of(turned)} == ours
    assert sum(len(set(a.members) & set(names(25))) for a in groups_of(settings(50))[:1]) < 25


@pytest.mark.parametrize("threshold", [26, 34, 45, 50])
def test_a_threshold_is_shared_among_the_groups(threshold: int) -> None:
    groups = groups_of(settings(50, threshold))
    assert sum(group.threshold for group in groups) >= threshold
    for group in groups:
        assert len(group.members) // 2 < group.threshold <= len(group.members)


def lose(network: SumNetwork, group: int, count: int, phase: str) -> list[str]:
    members = groups_of(settings(len(network.parties)))[group].members
    network.lost_at |= dict.fromkeys(members[:count], phase)
    return list(members)


@pytest.mark.parametrize("reveal", ["server", "parties"])
@pytest.mark.parametrize("phase", ["", "protect", "settle", "confirm", "reveal"])
def test_sums_of_groups_add_up(phase: str, reveal: str) -> None:
    network = SumNetwork("shares", 45).ready()
    lose(network, 0, 3, phase)
    lose(network, 1, 1, "protect")
    vectors = draw(network.parties)
    lost = [n for n, when in network.lost_at.items() if when in ("protect", "settle")]
    left = {name: vectors[name] for name in network.parties if name not in lost}
    if phase == "settle":  # nobody was lost in the first group before: there is nothing to settle
        left = {n: own for n, own in vectors.items() if network.lost_at.get(n) != "protect"}
    expected = exact_sum(left, FRACTION_BITS)
    if reveal == "server":
        total = network.server.total("t", network.contribute("t", vectors), network.ask)
        assert total.contributors == tuple(left)
        assert np.array_equal(total.vectors["w"], expected)
    else:
        for sums in network.shared_sum("t", vectors):
            assert np.array_equal(sums["w"], expected)


@pytest.mark.parametrize("phase", family(["protect", "confirm", "reveal"], ["confirm"]))
def test_a_group_below_its_threshold_is_lost_and_the_others_go_on(phase: str) -> None:
    network = SumNetwork("shares", 90).ready()
    members = lose(network, 2, 8, phase)
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    left = {name: own for name, own in vectors.items() if name not in members}
    assert total.contributors == tuple(left)
    assert np.array_equal(total.vectors["w"], exact_sum(left, FRACTION_BITS))
    assert total.wrong == ()


def test_too_few_of_all_are_an_error() -> None:
    network = SumNetwork("shares", 60).ready()
    lose(network, 0, 8, "confirm")
    lose(network, 1, 8, "confirm")
    with pytest.raises(SecureSumError, match="needs 14 parties, 12 answered"):
        network.sum("t", draw(network.parties))


@pytest.mark.slow
def test_a_repeated_sum_of_groups_is_the_same(tmp_path: Path) -> None:
    """Also if a group dropped out after it was begun."""
    before = SumNetwork("shares", 90, tmp_path).ready()
    members = lose(before, 2, 8, "reveal")
    vectors = draw(before.parties)
    first = before.server.total("t", before.contribute("t", vectors), before.ask)
    assert not set(first.contributors) & set(members)
    again = SumNetwork("shares", 90, tmp_path).ready()
    total = again.server.total("t", again.contribute("t", vectors), again.ask)
    assert total.contributors == first.contributors
    assert np.array_equal(total.vectors["w"], first.vectors["w"])


def test_sums_for_the_parties_have_another_mask_in_each_group() -> None:
    """Else the difference of two groups' sums would be free of it."""
    network = SumNetwork("shares", 60).ready()
    same = {name: {"w": np.zeros(4)} for name in network.parties}
    sent = network.contribute("t", same, "parties")
    keys = {network.clients[n]._mask(g, "t") for g in groups_of(settings(60)) for n in g.members}  # type: ignore[attr-defined]
    assert len(keys) == 3
    assert len(sent) == 60


def test_bytes_of_a_party_do_not_grow_with_the_parties() -> None:
    def up_and_down(count: int) -> float:
        network = SumNetwork("shares", count).ready()
        network.server_view.clear()
        network.sum("t", draw(network.parties))
        return sum(map(encoded_size, network.server_view)) / count

    sizes = {count: up_and_down(count) for count in (30, 60, 80)}
    assert sizes[60] <= sizes[30]
    assert sizes[80] == pytest.approx(sizes[60], rel=0.02)


def test_the_fewest_parties_hold_in_every_group() -> None:
    with pytest.raises(UserError, match="wants sums of 21 or more parties"):
        SumNetwork("shares", 60, min_parties=21)
    network = SumNetwork("shares", 90, min_parties=20).ready()
    members = lose(network, 1, 4, "protect")
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert not set(total.contributors) & set(members)
