"""Who a party is: the names that it may have, and proof that it is the one of that name.

A name becomes part of paths (``checkpoint/round-00000025/NAME.afp``) and an address on the network,
so two names that a disk takes for one, or one that the server has itself, would mix up two parties.

A relaying server could put its own public keys in place of the parties', or invent parties. So a
party signs what it sends to the others in its own name, and believes only what they signed.
"""

import hashlib
import hmac
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from autofgl.errors import UserError

#: Names of those who run a federation: ``server.afp`` is the server's part of a checkpoint.
RESERVED = frozenset({"server", "coordinator", "admin"})
_LONGEST_NAME = 100
#: Bytes that a group's secret has at least; fewer can be guessed.
FEWEST_SECRET_BYTES = 16
_MOST_SECRET_BYTES = 1 << 16
_LENGTH_BYTES = 4


class Identity(Protocol):
    """Proves who a party is: signs in its name, and tells whether another party signed."""

    def sign(self, data: bytes) -> bytes:
        """This party's signature."""

    def verify(self, name: str, data: bytes, signature: bytes) -> bool:
        """Whether the party of that name signed the data."""


class GroupSecret:
    """A member of a group that shares a secret which the server does not know.

    It signs with HMAC-SHA256, under a key of the member's own name. Whoever lacks the secret can
    speak for nobody. Whoever has it could speak for every member, so members must trust each other
    not to hand it to the server; certificates do not ask for that.
    """

    def __init__(self, name: str, secret: bytes) -> None:
        if len(secret) < FEWEST_SECRET_BYTES:
            raise UserError(
                f"a secret needs {FEWEST_SECRET_BYTES} bytes or more, this one has {len(secret)}: "
                "make one with openssl rand -hex 32"
            )
        self._name = name
        self._secret = secret

    def __repr__(self) -> str:
        return f"GroupSecret({self._name})"

    def sign(self, data: bytes) -> bytes:
        """See :class:`Identity`."""
        return self._code(self._name, data)

    def verify(self, name: str, data: bytes, signature: bytes) -> bool:
        """See :class:`Identity`."""
        return hmac.compare_digest(self._code(name, data), signature)

    def _code(self, name: str, data: bytes) -> bytes:
        own = join_parts(b"autofgl member", name.encode())
        key = hmac.digest(self._secret, own, hashlib.sha256)
        return hmac.digest(key, data, hashlib.sha256)


class CombinedIdentity:
    """Several identities of one party; what all of them signed is signed.

    So a server that holds the certificate authority still lacks the sites' own secret.
    """

    def __init__(self, identities: Sequence[Identity]) -> None:
        self._identities = tuple(identities)

    def __repr__(self) -> str:
        return f"CombinedIdentity({', '.join(map(repr, self._identities))})"

    def sign(self, data: bytes) -> bytes:
        """See :class:`Identity`."""
        return join_parts(*(identity.sign(data) for identity in self._identities))

    def verify(self, name: str, data: bytes, signature: bytes) -> bool:
        """See :class:`Identity`."""
        try:
            parts = split_parts(signature, len(self._identities))
        except ValueError:
            return False
        pairs = zip(self._identities, parts, strict=True)
        return all(identity.verify(name, data, part) for identity, part in pairs)


def read_secret(path: Path) -> bytes:
    """The secret in a file that its owner alone may read; line ends at its end do not count.

    Raises:
        UserError: There is no such file, others may read it, or it is too short to be a secret.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read(_MOST_SECRET_BYTES + 1).rstrip(b"\r\n")
    except OSError as error:
        raise UserError(f"{path}: the secret cannot be read: {error.strerror}") from error
    if os.name == "posix" and mode & 0o077:
        raise UserError(f"{path}: other users may read this secret: chmod 600 {path}")
    if not FEWEST_SECRET_BYTES <= len(secret) <= _MOST_SECRET_BYTES:
        raise UserError(
            f"{path}: a secret has {FEWEST_SECRET_BYTES} to {_MOST_SECRET_BYTES} bytes, this one "
            f"{len(secret)}: make one with openssl rand -hex 32"
        )
    return secret


def join_parts(*parts: bytes) -> bytes:
    """Several pieces as one, so that no two different lists give the same bytes."""
    return b"".join([len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts])


def split_parts(data: bytes, count: int) -> list[bytes]:
    """Undo :func:`join_parts`; ``ValueError`` if the data are not so many parts."""
    parts = []
    for _ in range(count):
        size = int.from_bytes(data[:_LENGTH_BYTES], "big")
        parts.append(data[_LENGTH_BYTES : _LENGTH_BYTES + size])
        if len(data) < _LENGTH_BYTES + size:
            raise ValueError("a part is missing")
        data = data[_LENGTH_BYTES + size :]
    if data:
        raise ValueError("there are more parts")
    return parts


def check_names(names: Iterable[str], what: str = "client") -> None:
    """Refuse names that nobody may have, and such as are the same on some disk; a ``UserError``."""
    taken: dict[str, str] = {}
    for name in names:
        check_name(name, what)
        key = _folded(name)
        if key in taken:
            other = f"two {what}s are called '{name}'"
            if taken[key] != name:
                other = f"{what}s '{taken[key]}' and '{name}' differ in case or form only"
            raise UserError(f"{other}: give each its own name")
        taken[key] = name


def check_name(name: str, what: str = "client") -> None:
    """Refuse a name that nobody may have; a ``UserError``."""
    problem = _problem(name)
    if problem:
        raise UserError(f"{name[:_LONGEST_NAME]!r} is no name for a {what}: {problem}")


def _problem(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if len(name.encode()) > _LONGEST_NAME:
        return f"it is longer than {_LONGEST_NAME} bytes"
    if _folded(name) in RESERVED:
        return "it is reserved for the run itself"
    if name[0] in ".@- " or name[-1] in ". ":
        return "it must not begin with '.', '@', '-' or a blank, nor end with '.' or a blank"
    if any(char in "/\\:" or not char.isprintable() for char in name):
        return "it must not have '/', '\\', ':' or control characters"
    return ""


def _folded(name: str) -> str:
    """What disks that know no case make of a name."""
    return unicodedata.normalize("NFKC", name.strip()).casefold()
