"""YAML of moderate size, without aliases: what a configuration needs, and nothing that explodes.

A few lines of YAML whose aliases repeat each other stand for gigabytes once they are written out
("billion laughs"), and a line of brackets exhausts the stack.
"""

from typing import Any

import yaml

from autofgl.errors import UserError

MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 20


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
    """The safe loader, with an end to nesting and without aliases."""

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
