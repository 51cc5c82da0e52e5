"""The exceptions that AutoFGL raises on purpose.

Every one of them is a sentence for a person: what was wrong, where, and what to do. The command
line prints that sentence and exits with code 2 for :class:`UserError`, 1 for the others.
"""

import difflib
from collections.abc import Iterable


class AutoFGLError(Exception):
    """Base of all errors raised by this package."""


class UserError(AutoFGLError):
    """Something the user gave is wrong: a name, an option, a file."""


class GraphError(UserError):
    """A graph or a set of client graphs is malformed."""


class PayloadError(AutoFGLError):
    """Bytes or values that may not cross between parties."""


class FederationError(AutoFGLError):
    """Too few parties answered, or the federation cannot go on."""


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """The error for a misspelt name: the nearest choices, or all of them."""
    known = sorted(choices)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(known)}"
    return UserError(f"unknown {kind} '{name}': {hint}")
