"""Masked sums: parties lost at every phase, and what a party refuses."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from sum_network import SumNetwork, carry, draw, exact_sum

from autofgl.federation.payload import Payload, encode
from autofgl.secure import SecureSumError, SumRefused
from autofgl.secure.shares.masks import FRACTION_BITS

PHASES = ["keys", "roster", "group", "protect", "settle", "unmask"]


def expected(vectors: dict[str, Any], contributors: Any) -> Any:
    return exact_sum({name: vectors[name] for name in contributors}, FRACTION_BITS)


@pytest.mark.parametrize(
    ("lost_at", "contributors"),
    [
        ({}, "01234"),
        ({"p00": "protect"}, "1234"),
        ({"p01": "protect", "p04": "protect"}, "023"),
        ({"p01": "protect", "p02": "settle"}, "034"),
        ({"p03": "unmask"}, "01234"),
        ({"p03": "unmask", "p00": "unmask"}, "01234"),
        ({"p00": "protect", "p04": "unmask"}, "1234"),
        ({"p00": "keys", "p04": "unmask"}, "1234"),
        ({"p00": "roster", "p04": "protect"}, "123"),
        ({"p00": "group", "p01": "group"}, "234"),
        ({"p02": "group", "p01": "settle"}, "0134"),
    ],
)
@pytest.mark.parametrize("reveal", ["server", "parties"])
def test_lost_parties_do_not_lose_the_sum(
    lost_at: dict[str, str], contributors: str, reveal: str
) -> None:
    network = SumNetwork("shares", 5, threshold=3)
    network.lost_at = lost_at
    network.ready()
    vectors = draw(network.parties)
    names = [f"p0{digit}" for digit in contributors]
    if reveal == "server":
        total = network.server.total("t", network.contribute("t", vectors), network.ask)
        assert list(total.contributors) == names
        assert np.array_equal(total.vectors["w"], expected(vectors, names))
    else:
        for sums in network.shared_sum("t", vectors):
            assert np.array_equal(sums["w"], expected(vectors, names))
    again = draw(network.parties, seed=1)
    assert network.sum("next", again)["w"].shape == (40,)


@settings(max_examples=60, deadline=None)
@given(
    fates=st.lists(st.sampled_from([*PHASES, None, None, None]), min_size=2, max_size=7),
    share=st.floats(0, 1),
)
def test_any_losses_give_the_right_sum_or_an_error(fates: list[str | None], share: float) -> None:
    count = len(fates)
    threshold = 2 + round(share * (count - 2))
    network = SumNetwork("shares", count, threshold=threshold)
    network.lost_at = {
        name: fate for name, fate in zip(network.parties, fates, strict=True) if fate
    }
    vectors = draw(network.parties)
    try:
        network.ready()
        total = network.server.total("t", network.contribute("t", vectors), network.ask)
    except SecureSumError:
        assert count - len(network.lost_at) < threshold
        assert most_shares_seen(network) < threshold
        return
    faithful = [name for name in network.parties if name not in network.lost_at]
    assert set(faithful) <= set(total.contributors)
    assert len(total.contributors) >= threshold
    assert np.array_equal(total.vectors["w"], expected(vectors, total.contributors))
    assert not network.refusals


def most_shares_seen(network: SumNetwork) -> int:
    """The most shares of one party's self mask that the server received in the clear."""
    given = [message["shares"] for message in network.server_view if list(message) == ["shares"]]
    owners = {owner for shares in given for owner in shares}
    return max((sum(owner in shares for shares in given) for owner in owners), default=0)


@pytest.mark.parametrize(
    "lost_at",
    [
        {"p00": "protect", "p01": "protect", "p02": "protect"},
        {"p00": "protect", "p01": "settle", "p02": "settle"},
        {"p00": "unmask", "p01": "unmask", "p02": "unmask"},
        {"p00": "protect", "p01": "unmask", "p02": "unmask"},
    ],
)
def test_below_the_threshold_nothing_is_revealed(lost_at: dict[str, str]) -> None:
    network = SumNetwork("shares", 5, threshold=3).ready()
    network.lost_at = lost_at
    with pytest.raises(SecureSumError, match="needs"):
        network.sum("t", draw(network.parties))
    assert most_shares_seen(network) < 3


