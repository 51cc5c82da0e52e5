"""Keys: a party has one secret with every other party, and one with all of them together.

The server relays the parties' X25519 public keys. From Diffie and Hellman's secret of two parties
HKDF-SHA256 derives all that the two need; AES-GCM protects what they tell each other through the
server, with its purpose, sum, sender and receiver as associated data, so that nothing can be
replayed elsewhere. One party, the leader, draws the group secret and sends it to each of the
others that way. The server drives the exchange and learns public keys only.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autofgl.secure import Ask, Payload, Reveal, SecureSumError, SumRefused, SumSettings
from autofgl.secure.contributions import (
    Header,
    Layout,
    common_header,
    take_bytes_by_name,
    take_field,
    unfit_contributions,
)

PUBLIC_BYTES = 32
_NONCE_BYTES = 12


class KeyRing:
    """The keys of one party, which accepts no smaller roster; they live in memory only.

    The shared secret is bytes that the server does not know, if the parties have such.
    """

    def __init__(
        self, name: str, parties: tuple[str, ...], fewest: int, shared_secret: bytes = b""
    ) -> None:
        self.name: Final = name
        self.session = b""
        self.roster: tuple[str, ...] = ()
        self.peers: tuple[str, ...] = ()
        self._parties = parties
        self._fewest = fewest
        self._salt = hashlib.sha256(bind_parts("autofgl shared secret", shared_secret)).digest()
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
        return {"keys": self._keys, "roster": self._roster, "lead": self._lead, "group": self._join}

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
        """Forget everything and draw a new key pair."""
        self.session, self.roster, self.peers = b"", (), ()
        self._pairs, self._ciphers, self._offer, self._group = {}, {}, b"", b""
        self._private = X25519PrivateKey.generate()
        return {"public": _public(self._private)}

    def _roster(self, message: Payload) -> Payload:
        """Learn the others' public keys and derive the pairwise secrets."""
        keys = take_bytes_by_name(message, "publics", PUBLIC_BYTES)
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
        session = session_id(keys)
        self._pairs = {
            peer: self._pair_secret(self._private, peer, public, session)
            for peer, public in keys.items()
            if peer != self.name
        }
        self.roster = tuple(name for name in self._parties if name in keys)
        self.peers = tuple(peer for peer in self.roster if peer != self.name)
        self.session = session
        return {"session": session}

    def _lead(self, message: Payload) -> Payload:  # noqa: ARG002
        """Draw a group secret and wrap it for every other party."""
        if not self.session or self._group:
            raise SumRefused(f"{self.name} cannot lead: it has no roster, or a group key already")
        self._offer = os.urandom(32)
        return {"boxes": {peer: self.seal(peer, "group", "", self._offer) for peer in self.peers}}

    def _join(self, message: Payload) -> Payload:
        """Take the group secret from the leader."""
        leader = take_field(message, "leader", str)
        if not self.session or self._group:
            raise SumRefused(f"{self.name} has no roster, or a group key already")
        if leader == self.name:
            group = self._offer
        else:
            group = self.unseal(leader, "group", "", take_field(message, "box", bytes))
        if len(group) != 32:
            raise SecureSumError(f"{self.name} got no group key from '{leader}'")
        self._group, self._offer = group, b""
        return {"session": self.session}

    def _pair_secret(
        self, private: X25519PrivateKey, peer: str, public: bytes, session: bytes
    ) -> bytes:
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise SecureSumError(f"the public key of '{peer}' is not valid") from error
        info = bind_parts("autofgl pair", session, *sorted((self.name, peer)))
        return HKDF(SHA256(), 32, self._salt, info).derive(shared)


def session_id(publics: Mapping[str, bytes]) -> bytes:
    """Names a set of public keys. Parties that compare it by other means have no one between."""
    parts = [part for name in sorted(publics) for part in (name.encode(), publics[name])]
    return hashlib.sha256(bind_parts("autofgl session", *parts)).digest()[:16]


