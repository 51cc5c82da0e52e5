"""Finding 6, and 5 in part: a relaying server swaps public keys, or invents parties.

Before keys were signed it then shared a secret with every client in the others' place, and read all
that they told each other, group key and shares included. The first test still shows that, for
parties that are given no identity; engines always give one.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from relay import Meddler, server_keys

from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.engines.nvflare import certificate as certificate_module
from autofgl.federation.engines.nvflare.certificate import Certificate, site_identity
from autofgl.federation.engines.nvflare.kits import Kits, make_kits
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.identity import GroupSecret, Identity
from autofgl.secure import SecureSumError, SumRefused
from autofgl.secure.keys import KeyRing, Terms, agree
from federations import make

PARTIES = ("a", "b", "c")
TERMS = Terms("run-1", "shares", PARTIES, 3, 0)
SECRET = b"known to the parties alone"

#: Gives a party of that name an identity.
Who = Callable[[str], Identity | None]


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Kits:
    return make_kits(tmp_path_factory.mktemp("kits"), "localhost", 8002, PARTIES)


@pytest.fixture(params=["secret", "certificate", "both"])
def who(request: pytest.FixtureRequest, kits: Kits, tmp_path: Path) -> Who:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    file.chmod(0o600)
    ways: dict[str, Who] = {
        "secret": lambda name: GroupSecret(name, SECRET),
        "certificate": lambda name: Certificate(kits.sites[name], name),
        "both": lambda name: site_identity(kits.sites[name], name, str(file)),
    }
    return ways[request.param]


def rings(who: Who, terms: Terms = TERMS) -> dict[str, KeyRing]:
    return {name: KeyRing(name, terms, 2, who(name)) for name in terms.parties}


def drawn(keys: Mapping[str, KeyRing]) -> Payload:
    """What the clients send the server first: public keys and signatures."""
    answers = {name: ring.phases["keys"]({}) for name, ring in keys.items()}
    return {
        f"{field}s": {name: answer[field] for name, answer in answers.items()}
        for field in ("public", "signature")
    }


class Between:
    """A server between client a and all others: to a it is each of them."""

    def __init__(self, victim: KeyRing) -> None:
        self.victim = victim
        self.twins = {name: KeyRing(name, TERMS, 2) for name in PARTIES if name != "a"}
        self.publics = {
            name: twin.phases["keys"]({})["public"] for name, twin in self.twins.items()
        }

    def attack(self, signatures: Mapping[str, bytes]) -> Payload:
        """What the victim answers to a roster of the server's keys."""
        own = self.victim.phases["keys"]({})
        publics = {**self.publics, "a": own["public"]}
        answer = self.victim.phases["roster"]({"publics": publics, "signatures": dict(signatures)})
        for twin in self.twins.values():
            unsigned = {"publics": publics, "signatures": {}}
            twin.phases["roster"](unsigned)
        return answer


def knows_nothing(ring: KeyRing) -> bool:
    """Whether a client has no key with anybody, so that it tells nobody anything."""
    with pytest.raises(SecureSumError, match="shares no key"):
        ring.seal("b", "any", "", b"text")
    with pytest.raises(SecureSumError, match="no keys yet"):
        ring.group_key("any")
    return not ring.session and not ring.peers


def test_without_identities_the_server_reads_along() -> None:
    """The former behavior; parties of this kind exist below the engines only."""
    server = Between(KeyRing("a", TERMS, 2))
    boxes = server.attack({})["boxes"]
    secrets = {
        name: twin.unseal("a", "group", "", boxes[name]) for name, twin in server.twins.items()
    }
    assert len(set(secrets.values())) == 1
    assert len(secrets["b"]) == 32


def test_the_servers_own_keys_are_refused(who: Who) -> None:
    real = drawn(rings(who))["signatures"]
    for signatures in (
        {},
        dict.fromkeys(PARTIES, b""),
        dict.fromkeys(PARTIES, bytes(32)),
        real,  # the owners', for their own keys
        dict.fromkeys(PARTIES, real["a"]),
    ):
        server = Between(KeyRing("a", TERMS, 2, who("a")))
        assert server.attack(signatures) == {"unsigned": ["b", "c"]}
        assert knows_nothing(server.victim)


def test_one_swapped_key_of_many_is_enough_to_stop(who: Who) -> None:
    keys = rings(who)
    message = drawn(keys)
    message["publics"]["c"] = server_keys(("c",))["c"]
    assert keys["a"].phases["roster"](message) == {"unsigned": ["c"]}
    assert knows_nothing(keys["a"])


