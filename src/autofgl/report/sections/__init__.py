"""The sections of a run's report, in their order, a module for each group of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from autofgl.report.page import Section, element
from autofgl.report.record import RunRecord
from autofgl.report.sections.clients import clients_section
from autofgl.report.sections.curves import curves_section, more_figures_section, traffic_section
from autofgl.report.sections.overview import (
    configuration_section,
    network_section,
    other_results_section,
)
from autofgl.report.sections.privacy import privacy_section
from autofgl.report.sections.search import (
    hyperparameters_section,
    policy_section,
    search_section,
)

Part: TypeAlias = Callable[[RunRecord], Section | None]

#: The sections in their order, with the heading of one that cannot be shown.
_PARTS: Sequence[tuple[str, Part]] = (
    ("Network", network_section),
    ("Curves", curves_section),
    ("Search", search_section),
    ("Clients", clients_section),
    ("Sampling policy", policy_section),
    ("Hyperparameters", hyperparameters_section),
    ("Traffic and time", traffic_section),
    ("More figures", more_figures_section),
    ("Other results", other_results_section),
    ("Who learns what", privacy_section),
    ("Configuration", configuration_section),
)


def run_sections(run: RunRecord) -> list[Section]:
    """The sections that have something to show."""
    sections = (_section(name, part, run) for name, part in _PARTS)
    return [section for section in sections if section is not None]


def _section(name: str, part: Part, run: RunRecord) -> Section | None:
    """A section, or what went wrong: one odd value in a history must not cost all the others."""
    try:
        return part(run)
    except Exception as error:
        reason = f"This section could not be shown: {type(error).__name__}: {error}"
        return Section(name, element("p", reason, class_="wrong"))
