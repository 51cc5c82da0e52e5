"""Rows of a leaderboard that others can verify: digests of run folders, and signatures.

A row names a digest of its run folder. With a key every row is signed by itself (Ed25519, RFC 8032,
over the row's canonical JSON), so that it may be quoted alone: whoever has the public key and the
run folder can tell that the row is what the key's owner has published, and of that folder.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from autofgl.errors import UserError
from autofgl.runs.files import Manifest, parse_json

#: Keys of a row that its run folder's result has as well.
_OF_RESULT = ("test_accuracy", "val_accuracy", "rounds")
_PURPOSE = b"autofgl leaderboard row\n"


class SigningKey:
    """Signs rows."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"SigningKey({self.public})"

    @classmethod
    def at(cls, path: Path) -> "SigningKey":
        """The private key in a PEM file, for its owner alone; a new one if there is no such file.

        Raises:
            UserError: There is something else, or others may read it.
        """
        try:
            if not path.exists():
                return cls._made(path)
            mode, content = path.stat().st_mode, path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot use the key {path}: {error.strerror}") from error
        if os.name == "posix" and mode & 0o077:
            raise UserError(f"{path}: other users may read this key: chmod 600 {path}")
        try:
            key = load_pem_private_key(content, None)
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} is no private key in PEM form without a password") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise UserError(
                f"{path} is no Ed25519 key: openssl genpkey -algorithm ed25519 makes one"
            )
        return cls(key)

    @classmethod
    def _made(cls, path: Path) -> "SigningKey":
        key = Ed25519PrivateKey.generate()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600, exist_ok=False)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return cls(key)

    @property
    def public(self) -> str:
        """The public half, in hexadecimal: by it others verify."""
        return self._key.public_key().public_bytes_raw().hex()

    def signed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row with its signature."""
        return {**row, "signature": self._key.sign(_canonical(row)).hex()}


def is_signed(row: Mapping[str, Any], public: str) -> bool:
    """Whether the owner of a public key has signed a row.

    Raises:
        UserError: That is no public key.
    """
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    except ValueError as error:
        raise UserError(f"'{public}' is no Ed25519 key of 64 hexadecimal digits") from error
    try:
        key.verify(bytes.fromhex(str(row.get("signature", ""))), _canonical(row))
    except (InvalidSignature, ValueError):
        return False
    return True


def _canonical(row: Mapping[str, Any]) -> bytes:
    """A row in one form of its many, without its signature."""
    bare = {key: value for key, value in row.items() if key != "signature"}
    return _PURPOSE + json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()


def folder_digest(folder: Path) -> str:
    """SHA-256 over the digests of a run folder's files and over its result, in hexadecimal.

    Raises:
        UserError: A file is not what was written.
    """
    manifest = Manifest.read(folder)
    for name in manifest.digests:
        manifest.content(name)
    whole = hashlib.sha256(json.dumps(manifest.digests, sort_keys=True).encode())
    whole.update((folder / "result.json").read_bytes())
    return whole.hexdigest()


@dataclass(frozen=True)
class Verified:
    """A leaderboard whose rows are those of their run folders: how many, and who signed them."""

    rows: int
    public_key: str = ""  #: none if they are not signed


def verify_rows(out: Path, public_key: str = "") -> Verified:
    """Compare the rows of a leaderboard with their run folders, and check their signatures.

    ``public_key`` is the one that must have signed; else that which the leaderboard names, if any.

    Raises:
        UserError: A folder is missing, or a row is not of it, or not signed by that key.
    """
    path = out / "leaderboard.json"
    if not path.is_file():
        raise UserError(f"{path}: there is no leaderboard")
    content = parse_json(path, path.read_bytes())
    key = public_key or str(content.get("public_key", ""))
    for row in content["rows"]:
        folder = out / row["folder"]
        if not (folder / "result.json").is_file() or folder_digest(folder) != row["digest"]:
            raise UserError(f"{folder} is missing, or not the one of {path}")
        result = parse_json(folder / "result.json", (folder / "result.json").read_bytes())
        if any(row[name] != result.get(name) for name in _OF_RESULT):
            raise UserError(f"{path} has other figures of {folder} than its result.json")
        if key and not is_signed(row, key):
            raise UserError(f"{path}: the row of {folder} is not signed by {key}")
    return Verified(len(content["rows"]), key)
