"""YAML as configurations and policies have it: small, flat, and nothing that unfolds.

A few hundred bytes of aliases can stand for gigabytes, and a few kilobytes of brackets exhaust the
interpreter's stack. Nobody writes such a file by hand, so that it is refused as soon as it is seen.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from autofgl.errors import UserError

#: Bytes of a file, and how deep lists and mappings may lie in each other.
LARGEST_FILE = 1 << 18
_DEEPEST = 20


class _Loader(yaml.SafeLoader):
    """Plain values without aliases, and every key once."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node, unless it stands for another one or lies too deep."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "aliases (*) are not allowed here", mark)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ComposerError(None, None, "lists or mappings are nested too deeply", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; of a key that is given twice one value would go unseen."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key '{key.value}' is given twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        ValueError: It is too large, too deep, has aliases, or is no YAML; in one line.
    """
    if len(text) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE:,} characters")
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ValueError(f"{error.problem or error.context}{where}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def read_config_file(path: Path, may_be_empty: bool = False) -> dict[str, Any]:
    """The keys of a YAML configuration file."""
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: it is not text in UTF-8") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{path} is not YAML as it should be: {error}") from error
    if values is None and may_be_empty:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a configuration: it must be a mapping of keys to values")
    return values
