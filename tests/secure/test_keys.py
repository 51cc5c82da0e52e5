"""The key exchange: what a party accepts from a server that only relays."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork, carry, draw

from autofgl.federation.payload import Payload
from autofgl.secure import SecureSumError, SumRefused
from autofgl.secure.keys import KeyRing, agree, bind_parts, session_id

PARTIES = ("a", "b", "c")


def rings(secret: bytes = b"") -> dict[str, KeyRing]:
    return {name: KeyRing(name, PARTIES, 2, secret) for name in PARTIES}


def ask_of(keys: Mapping[str, KeyRing]):  # type: ignore[no-untyped-def]
    def ask(phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        return {name: carry(keys[name].phases[phase](carry(m))) for name, m in messages.items()}

    return ask


def test_all_parties_end_with_the_same_keys() -> None:
    keys = rings()
    session = agree(ask_of(keys), PARTIES, 2)
    assert session.roster == PARTIES
    assert {ring.session for ring in keys.values()} == {session.name}
    assert len({ring.group_key("x", "t") for ring in keys.values()}) == 1
    assert keys["a"].pair_key("b", "x", "t") == keys["b"].pair_key("a", "x", "t")
    assert keys["a"].pair_key("b", "x", "t") != keys["a"].pair_key("c", "x", "t")
    assert keys["a"].pair_key("b", "x", "t") != keys["a"].pair_key("b", "y", "t")
    assert keys["a"].pair_key("b", "x", "t") != keys["a"].pair_key("b", "x", "u")


def test_every_setup_makes_new_keys() -> None:
    keys = rings()
    agree(ask_of(keys), PARTIES, 2)
    first = keys["a"].group_key("x"), keys["a"].pair_key("b", "x", ""), keys["a"].session
    agree(ask_of(keys), PARTIES, 2)
    second = keys["a"].group_key("x"), keys["a"].pair_key("b", "x", ""), keys["a"].session
    assert not set(first) & set(second)


def test_boxes_open_at_their_receiver_only() -> None:
    keys = rings()
    agree(ask_of(keys), PARTIES, 2)
    box = keys["a"].seal("b", "purpose", "t", b"text")
    assert keys["b"].unseal("a", "purpose", "t", box) == b"text"
    assert keys["a"].seal("b", "purpose", "t", b"text") != box
    for ring, sender, purpose, tag in (
        ("c", "a", "purpose", "t"),
        ("a", "b", "purpose", "t"),
        ("b", "c", "purpose", "t"),
        ("b", "a", "other", "t"),
        ("b", "a", "purpose", "u"),
    ):
        with pytest.raises(SecureSumError, match="refuses a message"):
            keys[ring].unseal(sender, purpose, tag, box)


def publics_of(keys: Mapping[str, KeyRing]) -> dict[str, bytes]:
    return {name: ring.phases["keys"]({})["public"] for name, ring in keys.items()}


def test_bad_rosters_are_refused() -> None:
    publics = publics_of(rings())
    cases = {
        "another key for a": {**publics, "a": bytes(32)},
        "unknown parties: mallory": {**publics, "mallory": bytes(32)},
        "wants 2 or more": {"a": publics["a"]},
        "all different": {"a": publics["a"], "b": publics["a"]},
        "is not valid": {**publics, "b": bytes(32)},
        "should map names to bytes": {**publics, "b": b"short"},
    }
    for why, roster in cases.items():
        ring = rings()["a"]
        own = ring.phases["keys"]({})["public"]
        renewed = {name: own if key == publics["a"] else key for name, key in roster.items()}
        with pytest.raises(SecureSumError, match=why):
            ring.phases["roster"]({"publics": renewed})


def test_phases_out_of_order_are_refused() -> None:
    keys = rings()
    for phase in ("roster", "lead", "group"):
        with pytest.raises(SumRefused):
            keys["a"].phases[phase]({"publics": {}, "leader": "a"})
    agree(ask_of(keys), PARTIES, 2)
    publics = dict.fromkeys(PARTIES, bytes(32))
    for phase in ("roster", "lead", "group"):
        with pytest.raises(SumRefused):
            keys["a"].phases[phase]({"publics": publics, "leader": "a"})


def test_a_leader_that_never_led_gives_no_key() -> None:
    keys = rings()
    publics = publics_of(keys)
    keys["a"].phases["roster"]({"publics": publics})
    with pytest.raises(SecureSumError, match="got no group key"):
        keys["a"].phases["group"]({"leader": "a"})
    with pytest.raises(SecureSumError, match="refuses a message"):
        keys["a"].phases["group"]({"leader": "b", "box": bytes(60)})


def test_the_session_names_every_key() -> None:
    publics = publics_of(rings())
    assert session_id(publics) == session_id(dict(reversed(publics.items())))
    assert session_id(publics) != session_id({**publics, "a": bytes(32)})


class Between:
    """A server that puts itself between the parties: each gets its keys for the others'."""

    def __init__(self, keys: Mapping[str, KeyRing]) -> None:
        self.keys = keys
        self.twins = rings()
        self.twin_publics = publics_of(self.twins)

    def roster(self) -> None:
        for name, ring in self.keys.items():
            own = ring.phases["keys"]({})["public"]
            ring.phases["roster"]({"publics": {**self.twin_publics, name: own}})
            twin = self.twins["b" if name == "a" else "a"]
            twin.session = ring.session
            secret = twin._pair_secret(twin._private, name, own, ring.session)  # type: ignore[arg-type]
            twin._pairs[name] = secret

    def reads_the_group_key(self) -> bool:
        boxes = self.keys["a"].phases["lead"]({})["boxes"]
        try:
            self.twins["b"].unseal("a", "group", "", boxes["b"])
        except SecureSumError:
            return False
        return True


def test_a_shared_secret_keeps_a_cheating_server_out() -> None:
    """Without it a server that swaps public keys reads along, which docs/security.md admits."""
    open_door = Between({"a": rings()["a"]})
    open_door.roster()
    assert open_door.reads_the_group_key()
    closed_door = Between({"a": rings(b"told by hand")["a"]})
    closed_door.roster()
    assert not closed_door.reads_the_group_key()


def test_parties_with_different_shared_secrets_do_not_agree() -> None:
    network = SumNetwork("shares", 2)
    network.clients["p00"]._ring._salt = bytes(32)  # type: ignore[attr-defined]
    with pytest.raises(SecureSumError, match="key exchange needs 2 parties"):
        network.ready()
    assert "tampered" in network.refusals[0]


def test_malformed_public_keys_are_named() -> None:
    with pytest.raises(SecureSumError, match="malformed public key of a"):
        agree(lambda phase, messages: {"a": {"public": b"x"}}, PARTIES, 1)


def test_nobody_to_lead() -> None:
    network = SumNetwork("ckks", 2)
    network.lost_at = {"p00": "lead", "p01": "lead"}
    with pytest.raises(SecureSumError, match="needs 2 parties, 0 answered"):
        network.ready()


def test_the_settings_hide_the_shared_secret() -> None:
    network = SumNetwork("shares", 2, shared_secret=b"told by hand").ready()
    assert "hand" not in repr(vars(network.clients["p00"]))
    assert network.sum("t", draw(network.parties))["w"].size == 40


def test_parts_are_bound_unambiguously() -> None:
    assert bind_parts("ab", "c") != bind_parts("a", "bc")
    assert bind_parts("a", "") != bind_parts("a")