def test_setup_below_the_threshold_is_an_error() -> None:
    network = SumNetwork("shares", 4, threshold=3)
    network.lost_at = {"p00": "keys", "p03": "group"}
    with pytest.raises(SecureSumError, match=r"needs 3 parties, 2 are left; .*p00, p03"):
        network.ready()


def test_a_party_that_did_not_contribute_helps_to_unmask() -> None:
    network = SumNetwork("shares", 3, threshold=2).ready()
    vectors = draw(network.parties)
    contributions = network.contribute("t", {n: vectors[n] for n in ("p00", "p01")})
    network.lost_at = {"p01": "unmask"}
    total = network.server.total("t", contributions, network.ask)
    assert total.contributors == ("p00", "p01")
    assert np.array_equal(total.vectors["w"], expected(vectors, total.contributors))


def test_without_losses_one_phase_is_enough() -> None:
    network = SumNetwork("shares", 4).ready()
    network.asked.clear()
    network.sum("t", draw(network.parties))
    assert network.asked == ["unmask"]


class Opening:
    """A sum that is about to be opened, and the messages that would open it."""

    def __init__(self, tag: str = "t", network: SumNetwork | None = None) -> None:
        self.network = network or SumNetwork("shares", 4, threshold=2).ready()
        self.tag = tag
        self.sent = self.network.contribute(tag, draw(self.network.parties))

    def settle(self, party: str, lost: list[str], contributors: list[str]) -> Payload:
        message = {"tag": self.tag, "contributors": contributors, "lost": lost}
        return self.network.clients[party].handle("settle", carry(message))

    def unmask(self, party: str, contributors: list[str], **boxes: bytes) -> Payload:
        own = {name: self.sent[name]["shares"][party] for name in contributors if name != party}
        message = {"tag": self.tag, "contributors": contributors, "boxes": {**own, **boxes}}
        return self.network.clients[party].handle("unmask", carry(message))


def test_a_party_never_tells_both_masks_of_a_peer() -> None:
    first = Opening()
    first.settle("p00", ["p03"], ["p00", "p01", "p02"])
    with pytest.raises(SumRefused, match="will not tell its share"):
        first.unmask("p00", ["p00", "p01", "p03"])
    first.unmask("p00", ["p00", "p01", "p02"])
    second = Opening("u", first.network)
    second.unmask("p00", ["p00", "p01", "p02", "p03"])
    with pytest.raises(SumRefused, match="already unmasked"):
        second.settle("p00", ["p03"], ["p00", "p01", "p02"])


def test_a_party_unmasks_for_one_set_of_parties_only() -> None:
    opening = Opening()
    everyone = ["p00", "p01", "p02", "p03"]
    answer = opening.unmask("p01", everyone)
    assert opening.unmask("p01", everyone) == answer
    with pytest.raises(SumRefused, match="for other parties before"):
        opening.unmask("p01", everyone[:3])


def test_who_was_lost_stays_lost() -> None:
    opening = Opening()
    opening.settle("p00", ["p03"], ["p00", "p01", "p02"])
    with pytest.raises(SumRefused, match="lost and a contributor"):
        opening.settle("p00", ["p02"], ["p00", "p01", "p03"])
    opening.settle("p00", ["p02"], ["p00", "p01"])


@pytest.mark.parametrize(
    ("lost", "contributors", "why"),
    [
        (["p03"], ["p00"], "sums of 2 or more"),
        (["p03"], ["p00", "mallory"], "of the roster only"),
        (["p03"], ["p01", "p02"], "did not contribute"),
        (["p00"], ["p00", "p01"], "lost and a contributor"),
        (["mallory"], ["p00", "p01"], "shares no key"),
    ],
)
def test_bad_requests_to_settle(lost: list[str], contributors: list[str], why: str) -> None:
    with pytest.raises(SecureSumError, match=why):
        Opening().settle("p00", lost, contributors)


