"""Docstrings as the reference shows them: without roles of Sphinx, examples as code.

``mkdocs.yml`` registers the class as an extension of mkdocstrings.
"""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?([^`<]+?)(?: <[^`>]+>)?`")


class ReferenceDocstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """See :class:`griffe.Extension`."""
        if obj.docstring is not None:
            obj.docstring.value = plain_docstring(obj.docstring.value)


def plain_docstring(text: str) -> str:
    """Names in code instead of roles, and a section of examples that is code.

    >>> plain_docstring("As :func:`autofgl.run` does")
    'As `autofgl.run` does'
    """
    text = _ROLE.sub(r"`\1`", text)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
