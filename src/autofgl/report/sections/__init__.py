"""The sections of a run's report, in their order, a module for each group of them."""

from autofgl.nn.models.spec import SearchedSpec
from autofgl.report.page import Section, element, to_markup
from autofgl.report.record import RunRecord
from autofgl.report.sections.clients import clients_section
from autofgl.report.sections.curves import curves_section, more_figures_section, traffic_section
from autofgl.report.sections.overview import (
    configuration_section,
    network_section,
    other_results_section,
    privacy_section,
)
from autofgl.report.sections.search import hyperparameters_section, policy_section, search_section


def run_sections(run: RunRecord) -> list[Section]:
    """The sections that have something to show.

    Where one cannot be shown it says why: an odd value must not cost all the others.
    """
    searched = isinstance(run.network, SearchedSpec)
    parts = {
        "Best architecture" if searched else "Network": network_section,
        "Curves": curves_section,
        "Search": search_section,
        "Clients": clients_section,
        "Sampling policy": policy_section,
        "Hyperparameters": hyperparameters_section,
        "Traffic and time": traffic_section,
        "More figures": more_figures_section,
        "Other results": other_results_section,
        "Who learns what": privacy_section,
        "Configuration": configuration_section,
    }
    sections = []
    for title, part in parts.items():
        try:
            body = to_markup(part(run))
        except Exception as error:
            reason = f"This section could not be shown: {type(error).__name__}: {error}"
            body = element("p", reason, class_="wrong")
        if body:
            sections.append(Section(title, body))
    return sections
