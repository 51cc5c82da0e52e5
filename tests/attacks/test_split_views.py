"""Finding 1: a server that cheats told each client of `shares` another story of who is lost.

Every client checked its own story only. With an odd number of clients at the former threshold, a
majority, the server read every vector; with c colluding clients one vector whenever t <= (n + c +
1) / 2. Now a client tells nothing before t clients confirm its own story, and c < 2t - n is safe.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "secure" / "shares"))
from hostile import HostileServer
from stories import Storyteller

from autofgl.errors import AutoFGLError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.graphs.client_graph import ClientGraph
from autofgl.secure import SumSettings
from autofgl.secure.shares.masks import Words
from families import family
from federations import make, rounds

SIZES = family(range(3, 31), (*range(3, 13), 20, 30))


def vectors_of(server: HostileServer, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=3) for name in server.parties}


def attacked(
    count: int, threshold: int | None = None, colluders: int = 0, **given: int
) -> tuple[HostileServer, dict[str, np.ndarray]]:
    server = HostileServer(count, threshold, colluders, **given)
    vectors = vectors_of(server)
    server.contribute("t", vectors)
    return server, vectors


def reads(server: HostileServer, vectors: Mapping[str, np.ndarray]) -> dict[frozenset[str], float]:
    """What the server can read, and how far what it really gets is from that."""
    words = Words(SumSettings(tuple(server.parties))).fixed_point["server"]
    found = {}
    for part in server.readable("t"):
        got = words.decode(server.read("t", part).view(np.int64))
        found[part] = float(np.abs(got - sum(vectors[name] for name in part)).max())
    return found


def thresholds(count: int) -> list[int]:
    """All that are allowed, of many clients the least, the usual and the most."""
    allowed = range(count // 2 + 1, count + 1)
    return list(allowed) if count < 13 else [allowed[0], 2 * count // 3 + 1, count - 1]


def tell_everybody_another_story(server: HostileServer, tag: str = "t") -> None:
    """Client i hears that the clients after it are lost, as many as its threshold allows."""
    count = len(server.parties)
    most = count - server.clients[server.parties[0]]._threshold
    views = {}
    for index, name in enumerate(server.parties):
        lost = {server.parties[(index + step) % count] for step in range(1, most + 1)}
        views[name] = [peer for peer in server.parties if peer not in lost]
        server.settle(name, tag, lost)
    for name in server.honest:
        server.confirm(name, tag, views[name])
    for view in views.values():
        server.forge(tag, view)
    for name in server.honest:
        server.reveal(name, tag, views[name])


@pytest.mark.parametrize("count", SIZES)
def test_a_story_for_everybody(count: int) -> None:
    for threshold in thresholds(count):
        server, _ = attacked(count, threshold)
        tell_everybody_another_story(server)
        if threshold < count:
            assert server.readable("t") == set()
            assert all("parties confirm its contributors" in why for why in server.refusals)
            assert len(server.refusals) == count
        else:  # nobody can be called lost: there is one story
            assert server.readable("t") == {frozenset(server.parties)}


def two_camps(server: HostileServer, victim: str) -> None:
    """Some hear that the victim contributed, the others that it is lost.

    The first would tell its self mask, the second its masks with them. Colluders confirm both.
    """
    threshold = server.clients[victim]._threshold
    everybody = list(server.parties)
    others = [name for name in server.parties if name != victim]
    first = [victim, *(name for name in server.honest if name != victim)]
    first = first[: max(1, threshold - len(server.evil))]
    second = [name for name in server.honest if name not in first]
    for name in others:
        server.settle(name, "t", [victim])
    for name in first:
        server.confirm(name, "t", everybody)
    for name in second:
        server.confirm(name, "t", others)
    for view in (everybody, others):
        server.forge("t", view)
    for name in first:
        server.reveal(name, "t", everybody)
    for name in second:
        server.reveal(name, "t", others)


@pytest.mark.parametrize("count", SIZES)
def test_two_camps_with_as_many_colluders_as_are_safe(count: int) -> None:
    for threshold in thresholds(count):
        colluders = min(2 * threshold - count - 1, count - 2)
        server, vectors = attacked(count, threshold, colluders)
        two_camps(server, server.honest[0])
        assert set(reads(server, vectors)) <= {frozenset(server.honest)}


@pytest.mark.parametrize(("count", "threshold"), [(3, 2), (5, 3), (7, 5), (10, 7), (10, 6)])
def test_the_bound_is_tight(count: int, threshold: int) -> None:
    """With one colluder more the same attack reads the victim's vector: it is the real attack."""
    server, vectors = attacked(count, threshold, 2 * threshold - count)
    victim = server.honest[0]
    two_camps(server, victim)
    found = reads(server, vectors)
    assert found[frozenset([victim])] < 1e-9


@pytest.mark.parametrize("count", [31, 40, 51])
def test_groups_are_no_easier(count: int) -> None:
    server = HostileServer(count)
    server.contribute("t", vectors_of(server))
    for name in server.parties:
        group = server.clients[name]._group
        index = group.members.index(name)
        after = group.members[index + 1 :] + group.members[:index]
        lost = after[: len(group.members) - group.threshold]
        view = [peer for peer in group.members if peer not in lost]
        assert server.settle(name, "t", lost)
        assert server.confirm(name, "t", view)
        assert not server.reveal(name, "t", view)
        # a client confirms nothing about other groups
        assert not server.confirm(name, "u", server.parties)