def test_a_party_does_not_help_to_open_too_small_a_sum() -> None:
    with pytest.raises(SumRefused, match="sums of 2 or more"):
        Opening().unmask("p00", ["p01"])


def test_a_party_that_did_not_contribute_settles_nothing() -> None:
    network = SumNetwork("shares", 3).ready()
    message = {"tag": "never", "contributors": ["p00", "p01"], "lost": ["p02"]}
    with pytest.raises(SumRefused, match="did not contribute"):
        network.clients["p00"].handle("settle", message)


def test_tampered_replayed_and_misdirected_shares_are_refused() -> None:
    earlier = Opening("earlier")
    opening = Opening("t", earlier.network)
    contributors = ["p00", "p01", "p02"]
    good = opening.sent["p01"]["shares"]["p00"]
    wrong = {
        "tampered": good[:-1] + bytes([good[-1] ^ 1]),
        "truncated": good[:20],
        "empty": b"",
        "replayed": earlier.sent["p01"]["shares"]["p00"],
        "for another": opening.sent["p01"]["shares"]["p02"],
        "of another": opening.sent["p02"]["shares"]["p00"],
        "of other keys": Opening("t").sent["p01"]["shares"]["p00"],
    }
    for box in wrong.values():
        with pytest.raises(SecureSumError, match="refuses a message of 'p01'"):
            opening.unmask("p00", contributors, p01=box)
    assert opening.unmask("p00", contributors)["shares"].keys() == set(contributors)


def test_one_tampered_box_does_not_lose_the_sum() -> None:
    network = SumNetwork("shares", 4, threshold=3).ready()

    def alter(phase: str, name: str, message: Payload) -> Payload:
        if phase == "unmask" and name == "p02":
            boxes = {sender: bytes(len(box)) for sender, box in message["boxes"].items()}
            return {**message, "boxes": boxes}
        return message

    network.alter = alter
    vectors = draw(network.parties)
    assert np.array_equal(network.sum("t", vectors)["w"], expected(vectors, network.parties))
    assert "tampered" in network.refusals[0]


