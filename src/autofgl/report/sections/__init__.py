"""The sections of a run's report, in their order, a module for each group of them."""

from autofgl.nn.models.spec import SearchedSpec
from autofgl.report.page import Section, element, to_markup
from autofgl.report.record import RunRecord
from autofgl.report.sections import certificate, curves, joining, overview, predictions, search


def run_sections(run: RunRecord) -> list[Section]:
    """The sections that have something to show.

    Where one cannot be shown it says why: an odd value must not cost all the others.
    """
    searched = isinstance(run.network, SearchedSpec)
    parts = {
        "Certificate": certificate.certificate_section,
        "Timeline": certificate.timeline_section,
        "Best architecture" if searched else "Network": overview.network_section,
        "Curves": curves.curves_section,
        "Predictions": predictions.predictions_section,
        "Search": search.search_section,
        "Should I join?": joining.joining_section,
        "Clients": overview.clients_section,
        "Sampling policy": search.policy_section,
        "Hyperparameters": search.hyperparameters_section,
        "Traffic and time": curves.traffic_section,
        "More figures": curves.more_figures_section,
        "Other results": overview.other_results_section,
        "Who learns what": overview.privacy_section,
        "Configuration": overview.configuration_section,
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