def test_signatures_do_not_move_between_parties(who: Who) -> None:
    keys = rings(who)
    message = drawn(keys)
    for field in ("publics", "signatures"):  # b's key and its own signature, as if they were c's
        message[field]["b"], message[field]["c"] = message[field]["c"], message[field]["b"]
    assert keys["a"].phases["roster"](message) == {"unsigned": ["b", "c"]}


@pytest.mark.parametrize(
    "terms",
    [
        replace(TERMS, run="run-2"),
        replace(TERMS, mode="ckks"),
        replace(TERMS, threshold=2),
        replace(TERMS, fraction_bits=20),
        replace(TERMS, parties=("a", "b", "c", "d")),
        replace(TERMS, parties=("c", "b", "a")),
    ],
    ids=["run", "mode", "threshold", "fraction bits", "more parties", "another order"],
)
def test_signatures_do_not_move_between_terms(terms: Terms) -> None:
    """A key that b signed elsewhere; and a server that tells a and b different terms."""
    keys = rings(lambda name: GroupSecret(name, SECRET))
    elsewhere = {
        name: KeyRing(name, terms, 2, GroupSecret(name, SECRET)).phases["keys"]({})
        for name in ("b", "c")
    }
    message = drawn(keys)
    for name, answer in elsewhere.items():
        message["publics"][name] = answer["public"]
        message["signatures"][name] = answer["signature"]
    assert keys["a"].phases["roster"](message) == {"unsigned": ["b", "c"]}


def test_an_old_signed_key_helps_nobody(who: Who) -> None:
    """The server replays b's key of an earlier session; neither it nor b has the private half."""
    keys = rings(who)
    old = drawn({"b": keys["b"]})
    message = drawn(keys)
    replayed = {
        field: {**message[field], "b": old[field]["b"]} for field in ("publics", "signatures")
    }
    assert keys["c"].phases["roster"](replayed)["session"], "c cannot know that it is old"
    with pytest.raises(SumRefused, match="another key for b"):
        keys["b"].phases["roster"](replayed)
    boxes = keys["a"].phases["roster"](replayed)["boxes"]
    keys["b"].phases["roster"](message)  # the true roster: b's keys are those of another session
    with pytest.raises(SecureSumError, match="refuses a message"):
        keys["b"].unseal("a", "group", "", boxes["b"])
    with pytest.raises(SecureSumError, match="refuses a message"):
        keys["c"].unseal("a", "group", "", boxes["b"])


def test_parties_with_different_rosters_share_no_key(who: Who) -> None:
    keys = rings(who)
    message = drawn(keys)
    smaller = {field: {n: message[field][n] for n in ("a", "b")} for field in message}
    boxes = keys["a"].phases["roster"](message)["boxes"]
    keys["b"].phases["roster"](smaller)
    with pytest.raises(SecureSumError, match="refuses a message"):
        keys["b"].phases["group"]({"box": boxes["b"]})


def test_the_server_cannot_choose_who_leads_or_ask_twice(who: Who) -> None:
    """Two leaders, or two secrets of one, would give clients different group keys."""
    keys = rings(who)
    message = drawn(keys)
    first = keys["a"].phases["roster"](message)["boxes"]
    with pytest.raises(SumRefused):
        keys["a"].phases["roster"](message)
    for name in ("b", "c"):
        assert "boxes" not in keys[name].phases["roster"](message)
        keys[name].phases["group"]({"box": first[name]})
    keys["a"].phases["group"]({"box": keys["b"].seal("a", "group", "", bytes(32))})
    assert len({ring.group_key("any") for ring in keys.values()}) == 1


# Invented parties.


def test_invented_parties_are_refused(who: Who) -> None:
    """One client among parties that the server made up would sum with nobody but itself."""
    terms = replace(TERMS, parties=("a", "x", "y"))
    victim = KeyRing("a", terms, 3, who("a"))
    own = victim.phases["keys"]({})
    publics = {**server_keys(("x", "y")), "a": own["public"]}
    for signature in (b"", own["signature"], bytes(256)):
        signatures = {"x": signature, "y": signature, "a": own["signature"]}
        answer = victim.phases["roster"]({"publics": publics, "signatures": signatures})
        assert answer == {"unsigned": ["x", "y"]}
    assert knows_nothing(victim)


