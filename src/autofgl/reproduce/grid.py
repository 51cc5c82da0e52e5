"""Tables in Markdown."""

from collections.abc import Sequence

#: What stands where there is no figure.
NOTHING = "–"


def grid(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(_joined(words) for words in (headings, ["---"] * len(headings), *lines))


def number(value: float | None, digits: int) -> str:
    """A number, or a dash for none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def _joined(words: Sequence[str]) -> str:
    safe = (word.replace("|", "\\|").replace("\n", " ") for word in words)
    return f"| {' | '.join(safe)} |"
