"""The exceptions that AutoFGL raises on purpose.

Every one of them is a sentence for a person: what was wrong, where, and what to do. The command
line prints that sentence and exits with the code of its class.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar


class AutoFGLError(Exception):
    """Base of all errors raised by this package."""

    exit_code: ClassVar[int] = 1


class UserError(AutoFGLError):
    """Something the user gave is wrong: a name, an option, a file."""

    exit_code: ClassVar[int] = 2


class GraphError(UserError):
    """A graph or a set of client graphs is malformed."""


class GraphNotice(UserWarning):
    """What was done with edges that did not come as they are used; a warning, not an error."""


class PayloadError(AutoFGLError):
    """Bytes or values that may not cross between parties."""


class FederationError(AutoFGLError):
    """Too few parties answered, or the federation cannot go on."""


class DiskError(UserError):
    """A file cannot be written: a full disk, or a folder that is read-only, gone, or no folder.

    Its ``reason`` is what the operating system says.
    """

    def __init__(self, path: object, reason: str) -> None:
        way = "make sure that its folder can be written and has room"
        super().__init__(f"cannot write {path}: {reason}: {way}")
        self.reason = reason


class RunFolderError(AutoFGLError):
    """The folder of a run that is going on was deleted, or can no longer be written."""


class Interrupted(AutoFGLError):
    """The user stopped the run; it is saved."""

    exit_code: ClassVar[int] = 130


class PartiesReturned(AutoFGLError):
    """Parties that were lost are there again; the run is saved, to be gone on with together."""

    def __init__(self, parties: Sequence[str]) -> None:
        super().__init__(f"{', '.join(parties)} can take part again")
        self.parties = parties


def one_line(text: str, limit: int = 200) -> str:
    """A text as one line of printable characters, whoever wrote it: no line breaks, no escape codes
    that a terminal would obey, no marks that turn the direction of writing.
    """
    words = " ".join(text[: 8 * limit].split())
    safe = "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)
    return safe if len(safe) <= limit else f"{safe[: limit - 1]}…"


def for_others(text: str, own: bool = True) -> str:
    """A text without what is nobody else's affair: paths, and numbers that may be data.

    In our ``own`` sentences short whole numbers stay, such as how many clients a sum needs.
    """
    hidden = _PATH.sub("…", text)
    return one_line((_MAGNITUDE if own else _NUMBER).sub("#", hidden))


_PATH = re.compile(
    r"(?<![\w<])(?:[A-Za-z]:\\|~?/)[^\s'\",;:()]*[^\s'\",;:().]|[^\s'\",;:()]+/[^\s'\",;:()]*\.\w+"
)
_NUMBER = re.compile(r"(?<![\w-])[-+]?\d(?:[\d,]*\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")
_MAGNITUDE = re.compile(
    r"(?<![\w-])[-+]?(?:\d[\d,]*\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d[\d,]{3,})(?!\w)"
)


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """The error for a misspelled name: the nearest choices, or all of them."""
    names = sorted(choices)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(names)}"
    return UserError(f"unknown {kind} '{name}': {hint}")
