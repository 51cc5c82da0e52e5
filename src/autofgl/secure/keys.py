"""Keys: a party has one secret with every other party, and one with all of them together.

The server relays the parties' X25519 public keys. Each party signs its own with its identity,
together with the :class:`Terms` of the sums, and believes no key that its owner did not sign for
the same terms. From Diffie and Hellman's secret of two parties HKDF-SHA256 derives all that the two
need; AES-GCM protects what they tell each other through the server, with its purpose, sum, sender
and receiver as associated data, so that nothing can be replayed elsewhere. The first party of the
roster draws the group secret, once, and sends it to each of the others that way. The server drives
the exchange and learns public keys only.

What a server that cheats can still do:

- *Replay a signed key* that party v had in an earlier session of the same run. It lacks the private
  key, and so does v, which drew another and refuses a roster with the old one. To the others v then
  is a party that never says anything they could open: as if it were lost.
- *Tell parties different rosters.* The roster is part of every key: parties with different ones
  have no key in common.
- *Withhold messages.* Then there are no keys, and no sums. The leader is the first of the roster
  and leads once, so that the server cannot give parties different group keys.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from numpy.typing import NDArray

from autofgl.identity import Identity, join_parts
from autofgl.secure import (
    Ask,
    Payload,
    Reveal,
    SecureSumError,
    SumNotOpened,
    SumRefused,
    SumSettings,
)
from autofgl.secure.contributions import (
    Header,
    common_header,
    digest_contribution,
    take_bytes_by_name,
    take_field,
)
from autofgl.secure.ledger import Ledger, TextTable

PUBLIC_BYTES = 32
_NONCE_BYTES = 12
_MOST_SIGNATURE_BYTES = 1 << 14


@dataclass(frozen=True)
class Terms:
    """What keys are for; equal at all parties, signed with every key and part of every secret."""

    run: str
    mode: str
    parties: tuple[str, ...]
    threshold: int
    fraction_bits: int
    together: int = 1

    @classmethod
    def of(cls, settings: SumSettings, threshold: int) -> "Terms":
        """The terms that settings say."""
        bits = settings.fraction_bits or 0
        own = settings.run, settings.mode, settings.parties
        return cls(*own, threshold, bits, settings.together)

    def digest(self) -> bytes:
        """Names the terms."""
        numbers = str(self.threshold), str(self.fraction_bits), str(self.together)
        parts = bind_parts("autofgl terms", self.run, self.mode, *numbers, *self.parties)
        return hashlib.sha256(parts).digest()


#: What a server notes of a sum: who is not in it when it is begun, and when it is done.
ABSENT, LEFT_OUT = "absent", "left out"
PARTIES = "parties"


class KeyRing:
    """The keys of one party, which accepts no smaller roster; they live in memory only.

    A party without an identity takes all keys as they come: a relaying server could read along.
    """

    def __init__(
        self, name: str, terms: Terms, fewest: int, identity: Identity | None = None
    ) -> None:
        self.name: Final = name
        self.session = b""
        self.roster: tuple[str, ...] = ()
        self.peers: tuple[str, ...] = ()
        self._parties = terms.parties
        self._terms = terms.digest()
        self._fewest = fewest
        self._identity = identity
        self._private: X25519PrivateKey | None = None
        self._pairs: dict[str, bytes] = {}
        self._ciphers: dict[str, AESGCM] = {}
        self._offer = b""
        self._group = b""

    def __repr__(self) -> str:
        return f"KeyRing({self.name}, session {self.session.hex()[:8] or 'none'})"

    @property
    def phases(self) -> dict[str, Callable[[Payload], Payload]]:
        """The phases of the key exchange, in order."""
        return {"keys": self._keys, "roster": self._roster, "group": self._join}

    def require(self) -> None:
        """Raise unless the key exchange is complete."""
        if not self._group:
            raise SecureSumError(f"{self.name} has no keys yet: the server has to set up first")

    def pair_key(self, peer: str, purpose: str, tag: str) -> bytes:
        """A key that this party and a peer alone know, for one purpose and sum."""
        if peer not in self._pairs:
            raise SecureSumError(f"{self.name} shares no key with '{peer}'")
        return _expand(self._pairs[peer], purpose, tag)

    def group_key(self, purpose: str, tag: str = "", size: int = 32) -> bytes:
        """A key that all parties know and the server does not, for one purpose and sum."""
        self.require()
        return _expand(self._group, purpose, tag, size=size)

    def seal(self, peer: str, purpose: str, tag: str, text: bytes) -> bytes:
        """Encrypt a text for a peer."""
        nonce = os.urandom(_NONCE_BYTES)
        context = bind_parts(self.session, purpose, tag, self.name, peer)
        return nonce + self._cipher(peer).encrypt(nonce, text, context)

    def unseal(self, peer: str, purpose: str, tag: str, box: bytes) -> bytes:
        """Decrypt what a peer sealed for this party, purpose and sum; all else raises."""
        context = bind_parts(self.session, purpose, tag, peer, self.name)
        try:
            return self._cipher(peer).decrypt(box[:_NONCE_BYTES], box[_NONCE_BYTES:], context)
        except (InvalidTag, ValueError) as error:
            raise SecureSumError(
                f"{self.name} refuses a message of '{peer}': it was tampered with, replayed, or "
                "made with another key"
            ) from error

    def _cipher(self, peer: str) -> AESGCM:
        if peer not in self._ciphers:
            self._ciphers[peer] = AESGCM(self.pair_key(peer, "box", ""))
        return self._ciphers[peer]

    def _keys(self, message: Payload) -> Payload:  # noqa: ARG002
        """Forget everything, draw a new key pair and sign it."""
        self.session, self.roster, self.peers = b"", (), ()
        self._pairs, self._ciphers, self._offer, self._group = {}, {}, b"", b""
        self._private = X25519PrivateKey.generate()
        public = _public(self._private)
        if self._identity is None:
            return {"public": public, "signature": b""}
        return {"public": public, "signature": self._identity.sign(self._claim(self.name, public))}

    def _roster(self, message: Payload) -> Payload:
        """Learn the others' public keys and derive the pairwise secrets.

        If a key is not signed by its owner for these terms, only that is told, and there will be no
        keys. The first party of the roster also draws a group secret and wraps it for the others.
        """
        keys = take_bytes_by_name(message, "publics", PUBLIC_BYTES)
        signatures = take_bytes_by_name(message, "signatures")
        if self._private is None or self.session:
            raise SumRefused(f"{self.name} did not ask for a roster of keys")
        if keys.get(self.name) != _public(self._private):
            raise SumRefused(f"the roster names another key for {self.name} than its own")
        if strangers := sorted(keys.keys() - set(self._parties)):
            raise SumRefused(f"the roster names unknown parties: {', '.join(strangers)}")
        if len(keys) < self._fewest or len(set(keys.values())) < len(keys):
            raise SumRefused(
                f"the roster has {len(set(keys.values()))} keys, {self.name} wants {self._fewest} "
                "or more, all different"
            )
        roster = tuple(name for name in self._parties if name in keys)
        peers = tuple(peer for peer in roster if peer != self.name)
        if unsigned := [peer for peer in peers if not self._signed(peer, keys[peer], signatures)]:
            return {"unsigned": unsigned}
        session = session_id(keys)
        private = self._private
        self._pairs = {
            peer: self._pair_secret(private, peer, keys[peer], session) for peer in peers
        }
        self.session, self.roster, self.peers = session, roster, peers
        if roster[0] != self.name:
            return {"session": session}
        self._offer = os.urandom(32)
        boxes = {peer: self.seal(peer, "group", "", self._offer) for peer in peers}
        return {"session": session, "boxes": boxes}

    def _join(self, message: Payload) -> Payload:
        """Take the group secret from the first party of the roster."""
        if not self.session or self._group:
            raise SumRefused(f"{self.name} has no roster, or a group key already")
        secret = self._offer
        if self.roster[0] != self.name:
            secret = self.unseal(self.roster[0], "group", "", take_field(message, "box", bytes))
        if len(secret) != 32:
            raise SecureSumError(f"{self.name} got no group key from '{self.roster[0]}'")
        info = bind_parts("autofgl group", self._terms, self.session)
        self._group, self._offer = HKDF(SHA256(), 32, None, info).derive(secret), b""
        return {"session": self.session}

    def _signed(self, peer: str, public: bytes, signatures: Mapping[str, bytes]) -> bool:
        """Whether a key is its owner's, for these terms."""
        if self._identity is None:
            return True
        return self._identity.verify(peer, self._claim(peer, public), signatures.get(peer, b""))

    def _claim(self, name: str, public: bytes) -> bytes:
        """What a party signs."""
        return bind_parts("autofgl key", self._terms, name, public)

    def _pair_secret(
        self, private: X25519PrivateKey, peer: str, public: bytes, session: bytes
    ) -> bytes:
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise SecureSumError(f"the public key of '{peer}' is not valid") from error
        info = bind_parts("autofgl pair", self._terms, session, *sorted((self.name, peer)))
        return HKDF(SHA256(), 32, None, info).derive(shared)