def test_a_wrong_share_is_noticed() -> None:
    network = SumNetwork("shares", 3, threshold=2).ready()
    contributions = network.contribute("t", draw(network.parties))

    def ask(phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        answers = network.ask(phase, messages)
        share = answers["p00"]["shares"]["p02"]
        answers["p00"]["shares"]["p02"] = bytes([share[0] ^ 1]) + share[1:]
        return answers

    with pytest.raises(SecureSumError, match="a share of p02's mask is wrong"):
        network.server.total("t", contributions, ask)


def test_wrong_seeds_are_noticed() -> None:
    network = SumNetwork("shares", 3, threshold=2).ready()
    network.lost_at = {"p02": "protect"}
    contributions = network.contribute("t", draw(network.parties))

    def ask(phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        answers = network.ask(phase, messages)
        return {**answers, "p00": {"seeds": {}}}

    with pytest.raises(SecureSumError, match="p00 did not tell its masks with p02"):
        network.server.total("t", contributions, ask)


def test_a_sealed_sum_is_not_for_those_who_contributed_for_the_server() -> None:
    network = SumNetwork("shares", 3).ready()
    vectors = draw(network.parties)
    sealed = network.server.seal("t", network.contribute("t", vectors, "parties"), network.ask)
    network.contribute("u", vectors)
    with pytest.raises(SumRefused, match="for the server"):
        network.clients["p00"].open({**sealed, "tag": "u"})
    with pytest.raises(SecureSumError, match="not in the roster"):
        network.clients["p00"].open({**sealed, "contributors": ["p00", "mallory"]})
    with pytest.raises(SecureSumError, match="other keys"):
        network.clients["p00"].open({**sealed, "session": b"other"})


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_the_low_bits_under_the_group_mask_say_nothing(count: int) -> None:
    """With a power of two of contributors the lowest bits of the mask are zeros."""
    network = SumNetwork("shares", count).ready()
    seen = set()
    for step in range(12):
        vectors = {name: {"w": np.array([(step % 2) * 2.0**-40])} for name in network.parties}
        contributions = network.contribute(str(step), vectors, "parties")
        words = network.server.seal(str(step), contributions, network.ask)["words"]
        seen.add(int(words[0]) & (count - 1))
    assert seen == {0}


# Additive sharing needs every party, and gives nothing away before all have answered.


@pytest.mark.parametrize("phase", ["protect", "add"])
def test_a_lost_party_loses_the_sum(phase: str) -> None:
    network = SumNetwork("shares-additive", 3).ready()
    network.lost_at = {"p01": phase}
    with pytest.raises(SecureSumError, match=r"is lost with p01|needs contributions of 3"):
        network.sum("t", draw(network.parties))


@pytest.mark.parametrize("phase", ["keys", "roster", "group"])
def test_keys_need_every_party(phase: str) -> None:
    network = SumNetwork("shares-additive", 3)
    network.lost_at = {"p00": phase}
    with pytest.raises(SecureSumError, match="needs 3 parties"):
        network.ready()


def test_contributions_are_small_and_vectors_travel_once() -> None:
    network = SumNetwork("shares-additive", 3).ready()
    vectors = draw(network.parties, (10_000,))
    contributions = network.contribute("t", vectors)
    assert all(len(encode(sent)) < 1000 for sent in contributions.values())
    before = len(network.server_view)
    network.server.total("t", contributions, network.ask)
    assert sum(len(encode(seen)) for seen in network.server_view[before:]) < 3 * 81_000


def messages_for(network: SumNetwork, tag: str) -> dict[str, Payload]:
    sent = network.contribute(tag, draw(network.parties))
    return {
        name: {"tag": tag, "boxes": {p: s["shares"][name] for p, s in sent.items() if p != name}}
        for name in network.parties
    }


def test_bad_requests_are_refused() -> None:
    network = SumNetwork("shares-additive", 3).ready()
    old, new = messages_for(network, "old")["p00"], messages_for(network, "new")["p00"]
    client = network.clients["p00"]
    one_less = {**new, "boxes": {"p01": new["boxes"]["p01"]}}
    with pytest.raises(SumRefused, match="of all parties only"):
        client.handle("add", one_less)
    replayed = {**new, "boxes": {**new["boxes"], "p02": old["boxes"]["p02"]}}
    with pytest.raises(SecureSumError, match="refuses a message of 'p02'"):
        client.handle("add", carry(replayed))
    tampered = {**new, "boxes": {**new["boxes"], "p01": bytes(60)}}
    with pytest.raises(SecureSumError, match="refuses a message of 'p01'"):
        client.handle("add", carry(tampered))
    assert client.handle("add", carry(new))["words"].size == 40
    with pytest.raises(SumRefused, match="gave it before"):
        client.handle("add", carry(new))


def test_abandoned_sums_do_not_fill_the_memory() -> None:
    network = SumNetwork("shares-additive", 2).ready()
    first = messages_for(network, "first")["p00"]
    for step in range(8):
        network.contribute(f"abandoned-{step}", draw(network.parties))
    with pytest.raises(SumRefused, match="has no share of 'first'"):
        network.clients["p00"].handle("add", first)


def test_sealed_sums_of_other_keys_are_refused() -> None:
    network = SumNetwork("shares-additive", 2).ready()
    sent = network.contribute("t", draw(network.parties), "parties")
    sealed = network.server.seal("t", sent, network.ask)
    assert np.isfinite(network.clients["p00"].open(sealed)["w"]).all()
    with pytest.raises(SecureSumError, match="other keys"):
        network.clients["p00"].open({**sealed, "session": b""})
    network.contribute("u", draw(network.parties))
    with pytest.raises(SumRefused, match="for the server"):
        network.clients["p00"].open({**sealed, "tag": "u"})
