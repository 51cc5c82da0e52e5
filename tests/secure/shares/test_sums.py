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

from autofgl.errors import UserError
from autofgl.federation.payload import Payload, encode
from autofgl.secure import Ask, SecureSumError, SumNotOpened, SumRefused, SumSettings
from autofgl.secure.contributions import Header, Layout
from autofgl.secure.shares.groups import threshold_of
from autofgl.secure.shares.masks import FRACTION_BITS

PHASES = ["keys", "roster", "group", "protect", "settle", "confirm", "reveal"]


def expected(vectors: dict[str, Any], contributors: Any) -> Any:
    return exact_sum({name: vectors[name] for name in contributors}, FRACTION_BITS)


@pytest.mark.parametrize(
    ("lost_at", "contributors"),
    [
        ({}, "01234"),
        ({"p00": "protect"}, "1234"),
        ({"p01": "protect", "p04": "protect"}, "023"),
        ({"p01": "protect", "p02": "settle"}, "034"),
        ({"p01": "protect", "p02": "confirm"}, "0234"),
        ({"p01": "protect", "p02": "reveal"}, "0234"),
        ({"p02": "confirm", "p03": "reveal"}, "01234"),
        ({"p03": "reveal"}, "01234"),
        ({"p03": "reveal", "p00": "reveal"}, "01234"),
        ({"p00": "keys", "p04": "reveal"}, "1234"),
        ({"p00": "roster", "p04": "protect"}, "123"),
        ({"p00": "group", "p01": "group"}, "234"),
        ({"p02": "group", "p01": "confirm"}, "0134"),
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
    least = count // 2 + 1
    threshold = max(2, least + round(share * (count - least)))
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
    assert not total.wrong


def most_shares_seen(network: SumNetwork) -> int:
    """The most shares of one party's secrets that the server received in the clear."""
    given = [m["shares"] for m in network.server_view if sorted(m) == ["covers", "shares"]]
    owners = {owner for shares in given for owner in shares}
    return max((sum(owner in shares for shares in given) for owner in owners), default=0)


@pytest.mark.parametrize(
    "lost_at",
    [
        {"p00": "protect", "p01": "protect", "p02": "protect"},
        {"p00": "protect", "p01": "settle", "p02": "settle"},
        {"p00": "confirm", "p01": "confirm", "p02": "confirm"},
        {"p00": "reveal", "p01": "reveal", "p02": "reveal"},
        {"p00": "protect", "p01": "reveal", "p02": "reveal"},
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


@pytest.mark.parametrize("phase", ["confirm", "reveal"])
def test_a_party_that_did_not_contribute_helps(phase: str) -> None:
    network = SumNetwork("shares", 4, threshold=3).ready()
    vectors = draw(network.parties)
    contributors = ("p00", "p01", "p02")
    contributions = network.contribute("t", {name: vectors[name] for name in contributors})
    network.lost_at = {"p01": phase}
    total = network.server.total("t", contributions, network.ask)
    assert total.contributors == contributors
    assert np.array_equal(total.vectors["w"], expected(vectors, contributors))


def test_without_losses_two_phases_are_enough() -> None:
    network = SumNetwork("shares", 4).ready()
    network.asked.clear()
    network.sum("t", draw(network.parties))
    assert network.asked == ["confirm", "reveal"]


def test_the_threshold_is_more_than_half() -> None:
    def threshold(count: int) -> int:
        return threshold_of(SumSettings(tuple(map(str, range(count)))))

    assert [threshold(count) for count in (2, 3, 4, 5, 9, 10)] == [2, 3, 3, 4, 7, 7]
    for count, wrong in ((4, 2), (5, 2), (10, 5)):
        with pytest.raises(UserError, match=f"between {count // 2 + 1} and {count}, not {wrong}"):
            SumNetwork("shares", count, threshold=wrong)
    SumNetwork("shares", 3, threshold=2)


class Opening:
    """A sum that is about to be opened, and the messages that would open it."""

    def __init__(self, tag: str = "t", network: SumNetwork | None = None, **given: Any) -> None:
        self.network = network or SumNetwork("shares", 5, threshold=3, **given).ready()
        self.tag = tag
        self.sent = self.network.contribute(tag, draw(self.network.parties))
        shapes = Layout({"w": (40,)})
        self.header = Header(tag, b"", "server", FRACTION_BITS, shapes).digest

    def view(self, contributors: str) -> Payload:
        names = [f"p0{digit}" for digit in contributors]
        return {"tag": self.tag, "header": self.header, "contributors": names}

    def ask(self, phase: str, digit: str, message: Payload) -> Payload:
        return self.network.clients[f"p0{digit}"].handle(phase, carry(message))

    def confirm(self, digit: str, contributors: str) -> dict[str, bytes]:
        return self.ask("confirm", digit, self.view(contributors))["confirmations"]

    def reveal(
        self,
        digit: str,
        contributors: str,
        confirmed: Mapping[str, Mapping[str, bytes]],
        **boxes: bytes,
    ) -> Payload:
        name, message = f"p0{digit}", self.view(contributors)
        own = {peer: self.sent[peer]["shares"][name] for peer in message["contributors"]}
        message["confirmations"] = {
            f"p0{sender}": codes[name] for sender, codes in confirmed.items() if sender != digit
        }
        return self.ask("reveal", digit, {**message, "boxes": {**own, **boxes}, "covers": {}})


def test_a_party_confirms_one_view_of_a_sum() -> None:
    opening = Opening()
    assert opening.confirm("0", "01234").keys() == {"p01", "p02", "p03", "p04"}
    assert opening.confirm("0", "01234") == opening.confirm("0", "43210")
    with pytest.raises(SumRefused, match="confirmed other contributors"):
        opening.confirm("0", "0123")
    with pytest.raises(SumRefused, match="confirmed other contributors"):
        opening.reveal("0", "0123", {})


def test_a_party_opens_what_enough_others_confirm() -> None:
    opening = Opening()
    confirmed = {digit: opening.confirm(digit, "01234") for digit in "012"}
    opening.confirm("3", "0123")
    with pytest.raises(SumRefused, match="when 3 parties confirm its contributors, 2 did"):
        opening.reveal("0", "01234", {"1": confirmed["1"]})
    other = {**confirmed, "1": opening.confirm("4", "01234")}  # not said by p01
    with pytest.raises(SumRefused, match="1 did"):
        opening.reveal("0", "01234", {key: other[key] for key in "01"})
    assert opening.reveal("0", "01234", confirmed)["shares"].keys() == set(opening.sent)
    with pytest.raises(SumRefused, match="confirmed other contributors"):
        opening.reveal("3", "01234", confirmed)


def test_confirmations_of_another_sum_do_not_count() -> None:
    earlier = Opening("earlier")
    stale = {digit: earlier.confirm(digit, "01234") for digit in "01234"}
    opening = Opening("t", earlier.network)
    with pytest.raises(SumRefused, match="1 did"):
        opening.reveal("0", "01234", stale)
    with pytest.raises(SumRefused, match="another sum called 't'"):
        opening.ask("confirm", "0", {**opening.view("01234"), "header": bytes(32)})


@pytest.mark.parametrize(
    ("contributors", "why"),
    [("01", "sums of 3 or more"), ("019", "that it has keys with"), ("01234", "")],
)
def test_too_few_or_unknown_contributors_are_not_confirmed(contributors: str, why: str) -> None:
    opening = Opening()
    if not why:
        assert opening.confirm("0", contributors)
        return
    with pytest.raises(SumRefused, match=why):
        opening.confirm("0", contributors)


def test_a_party_that_did_not_contribute_confirms_the_others_only() -> None:
    network = SumNetwork("shares", 4, threshold=3).ready()
    header, names = bytes(32), ["p00", "p01", "p02"]
    message = {"tag": "never", "header": header, "contributors": names}
    with pytest.raises(SumRefused, match="did not contribute"):
        network.clients["p00"].handle("confirm", message)
    assert network.clients["p03"].handle("confirm", message)["confirmations"].keys() == set(names)
    with pytest.raises(SumRefused, match="did not contribute"):
        network.clients["p03"].handle("settle", {"tag": "never", "lost": ["p00"]})


def test_masks_put_aside_open_in_a_sum_without_those_parties_only() -> None:
    """The server has p00's masks with p03 and p04 put aside, then a sum of all confirmed."""
    opening = Opening()
    lost = {"tag": "t", "lost": ["p03", "p04"]}
    cover = opening.ask("settle", "0", lost)
    with pytest.raises(SumRefused, match="has no masks with all"):
        opening.ask("settle", "0", {**lost, "lost": ["p00"]})
    confirmed = {digit: opening.confirm(digit, "01234") for digit in "01234"}
    for digit in "1234":
        name = f"p0{digit}"
        message = {
            **opening.view("01234"),
            "confirmations": {f"p0{s}": c[name] for s, c in confirmed.items() if s != digit},
            "boxes": {peer: sent["shares"][name] for peer, sent in opening.sent.items()},
            "covers": {"p00": cover["shares"][name]},
        }
        assert opening.ask("reveal", digit, message)["covers"] == {}


@pytest.mark.parametrize("idle", [["p00"], ["p00", "p01"], ["p00", "p01", "p02"]])
def test_zeros_count_as_nobody(idle: list[str]) -> None:
    for mode, enough in (("shares", 3), ("shares-additive", 3)):
        network = SumNetwork(mode, 5, threshold=3).ready()
        vectors = draw(network.parties) | {name: {"w": np.zeros(40)} for name in idle}
        sent = network.contribute("t", vectors, idle=idle)
        if 5 - len(idle) >= enough:
            total = network.server.total("t", sent, network.ask)
            assert np.array_equal(total.vectors["w"], expected(vectors, network.parties))
        else:
            with pytest.raises(SecureSumError):
                network.server.total("t", sent, network.ask)
            assert all("contribute more than zeros" in refusal for refusal in network.refusals)
            assert most_shares_seen(network) == 0


@pytest.mark.parametrize("mode", ["shares", "shares-additive"])
def test_a_party_may_want_more_parties_than_the_threshold(mode: str) -> None:
    network = SumNetwork(mode, 5, threshold=3, min_parties=5).ready()
    assert network.sum("all", draw(network.parties))["w"].size == 40
    sent = network.contribute("t", draw(network.parties), idle=["p04"])
    with pytest.raises(SecureSumError):
        network.server.total("t", sent, network.ask)
    assert "5 or more parties that contribute more than zeros" in network.refusals[0]
    with pytest.raises(UserError, match="6 or more parties"):
        SumNetwork(mode, 5, min_parties=6)


def test_shares_that_are_tampered_replayed_or_misdirected_are_not_told() -> None:
    earlier = Opening("earlier")
    opening = Opening("t", earlier.network)
    confirmed = {digit: opening.confirm(digit, "01234") for digit in "01234"}
    good = opening.sent["p01"]["shares"]["p00"]
    wrong = {
        "tampered": good[:-1] + bytes([good[-1] ^ 1]),
        "another digest": bytes([good[0] ^ 1]) + good[1:],
        "truncated": good[:20],
        "empty": b"",
        "replayed": earlier.sent["p01"]["shares"]["p00"],
        "for another": opening.sent["p01"]["shares"]["p02"],
        "of another": opening.sent["p02"]["shares"]["p00"],
        "of other keys": Opening("t").sent["p01"]["shares"]["p00"],
    }
    for box in wrong.values():
        told = opening.reveal("0", "01234", confirmed, p01=box)["shares"]
        assert told.keys() == {"p00", "p02", "p03", "p04"}
    assert opening.reveal("0", "01234", confirmed)["shares"].keys() == set(opening.sent)


def test_one_tampered_box_does_not_lose_the_sum() -> None:
    network = SumNetwork("shares", 4, threshold=3).ready()

    def alter(phase: str, name: str, message: Payload) -> Payload:
        if phase == "reveal" and name == "p02":
            boxes = {sender: bytes(len(box)) for sender, box in message["boxes"].items()}
            return {**message, "boxes": boxes}
        return message

    network.alter = alter
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert np.array_equal(total.vectors["w"], expected(vectors, network.parties))
    assert total.wrong == ()


def told_wrongly(network: SumNetwork, liar: str, key: str, owner: str) -> Ask:
    """A network in which one party changes its share of another's secret."""

    def ask(phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        answers = network.ask(phase, messages)
        if phase == "reveal" and liar in answers:
            share = answers[liar][key][owner]
            answers[liar][key][owner] = bytes([share[0] ^ 1]) + share[1:]
        return answers

    return ask


@pytest.mark.parametrize("key", ["shares", "covers"])
def test_a_wrong_share_is_left_out_and_known(key: str) -> None:
    network = SumNetwork("shares", 6, threshold=4).ready()
    network.lost_at = {"p05": "protect"}
    vectors = draw(network.parties)
    sent = network.contribute("t", vectors)
    total = network.server.total("t", sent, told_wrongly(network, "p00", key, "p02"))
    assert total.wrong == ("p00",)
    assert np.array_equal(total.vectors["w"], expected(vectors, total.contributors))
    assert network.server.wrong == ("p00",)
    assert network.sum("next", vectors)["w"].size == 40
    assert network.server.wrong == ()


def test_too_many_wrong_shares_are_an_error() -> None:
    network = SumNetwork("shares", 3, threshold=3).ready()
    sent = network.contribute("t", draw(network.parties))
    with pytest.raises(SumNotOpened, match="3 shares of p02's self mask are needed, 2 are right"):
        network.server.total("t", sent, told_wrongly(network, "p00", "shares", "p02"))
    assert network.server.wrong == ("p00",)


def test_a_dealer_of_wrong_shares_is_known_and_its_holders_are_not_blamed() -> None:
    network = SumNetwork("shares", 4, threshold=3).ready()
    sent = network.contribute("t", draw(network.parties))
    sent["p01"]["check"] = bytes(16)
    with pytest.raises(SumNotOpened, match="p01 dealt shares that do not fit together") as caught:
        network.server.total("t", sent, network.ask)
    assert caught.value.wrong == network.server.wrong == ("p01",)
    sent = network.contribute("u", draw(network.parties))
    box = sent["p01"]["shares"]["p00"]
    sent["p01"]["shares"]["p00"] = bytes(16) + box[16:]  # to make p00 look like a liar
    assert network.server.total("u", sent, network.ask).wrong == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"words": np.zeros(3, np.uint64)},
        {"check": 7},
        {"shares": []},
        {"names": ["v"]},
        {"tag": "u"},
    ],
)
def test_a_wrong_contribution_is_left_out(wrong: Payload) -> None:
    network = SumNetwork("shares", 4).ready()
    vectors = draw(network.parties)
    sent = network.contribute("t", vectors)
    sent["p00"] |= wrong
    total = network.server.total("t", sent, network.ask)
    assert total.contributors == ("p01", "p02", "p03")
    assert total.wrong == ("p00",)
    assert np.array_equal(total.vectors["w"], expected(vectors, total.contributors))


@pytest.mark.parametrize("phase", ["settle", "confirm", "reveal"])
@pytest.mark.parametrize("answer", [{}, {"confirmations": 1, "shares": {"p00": 7}, "cover": "x"}])
def test_a_malformed_answer_counts_as_none(phase: str, answer: Payload) -> None:
    network = SumNetwork("shares", 5, threshold=3).ready()
    network.lost_at = {"p04": "protect"}
    vectors = draw(network.parties)
    sent = network.contribute("t", vectors)

    def ask(asked: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        answers = network.ask(asked, messages)
        return {**answers, "p01": answer} if asked == phase and "p01" in answers else answers

    total = network.server.total("t", sent, ask)
    assert total.wrong == ("p01",)
    assert np.array_equal(total.vectors["w"], expected(vectors, total.contributors))


def test_old_sums_do_not_fill_the_memory() -> None:
    network = SumNetwork("shares", 2).ready()
    for step in range(80):
        network.sum(str(step), draw(network.parties, (1,)))
    assert len(network.clients["p00"]._sums) <= 64  # type: ignore[attr-defined]


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
