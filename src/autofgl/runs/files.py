"""Files of a run folder, read with care: damage and hostile contents end in one line.

``run.json`` has a run's random id and the digests of those of its files that stay as they are, so
that a damaged or changed file is noticed before anything is built on it. Folders of earlier
versions have none; theirs are read as they are.

YAML is of moderate size and without aliases. A few lines whose aliases repeat each other stand for
gigabytes once they are written out ("billion laughs"), and a line of brackets exhausts the stack.
"""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from autofgl.atomic import write_text
from autofgl.errors import UserError

MANIFEST_FILE = "run.json"
MAX_CHARACTERS = 1 << 18  # some seconds of parsing
MAX_DEPTH = 20


@dataclass(frozen=True)
class Manifest:
    """The id of the run in a folder, and the digests of its files by their names."""

    folder: Path
    run: str = ""
    digests: dict[str, str] = field(default_factory=dict)

    @classmethod
    def new(cls, folder: Path) -> "Manifest":
        """For a run that begins."""
        return cls(folder, secrets.token_hex(16))

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """That of a folder; without id and digests if it has none.

        Raises:
            UserError: It is damaged.
        """
        path = folder / MANIFEST_FILE
        if not path.exists():
            return cls(folder)
        content = parse_json(path, file_bytes(path))
        run, digests = content.get("run"), content.get("digests")
        if not isinstance(run, str) or not isinstance(digests, dict):
            raise UserError(f"{path} is damaged: it has no id of a run, or no digests")
        if content.get("check") != _check(run, digests):
            raise UserError(f"{path} is damaged: its contents do not fit together")
        return cls(folder, run, digests)

    def sealed(self, first: Iterable[str], names: Iterable[str]) -> "Manifest":
        """With the digests of these files, and of no others; those of ``first`` never change."""
        known = {name: self.digests[name] for name in first if name in self.digests}
        missing = [name for name in (*first, *names) if name not in known]
        new = {name: _digest((self.folder / name).read_bytes()) for name in missing}
        return replace(self, digests={**known, **new})

    def write(self) -> None:
        """Put it into the folder."""
        content = {"format": 1, "run": self.run, "digests": self.digests}
        content["check"] = _check(self.run, self.digests)
        write_text(self.folder / MANIFEST_FILE, json.dumps(content, indent=2) + "\n")

    def content(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            UserError: It cannot be read, or is not what was written.
        """
        data = file_bytes(self.folder / name)
        if name in self.digests and self.digests[name] != _digest(data):
            ways = "put back a copy of it, or start the run again"
            raise UserError(
                f"{self.folder / name} was damaged or changed since it was written: {ways}"
            )
        return data


def file_bytes(path: Path) -> bytes:
    """All bytes of a file; a ``UserError`` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def parse_json(path: Path, data: bytes) -> dict[str, Any]:
    """The object in a JSON file's bytes; a ``UserError`` if there is none."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: it holds no JSON object")
    return content


def _check(run: str, digests: dict[str, str]) -> str:
    return _digest(json.dumps([run, digests], sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def parse_yaml(text: str, where: str) -> Any:
    """The values of a YAML document; a ``UserError`` that begins with ``where`` if it is none."""
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"{where} is too large: at most {MAX_CHARACTERS:,} characters are read")
    try:
        return yaml.load(text, _BoundedLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise UserError(f"{where} is not YAML: {problem}") from error


class _BoundedLoader(yaml.SafeLoader):
    """The safe loader, with an end to nesting, without aliases, and every key once."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not read here")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for name, count in names.most_common(1):
            if count > 1:  # one of the two values would go unseen
                raise yaml.constructor.ConstructorError(None, None, f"'{name}' is given twice")
        return super().construct_mapping(node, deep)
