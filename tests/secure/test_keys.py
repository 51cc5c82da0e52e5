"""The key exchange: what a party accepts from a server that only relays."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SECRET, Alter, SumNetwork, carry, draw

from autofgl.federation.payload import Payload
from autofgl.identity import GroupSecret
from autofgl.secure import SecureSumError, SumRefused
from autofgl.secure.keys import KeyRing, Terms, agree, bind_parts, session_id

PARTIES = ("a", "b", "c")


TERMS = Terms("run", "shares", PARTIES, 2, 0)


def rings(terms: Terms = TERMS, secret: bytes = SECRET) -> dict[str, KeyRing]:
    return {name: KeyRing(name, terms, 2, GroupSecret(name, secret)) for name in terms.parties}


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


def drawn(keys: Mapping[str, KeyRing]) -> Payload:
    """Everybody's fresh public keys and signatures, as the server passes them on."""
    answers = {name: ring.phases["keys"]({}) for name, ring in keys.items()}
    return {
        f"{field}s": {name: answer[field] for name, answer in answers.items()}
        for field in ("public", "signature")
    }


def test_bad_rosters_are_refused() -> None:
    def roster(**changed: bytes) -> tuple[KeyRing, Payload]:
        keys = rings()
        message = drawn(keys)
        return keys["a"], {**message, "publics": {**message["publics"], **changed}}

    for why, (ring, message) in {
        "another key for a": roster(a=bytes(32)),
        "unknown parties: mallory": roster(mallory=bytes(32)),
        "should map names to bytes": roster(b=b"short"),
    }.items():
        with pytest.raises(SecureSumError, match=why):
            ring.phases["roster"](message)
    ring, message = roster(b=bytes(32))
    assert ring.phases["roster"](message) == {"unsigned": ["b"]}
    ring, message = roster()
    own = {"a": message["publics"]["a"]}
    with pytest.raises(SumRefused, match="wants 2 or more"):
        ring.phases["roster"]({**message, "publics": own})
    with pytest.raises(SumRefused, match="all different"):
        ring.phases["roster"]({**message, "publics": {**own, "b": own["a"]}})
    with pytest.raises(SecureSumError, match="malformed"):
        ring.phases["roster"]({"publics": message["publics"]})


def test_a_key_that_is_signed_and_not_valid_is_refused() -> None:
    """X25519 has public keys that give everybody the same secret; even their owner may not."""
    keys = rings()
    message = drawn(keys)
    forged = keys["b"]._identity.sign(keys["b"]._claim("b", bytes(32)))  # type: ignore[union-attr]
    message["publics"]["b"], message["signatures"]["b"] = bytes(32), forged
    with pytest.raises(SecureSumError, match="the public key of 'b' is not valid"):
        keys["a"].phases["roster"](message)


def test_phases_out_of_order_are_refused() -> None:
    keys = rings()
    nothing: Payload = {"publics": {}, "signatures": {}, "box": b""}
    for phase in ("roster", "group"):
        with pytest.raises(SumRefused):
            keys["a"].phases[phase](nothing)
    agree(ask_of(keys), PARTIES, 2)
    for phase in ("roster", "group"):
        with pytest.raises(SumRefused):
            keys["a"].phases[phase](nothing)


def test_the_first_of_the_roster_leads_and_nobody_else() -> None:
    keys = rings()
    message = drawn(keys)
    answers = {name: ring.phases["roster"](message) for name, ring in keys.items()}
    assert [name for name, answer in answers.items() if "boxes" in answer] == ["a"]
    with pytest.raises(SecureSumError, match="refuses a message"):
        keys["b"].phases["group"]({"box": answers["a"]["boxes"]["c"]})
    foreign = keys["c"].seal("b", "group", "", bytes(32))
    with pytest.raises(SecureSumError, match="refuses a message"):
        keys["b"].phases["group"]({"box": foreign})
    keys["b"].phases["group"]({"box": answers["a"]["boxes"]["b"]})


def test_a_group_key_of_another_length_is_refused() -> None:
    keys = rings()
    message = drawn(keys)
    for ring in keys.values():
        ring.phases["roster"](message)
    with pytest.raises(SecureSumError, match="got no group key from 'a'"):
        keys["b"].phases["group"]({"box": keys["a"].seal("b", "group", "", b"short")})


def test_the_session_names_every_key() -> None:
    publics = drawn(rings())["publics"]
    assert session_id(publics) == session_id(dict(reversed(publics.items())))
    assert session_id(publics) != session_id({**publics, "a": bytes(32)})


def test_parties_with_different_secrets_do_not_agree() -> None:
    network = SumNetwork("shares", 2)
    network.clients["p00"]._ring._identity = GroupSecret("p00", bytes(32))  # type: ignore[attr-defined]
    with pytest.raises(SecureSumError, match="do not believe the keys of p00, p01: check that all"):
        network.ready()


def test_parties_without_identities_agree_among_themselves_only() -> None:
    """Sums may be used without an engine; a party with an identity has no part in that."""
    network = SumNetwork("shares", 2, identity=None).ready()
    assert network.sum("t", draw(network.parties))["w"].size == 40
    network.clients["p00"]._ring._identity = GroupSecret("p00", SECRET)  # type: ignore[attr-defined]
    with pytest.raises(SecureSumError, match=r"1 are left; the others do not .* p01"):
        network.ready()


def spoil(phase: str, **wrong: object) -> Alter:
    """One party's answers, or what it claims, are not what they should be."""
    return lambda at, name, answer: {**answer, **wrong} if (at, name) == (phase, "p00") else answer


@pytest.mark.parametrize(
    "spoiled",
    [
        spoil("keys", public=b"short"),
        spoil("keys", public=7),
        spoil("keys", signature="text"),
        spoil("keys", signature=bytes(1 << 20)),
        spoil("keys", signature=bytes(32)),
        spoil("roster", session=b"other"),
        spoil("roster", unsigned=["p01", "p02", "p03"], session=b""),
        spoil("roster", unsigned=3, session=b""),
        spoil("roster", boxes={"p01": 7}),
        spoil("roster", boxes={}),
        spoil("roster", boxes={f"p0{index}": bytes(60) for index in range(4)}),
    ],
)
def test_one_party_that_answers_nonsense_is_left_out(spoiled: Alter) -> None:
    network = SumNetwork("shares", 4)
    network.alter_answer = spoiled
    network.ready()
    assert network.server._session.roster == ("p01", "p02", "p03")  # type: ignore[attr-defined]
    assert len({network.clients[name]._ring.session for name in network.parties[1:]}) == 1  # type: ignore[attr-defined]


def test_nobody_answers() -> None:
    network = SumNetwork("ckks", 2)
    network.lost_at = {"p00": "group", "p01": "group"}
    with pytest.raises(SecureSumError, match="0 are left; no answer from p00, p01"):
        network.ready()


def test_the_fewest_parties_of_a_site_count_for_the_roster() -> None:
    network = SumNetwork("shares", 4, threshold=3, min_parties=4)
    network.lost_at = {"p03": "keys"}
    with pytest.raises(SecureSumError, match="needs 3 parties, 0 are left"):
        network.ready()
    assert "p00 wants 4 or more" in network.refusals[0]


def test_parts_are_bound_unambiguously() -> None:
    assert bind_parts("ab", "c") != bind_parts("a", "bc")
    assert bind_parts("a", "") != bind_parts("a")