def _public(private: X25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _expand(secret: bytes, purpose: str, tag: str, size: int = 32) -> bytes:
    return HKDFExpand(SHA256(), size, bind_parts("autofgl", purpose, tag)).derive(secret)


def bind_parts(*parts: str | bytes) -> bytes:
    """Several pieces as one, so that no two different lists give the same bytes."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in data)


@dataclass(frozen=True)
class KeySession:
    """Parties that share keys, in order; the name is :func:`session_id` of their public keys."""

    name: bytes
    roster: tuple[str, ...]


def agree(ask: Ask, parties: tuple[str, ...], fewest: int) -> KeySession:
    """Drive the key exchange of :class:`KeyRing`.

    When a party is lost on the way, the others start again without it, while they are enough.
    """
    left = parties
    while len(left) >= fewest:
        answers = ask("keys", {name: {} for name in left})
        publics = {
            name: take_field(answers[name], "public", bytes) for name in left if name in answers
        }
        if wrong := [name for name, public in publics.items() if len(public) != PUBLIC_BYTES]:
            raise SecureSumError(f"malformed public key of {', '.join(wrong)}")
        session = KeySession(session_id(publics), tuple(publics))
        left = session.roster
        if len(left) < fewest:
            break
        left = _agreed(ask("roster", {name: {"publics": publics} for name in left}), session)
        if left == session.roster:
            left = _share_group_key(ask, session)
            if left == session.roster:
                return session
    raise SecureSumError(
        f"the key exchange needs {fewest} parties, {len(left)} answered "
        f"(no answer from {', '.join(name for name in parties if name not in left)})"
    )


def _share_group_key(ask: Ask, session: KeySession) -> tuple[str, ...]:
    """Let the first party that answers draw the group key; who has it in the end."""
    for leader in session.roster:
        answers = ask("lead", {leader: {}})
        if leader in answers:
            boxes = take_bytes_by_name(answers[leader], "boxes")
            messages = {
                name: {"leader": leader, "box": boxes.get(name, b"")} for name in session.roster
            }
            return _agreed(ask("group", messages), session)
    return ()


def _agreed(answers: Mapping[str, Payload], session: KeySession) -> tuple[str, ...]:
    return tuple(
        name
        for name in session.roster
        if name in answers and answers[name].get("session") == session.name
    )


class KeyedClient:
    """What parties with keys do alike: phases, tags that serve once, and who may read a sum."""

    def __init__(self, name: str, settings: SumSettings, fewest: int) -> None:
        self._ring = KeyRing(name, settings.parties, fewest, settings.shared_secret)
        self._phases = self._ring.phases  # the mode adds its own
        self._readers: dict[str, str] = {}  # of each tag; empty if this party did not contribute

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ring!r})"

    def handle(self, phase: str, message: Payload) -> Payload:
        """See :class:`autofgl.secure.SumClient`."""
        if phase not in self._phases:
            raise SumRefused(f"there is no phase '{phase}'")
        if phase == "keys":
            self._forget()
        return self._phases[phase](message)

    def _forget(self) -> None:
        """New keys are to come: older sums are lost."""
        self._readers.clear()

    def _require_new(self, tag: str) -> None:
        self._ring.require()
        if tag in self._readers:
            raise SumRefused(f"{self._ring.name} used the tag '{tag}' before")

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
        self._fewest = fewest
        self._session = KeySession(b"", ())

    def setup(self, ask: Ask) -> None:
        """See :class:`autofgl.secure.SumServer`."""
        self._session = agree(ask, self._parties, self._fewest)

    @property
    def fewest(self) -> int:
        """See :class:`autofgl.secure.SumServer`."""
        return self._fewest

    def unfit(
        self,
        tag: str,
        reveal: Reveal,
        contributions: Mapping[str, Payload],
        names: Collection[str],
    ) -> dict[str, str]:
        """See :class:`autofgl.secure.SumServer`."""
        session, check = self._session.name, self._check_body
        return unfit_contributions(tag, reveal, session, contributions, names, check)

    def _check_body(self, message: Payload, layout: Layout) -> None:
        """Raise unless what is beside a contribution's header belongs to its layout."""

    def _common_header(
        self, tag: str, reveal: Reveal, contributions: Mapping[str, Payload]
    ) -> Header:
        name, roster = self._session.name, self._session.roster
        return common_header(tag, reveal, name, contributions, roster, self._fewest)
