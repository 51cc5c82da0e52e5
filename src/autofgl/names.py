"""Names of clients and sites: which may be one, and which are taken.

A name becomes part of paths (``checkpoint/round-00000025/NAME.afp``) and an address on the network,
so two names that a disk takes for one, or one that the server has itself, would mix up two parties.
"""

import unicodedata
from collections.abc import Iterable

from autofgl.errors import UserError

#: Names of those who run a federation: ``server.afp`` is the server's part of a checkpoint.
RESERVED = frozenset({"server", "coordinator", "admin"})
_LONGEST = 100


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
        raise UserError(f"{name[:_LONGEST]!r} is no name for a {what}: {problem}")


def _problem(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if len(name.encode()) > _LONGEST:
        return f"it is longer than {_LONGEST} bytes"
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
