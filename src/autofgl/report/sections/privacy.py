"""Who learned what in a run, by its method and its secure mode."""

from autofgl.methods.privacy import WHO_LEARNS_WHAT
from autofgl.report.charts.figures import Cells, table
from autofgl.report.page import Section, element, rich_text
from autofgl.report.record import RunRecord

_TITLE = "Who learns what"
_MODES = {
    "none": "none: the server sees what each client sends",
    "ckks": "ckks: homomorphic encryption, the server adds what it cannot read",
    "shares": "shares: masks that cancel in the sum",
    "shares-additive": "shares-additive: additive secret shares",
}


def privacy_section(run: RunRecord) -> Section:
    """What each party learns in a run like this one."""
    mode = str(run.config.get("secure", "none"))
    sums = element("p", f"Secure sums: {_MODES.get(mode, mode)}.")
    parties = WHO_LEARNS_WHAT.get(run.method, ())
    if not parties:
        other = f"The documentation of {run.method} says who learns what."
        return Section(_TITLE, [sums, element("p", other)])
    rows = [[party.who, rich_text(party.with_mode(mode != "none"))] for party in parties]
    return Section(_TITLE, [sums, table(Cells(("who", "learns"), rows), _TITLE)])
