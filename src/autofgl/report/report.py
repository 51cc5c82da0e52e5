"""``report.html`` of a run, finished or not."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.report.architecture import draw_network, standalone
from autofgl.report.clients import clients, importance, policies
from autofgl.report.curves import curves, more_figures
from autofgl.report.effort import effort
from autofgl.report.markup import element
from autofgl.report.overview import configuration, headline, network, result_figures, title
from autofgl.report.page import page
from autofgl.report.population import population
from autofgl.report.privacy import privacy
from autofgl.report.record import RunRecord
from autofgl.report.section import Section
from autofgl.report.style import NETWORK_STYLE

Part: TypeAlias = Callable[[RunRecord], Section | None]

#: The sections in their order, with names for a part that cannot be shown.
_PARTS: Sequence[tuple[str, Part]] = (
    ("Network", network),
    ("Curves", curves),
    ("Search", population),
    ("Clients", clients),
    ("Sampling policy", policies),
    ("Hyper-parameters", importance),
    ("Traffic and time", effort),
    ("More figures", more_figures),
    ("Other results", result_figures),
    ("Who learnt what", privacy),
    ("Configuration", configuration),
)

FILE = "report.html"


def write_report(folder: Path) -> Path:
    """Write ``report.html``, and ``architecture.svg`` if there is a network, into a run folder.

    Returns:
        Where the report is.

    Raises:
        UserError: There is no run.
        OSError: The folder cannot be written.
    """
    run = RunRecord.read(folder)
    write_text(folder / FILE, render(run))
    if run.network is not None:
        drawing = standalone(draw_network(run.network), NETWORK_STYLE)
        write_text(folder / "architecture.svg", drawing)
    return folder / FILE


def leave_report(folder: Path, console: Console | None) -> None:
    """:func:`write_report` at the end of a run, which nothing about its report may fail."""
    try:
        write_report(folder)
    except Exception as error:
        if console is not None:
            console.print(f"no report was written: {error}", markup=False, soft_wrap=True)


def render(run: RunRecord) -> str:
    """The whole page."""
    return page(title(run), headline(run), sections(run))


def sections(run: RunRecord) -> list[Section]:
    """The parts that have something to show."""
    found = (_shown(name, part, run) for name, part in _PARTS)
    return [section for section in found if section is not None]


def _shown(name: str, part: Part, run: RunRecord) -> Section | None:
    """A part; or what went wrong, for one odd value in a history must not cost all the others."""
    try:
        return part(run)
    except Exception as error:
        reason = f"This part could not be shown: {type(error).__name__}: {error}"
        return Section(name, element("p", reason, class_="wrong"))