def honest_sum(server: HostileServer, tag: str, contributors: list[str]) -> int:
    """An ordinary sum; how many clients tell their shares."""
    lost = [name for name in server.parties if name not in contributors]
    for name in contributors if lost else ():
        server.settle(name, tag, lost)
    for name in contributors:
        server.confirm(name, tag, contributors)
    return sum(server.reveal(name, tag, contributors) for name in contributors)


@pytest.mark.parametrize("count", [4, 5, 9])
def test_old_confirmations_are_worth_nothing(count: int) -> None:
    server, vectors = attacked(count)
    everybody = server.parties
    assert honest_sum(server, "t", everybody) == count
    old = server.of("t").codes[tuple(everybody)]
    replays = {
        "of another tag": old,
        "of itself": {name: {everybody[0]: old[everybody[0]].get(name, b"")} for name in everybody},
        "of one client for all": dict.fromkeys(everybody, old[everybody[1]]),
        "empty": {name: {everybody[0]: b""} for name in everybody},
    }
    for what, codes in replays.items():
        server.contribute(what, vectors)
        assert not server.reveal(everybody[0], what, everybody, codes=codes)
        assert server.readable(what) == set()
    # the same name, for the clients to read instead of the server
    server.contribute("u", vectors, reveal="parties")
    codes = server.of("u").codes[tuple(everybody)]
    view = {**server.view("u", everybody), "header": server.view("t", everybody)["header"]}
    assert server._ask(everybody[0], "confirm", view) is None
    assert not server.reveal(everybody[0], "u", everybody, codes=codes)


def test_stories_over_several_tags_do_not_add_up() -> None:
    """The server asks for the victim's self mask under one name, for its masks under another."""
    server, vectors = attacked(7, 4)
    server.contribute("u", vectors)
    victim, others = server.parties[0], server.parties[1:]
    assert honest_sum(server, "t", server.parties) == 7
    assert honest_sum(server, "u", others) == 6
    assert server.readable("t") == {frozenset(server.parties)}
    assert server.readable("u") == {frozenset(others)}
    # two sums of the same vectors: what a caller must never ask for, since their difference tells
    words = Words(SumSettings(tuple(server.parties))).fixed_point["server"]
    difference = server.read("t", server.parties) - server.read("u", others)
    assert np.abs(words.decode(difference.view(np.int64)) - vectors[victim]).max() < 1e-9


@pytest.mark.parametrize("again", ["rekey", "restart"])
def test_a_tag_is_bound_over_restarts(again: str, tmp_path: Path) -> None:
    server = HostileServer(5, folder=tmp_path)
    vectors = vectors_of(server)
    server.contribute("t", vectors)
    everybody, others = server.parties, server.parties[1:]
    assert honest_sum(server, "t", everybody) == 5
    first = server.read("t", everybody)
    getattr(server, again)()
    server.contribute("t", {name: vector + 1 for name, vector in vectors.items()})
    assert len(server.refusals) == 5
    assert "used the tag 't' before, for other values" in server.refusals[0]
    server.contribute("t", vectors)
    assert len(server.of("t").sent) == 5
    assert honest_sum(server, "t", others) == 0
    assert server.readable("t") == set()
    # an exact resume asks for the same sum again, and learns nothing new
    assert honest_sum(server, "t", everybody) == 5
    assert np.array_equal(server.read("t", everybody), first)
    ledgers = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert len(ledgers) < 5 * 250
    for client in server.clients.values():
        assert client._ring.session.hex().encode() not in ledgers


def test_a_confirmed_view_binds_even_if_the_sum_was_never_opened(tmp_path: Path) -> None:
    server = HostileServer(5, folder=tmp_path)
    vectors = vectors_of(server)
    server.contribute("t", vectors)
    for name in server.parties:
        assert server.confirm(name, "t", server.parties)
    server.restart()
    server.contribute("t", vectors)
    assert honest_sum(server, "t", server.parties[1:]) == 0
    assert honest_sum(server, "t", server.parties) == 5


def test_zeros_do_not_hide_a_sum_of_one() -> None:
    """The server has all but the victim contribute zeros."""
    server = HostileServer(5)
    vectors = {name: np.zeros(3) for name in server.parties} | {"p00": np.ones(3)}
    server.contribute("t", vectors, idle=server.parties[1:])
    assert honest_sum(server, "t", server.parties) == 0
    assert "contribute more than zeros, 't' has 1" in server.refusals[0]


class _Splitting(Storyteller, InProcess):
    """An engine whose coordinator cheats."""


def test_a_coordinator_that_tells_stories_gets_nothing(small_clients: list[ClientGraph]) -> None:
    """Three clients at the threshold of the first version, which gave every vector away."""
    method = make(
        "fedavg", small_clients, secure="shares", secure_threshold=2, rounds=2, engine=_Splitting
    )
    with pytest.raises(AutoFGLError, match="needs 2 parties, 0 answered; nothing was revealed"):
        rounds(method, 1)
    assert method.federation.told == []
    assert all("when 2 parties confirm its contributors" in why for why in method.federation.why)
    assert len(method.federation.why) == 3