def _forge(kit: Path, startup: str, name: str, tmp_path: Path) -> Certificate:
    """An identity from another machine's certificate and key, as the server could build it."""
    target = tmp_path / "startup"
    target.mkdir(exist_ok=True)
    for file in ("crt", "key"):
        shutil.copy(kit / "startup" / f"{startup}.{file}", target / f"client.{file}")
    shutil.copy(kit / "startup" / "rootCA.pem", target)
    (target / "fed_client.json").write_text('{"servers": []}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Certificate, "_problem", lambda *_: "")
        return Certificate(tmp_path, name)


def test_certificates_of_the_server_and_the_coordinator_are_no_sites(
    kits: Kits, tmp_path: Path
) -> None:
    """They are of the same root; but a party called as the server is would be the server."""
    site = Certificate(kits.sites["a"], "a")
    for kit, startup, name in (
        (kits.server, "server", "localhost"),
        (kits.coordinator, "client", "coordinator@autofgl.local"),
    ):
        forged = _forge(kit, startup, name, tmp_path)
        assert not site.verify(name, b"data", forged.sign(b"data"))
    other = Certificate(kits.sites["b"], "b")
    assert site.verify("b", b"data", other.sign(b"data"))
    assert not site.verify("c", b"data", other.sign(b"data"))


def test_certificates_of_another_root_are_refused(kits: Kits, tmp_path: Path) -> None:
    foreign = make_kits(tmp_path, "localhost", 8002, PARTIES)
    stranger, site = Certificate(foreign.sites["b"], "b"), Certificate(kits.sites["a"], "a")
    assert not site.verify("b", b"data", stranger.sign(b"data"))


def test_certificates_count_while_they_are_valid(
    kits: Kits, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, signed = Certificate(kits.sites["a"], "a"), Certificate(kits.sites["b"], "b").sign(b"x")
    assert site.verify("b", b"x", signed)

    for days in (-1, 4000):
        then = datetime.now(UTC) + timedelta(days=days)
        monkeypatch.setattr(
            certificate_module, "datetime", SimpleNamespace(now=lambda _, at=then: at)
        )
        assert not site.verify("b", b"x", signed)


def test_altered_signatures_are_refused_and_never_crash(who: Who) -> None:
    signed, other = who("b"), who("a")
    assert signed is not None
    assert other is not None
    signature = signed.sign(b"data")
    assert other.verify("b", b"data", signature)
    assert not other.verify("b", b"other", signature)
    for place in range(0, len(signature), 7):
        altered = bytearray(signature)
        altered[place] ^= 1
        assert not other.verify("b", b"data", bytes(altered))
    for cut in (0, 3, 4, 31, len(signature) - 1):
        assert not other.verify("b", b"data", signature[:cut])
    assert not other.verify("b", b"data", signature + b"x")


# Whole runs.


class SwappingEngine(Meddler, InProcess):
    """Puts its own keys in place of all others'."""


class InventingEngine(Meddler, InProcess):
    """Adds parties of its own to the roster."""

    invents = ("x", "y")


class SpyingEngine(Meddler, InProcess):
    """Swaps the keys under which FedGraph's clients exchange embeddings."""

    op = "agree"


@pytest.mark.parametrize("secure", ["shares", "shares-additive", "ckks"])
@pytest.mark.parametrize(
    ("engine", "why"),
    [(SwappingEngine, "do not believe the keys of"), (InventingEngine, "no answer from")],
)
def test_a_run_ends_before_anything_is_told(
    small_clients: Sequence[ClientGraph], engine: type[InProcess], why: str, secure: str
) -> None:
    begun: list[Any] = []

    class Watched(engine):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            begun.append(self)

    with pytest.raises(SecureSumError, match=why):
        make("fedavg", small_clients, secure=secure, engine=Watched)
    assert set(begun[0].called) == {"secure"}
    begun[0].close()


def test_embeddings_do_not_travel_under_the_servers_keys(
    small_clients: Sequence[ClientGraph],
) -> None:
    with pytest.raises(SecureSumError, match="do not believe the keys of"):
        make("fedgraph", small_clients, engine=SpyingEngine)


def test_an_honest_relay_serves(who: Who) -> None:
    keys = rings(who)

    def ask(phase: str, messages: Mapping[str, Payload]) -> dict[str, Payload]:
        return {name: keys[name].phases[phase](message) for name, message in messages.items()}

    assert agree(ask, PARTIES, 3).roster == PARTIES
    assert len({ring.group_key("any") for ring in keys.values()}) == 1
