"""Fills tables into the pages when the site is built, each from its one source.

==========================  ================================================================
marker                      becomes
==========================  ================================================================
``<!-- leaderboard -->``    the first table of what was measured in ``leaderboard.md``
``<!-- methods -->``        every method and what it does, from the catalog
``<!-- privacy: NAME -->``  who learns what, from :mod:`autofgl.methods.privacy`
``<!-- settings: NAME -->`` a method's settings, from the fields of its settings class
==========================  ================================================================

``mkdocs.yml`` registers this file; MkDocs calls :func:`on_page_markdown` for every page.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autofgl.methods.catalog import METHODS, settings_of
from autofgl.methods.privacy import WHO_LEARNS_WHAT

_MARKER = re.compile(
    r"^<!-- (leaderboard|methods|privacy|settings)(?:: ([\w-]+))? -->$", re.MULTILINE
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs' hook: a page's Markdown before it becomes HTML."""
    return fill_tables(markdown)


def fill_tables(markdown: str) -> str:
    """A page with every marker replaced by its table.

    Raises:
        UserError: A marker names a method that does not exist.
        KeyError: A method has no privacy table.
    """
    return _MARKER.sub(_table_of, markdown)


def leaderboard_table() -> str:
    """The first table of what was measured, from the page that has all of it."""
    page = (Path(__file__).parent / "leaderboard.md").read_text()
    measured = page.partition("## What we measured")[2]
    lines = measured.partition("\n\n|")[2].partition("\n\n")[0].splitlines()
    return "\n".join(["|" + lines[0], *lines[1:]])


def methods_table() -> str:
    """Every method, with a link to its section."""
    rows = [
        (f"[`{name}`](#{name})", method.summary, method.sharing, method.search)
        for name, method in METHODS.items()
    ]
    return _table(("method", "what it does", "sharing", "search"), rows)


def privacy_table(method: str) -> str:
    """Who learns what: always, and what depends on the secure mode."""
    headings = ("who", "learns", "besides, with `--secure none`", "besides, with secure sums")
    return _table(headings, WHO_LEARNS_WHAT[method])


def settings_table(method: str) -> str:
    """Every setting with its default and its meaning, folded."""
    rows = [
        (f"`{key}`", _default(field.default), " ".join((field.description or "").split()))
        for key, field in settings_of(method).model_fields.items()
    ]
    table = _table(("setting", "default", "meaning"), rows)
    summary = f"<summary>All {len(rows)} settings of <code>{method}</code></summary>"
    return f'<details markdown="1">\n{summary}\n\n{table}\n\n</details>'


def _table_of(marker: re.Match[str]) -> str:
    kind, method = marker.groups()
    if kind == "methods":
        return methods_table()
    if kind == "leaderboard":
        return leaderboard_table()
    return privacy_table(method) if kind == "privacy" else settings_table(method)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table without the columns that are empty in every row."""
    columns = [(name, *cells) for name, *cells in zip(headings, *rows, strict=True) if any(cells)]
    head, *body = zip(*columns, strict=True)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _default(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`" if text else "–"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
