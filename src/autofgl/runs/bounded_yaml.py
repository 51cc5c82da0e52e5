"""YAML of moderate size, without aliases: what a configuration needs, and nothing that explodes.

A few lines of YAML whose aliases repeat each other stand for gigabytes once they are written out
("billion laughs"), and a line of brackets exhausts the stack.
"""

from collections import Counter
from typing import Any

import yaml

from autofgl.errors import UserError

MAX_CHARACTERS = 1 << 18  # some seconds of parsing
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