def session_id(publics: Mapping[str, bytes]) -> bytes:
    """Names a set of public keys. Parties that compare it by other means have no one between."""
    parts = [part for name in sorted(publics) for part in (name.encode(), publics[name])]
    return hashlib.sha256(bind_parts("autofgl session", *parts)).digest()[:16]


def _public(private: X25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _expand(secret: bytes, purpose: str, tag: str, size: int = 32) -> bytes:
    info = bind_parts("autofgl", purpose, tag)
    if size == SHA256.digest_size:  # one block of HKDF-Expand (RFC 5869), in a tenth of the time
        return hmac.digest(secret, info + b"\x01", "sha256")
    return HKDFExpand(SHA256(), size, info).derive(secret)


def bind_parts(*parts: str | bytes) -> bytes:
    """Several pieces as one, so that no two different lists give the same bytes."""
    return join_parts(*[part.encode() if isinstance(part, str) else part for part in parts])


@dataclass(frozen=True)
class KeySession:
    """Parties that share keys, in order; the name is :func:`session_id` of their public keys."""

    name: bytes
    roster: tuple[str, ...]


def agree(ask: Ask, parties: tuple[str, ...], fewest: int) -> KeySession:
    """Drive the key exchange of :class:`KeyRing`.

    When a party is lost on the way, answers nonsense, or most others do not believe its signature,
    the others start again without it, while they are enough.
    """
    left, unsigned = parties, set[str]()
    while len(left) >= fewest:
        offers = _offers(ask("keys", {name: {} for name in left}))
        publics = {name: offers[name][0] for name in left if name in offers}
        message = {
            "publics": publics,
            "signatures": {name: offers[name][1] for name in publics},
        }
        session = KeySession(session_id(publics), tuple(publics))
        left = session.roster
        if len(left) < fewest:
            break
        answers = ask("roster", dict.fromkeys(left, message))
        if blamed := _unsigned(answers, session):
            unsigned |= blamed
            left = tuple(name for name in left if name not in blamed)
            continue
        left = _agreed(answers, session)
        if left == session.roster:
            boxes = _boxes(answers[left[0]])
            joined = ask("group", {name: {"box": boxes.get(name, b"")} for name in left})
            left = _agreed(joined, session)
            if left == session.roster:
                return session
            if left == session.roster[:1]:  # nobody could open what the leader sent
                left = session.roster[1:]
    absent = [name for name in parties if name not in left and name not in unsigned]
    raise SecureSumError(
        f"the key exchange needs {fewest} parties, {len(left)} are left"
        + (f"; no answer from {', '.join(absent)}" if absent else "")
        + (f"; the others do not believe the keys of {', '.join(sorted(unsigned))}: check that all "
           "have certificates of one CA, and the same secret or none" if unsigned else "")
    )  # fmt: skip


def _offers(answers: Mapping[str, Payload]) -> dict[str, tuple[bytes, bytes]]:
    """Public keys and signatures of those that gave them."""
    pairs = {name: (sent.get("public"), sent.get("signature")) for name, sent in answers.items()}
    return {
        name: (public, signature)
        for name, (public, signature) in pairs.items()
        if type(public) is bytes and len(public) == PUBLIC_BYTES
        if type(signature) is bytes and len(signature) <= _MOST_SIGNATURE_BYTES
    }


def _unsigned(answers: Mapping[str, Payload], session: KeySession) -> set[str]:
    """Parties whose signature most others do not believe; one alone may be the liar."""
    named = [sent.get("unsigned") for sent in answers.values()]
    lists = [names for names in named if type(names) is list]
    most = max(len(answers) - 1, 0) / 2
    return {name for name in session.roster if sum(name in names for names in lists) > most}


def _boxes(answer: Payload) -> dict[str, bytes]:
    """What the leader sent for each party, if it is that."""
    boxes = answer.get("boxes")
    if type(boxes) is not dict or any(type(box) is not bytes for box in boxes.values()):
        return {}
    return boxes


def _agreed(answers: Mapping[str, Payload], session: KeySession) -> tuple[str, ...]:
    return tuple(
        name
        for name in session.roster
        if name in answers
        and isinstance(session_name := answers[name].get("session"), bytes)
        and session_name == session.name
    )


class KeyedClient:
    """What parties with keys do alike: phases, tags that serve once, and who may read a sum."""

    def __init__(self, name: str, settings: SumSettings, fewest: int) -> None:
        self.fewest = max(fewest, settings.min_parties)
        self._ring = KeyRing(name, Terms.of(settings, fewest), self.fewest, settings.identity)
        self._phases = self._ring.phases  # the mode adds its own
        self._readers = TextTable()  # of each tag since the last key exchange
        self._ledger = Ledger(settings.ledger)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ring!r})"

    def handle(self, phase: str, message: Payload) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        if phase not in self._phases:
            raise SumRefused(f"there is no phase '{phase}'")
        if phase == "keys":
            self._forget()
        return self._phases[phase](message)

    def wrap(self, name: str, data: bytes) -> bytes:
        """See :class:`autofgl.secure.SumClient`."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = AESGCM(self._ring.group_key("wrap", name))
        return nonce + cipher.encrypt(nonce, data, self._ring.session)

    def unwrap(self, name: str, box: bytes) -> bytes:
        """See :class:`autofgl.secure.SumClient`."""
        cipher = AESGCM(self._ring.group_key("wrap", name))
        try:
            return cipher.decrypt(box[:_NONCE_BYTES], box[_NONCE_BYTES:], self._ring.session)
        except (InvalidTag, ValueError) as error:
            raise SecureSumError(
                f"{self._ring.name} refuses '{name}': it was tampered with, or made with other keys"
            ) from error

    def _forget(self) -> None:
        """New keys are to come: older sums are lost."""
        self._readers.clear()

    def _require_new(self, tag: str) -> None:
        self._ring.require()
        if self._readers.get(tag) is not None:
            raise SumRefused(f"{self._ring.name} used the tag '{tag}' before")

    def _note(self, header: Header, integers: NDArray[np.int64], active: bool) -> None:
        """Note a contribution before it is sent; a tag stands for the same values for ever."""
        digest = digest_contribution(header, integers, active)
        if self._ledger.note(header.tag, "vectors", digest) != digest:
            raise SumRefused(
                f"{self._ring.name} used the tag '{header.tag}' before, for other values: a name "
                "of a sum stands for one sum, over restarts too"
            )
        self._readers.add([(header.tag, header.reveal)])

    def _sealed_header(self, sealed: Payload) -> Header:
        """The header of a sum that the parties may read."""
        header = Header.from_payload(sealed)
        if self._readers.get(header.tag) == "server":
            raise SumRefused(f"{self._ring.name} contributed to '{header.tag}' for the server")
        self._require_session(header)
        return header

    def _require_session(self, header: Header) -> None:
        if header.session != self._ring.session:
            raise SecureSumError(f"'{header.tag}' was made with other keys")


class KeyedServer:
    """What servers of parties with keys do alike; ``fewest`` parties' sums may be revealed."""

    def __init__(self, settings: SumSettings, fewest: int) -> None:
        self._parties = settings.parties
        self.fewest = self._fewest = fewest
        self._session = KeySession(b"", ())
        self._ledger = Ledger(settings.ledger)
        self.wrong: tuple[str, ...] = ()

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.SumServer`."""
        self._session = agree(ask, self._parties, self._fewest)

    def _common_header(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload]
    ) -> Header:
        name, roster = self._session.name, self._session.roster
        return common_header(tag, reveal, name, contributions, roster, self._fewest)

    def _noted(self, tag: str, contributions: Mapping[str, Payload]) -> dict[str, Payload]:
        """All contributions, or those to the same sum as before if the tag was used."""
        noted = self._ledger.get(tag, LEFT_OUT) or self._ledger.get(tag, ABSENT)
        if noted is None:
            return dict(contributions)
        parties, absent = json.loads(noted)
        names = set(json.loads(self._ledger.get(parties, PARTIES) or "[]")).difference(absent)
        if missing := names - contributions.keys():
            raise SumNotOpened(self._bound(tag, missing))
        return {name: sent for name, sent in contributions.items() if name in names}

    @cached_property
    def _all_parties(self) -> tuple[str, str]:
        """A short name for the parties of this job, and the parties."""
        parties = json.dumps(sorted(self._parties))
        return hashlib.sha256(parties.encode()).hexdigest()[:16], parties

    def _note_contributors(self, tag: str, names: Iterable[str], kind: str = ABSENT) -> None:
        """Note whose contributions make a sum, before it is opened.

        That is who of the parties is absent; these change from one job to another, and are noted
        once.
        """
        key, parties = self._all_parties
        self._ledger.note(key, PARTIES, parties)
        absent = json.dumps([key, sorted(set(self._parties).difference(names))])
        if kind == ABSENT or absent != self._ledger.get(tag, ABSENT):
            self._ledger.note(tag, kind, absent)

    def _bound(self, tag: str, missing: Collection[str]) -> str:
        return (
            f"'{tag}' was begun with {', '.join(sorted(missing))} and cannot be made without: a "
            "name of a sum stands for one sum"
        )
