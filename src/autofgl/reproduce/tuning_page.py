"""Bayesian optimisation against grid search by time, with the arithmetic (ASFGNN, Table 7)."""

from collections.abc import Sequence
from statistics import mean

from autofgl.reproduce.grid import NOTHING, grid
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.tuning_time import Searched

#: Values in the paper's grid (section 5.1.4): dropout, L2, K and learning rate of a client; width.
OWN_VALUES, WIDTHS = 2 * 5 * 5 * 4, 4
#: Sets in the full grid: the same values for both clients, or each client its own.
COMMON_GRID, JOINT_GRID = OWN_VALUES * WIDTHS, OWN_VALUES**2 * WIDTHS

_HEADINGS = (
    "", "grid: trials, s, best M", "bayes: trials, s to the same M", "speedup, measured",
    f"full grid of {COMMON_GRID} sets: h, speedup", f"of {JOINT_GRID:,} sets: h, speedup", "paper",
)  # fmt: skip
_PAPER = {"cora": "6.67 h / 0.39 h = 17.1×", "citeseer": "40.85 h / 0.42 h = 97.3×"}
_PAPER["pubmed"] = "427.67 h / 4.17 h = 102.6×"


def times(cells: Sequence[Summary]) -> str:
    """A line for each dataset on which both were run with the same seeds."""
    by_place = {(cell.column.name, cell.row.name): cell for cell in cells}
    labels = {cell.column.name: cell.column.label for cell in cells}
    found = (
        _line(
            label,
            by_place[name, "grid"].searches,
            by_place[name, "bayes"].searches,
            _PAPER.get(name, NOTHING),
        )
        for name, label in labels.items()
    )
    lines = [line for line in found if line]
    if not lines:
        return ""
    return (
        "## Time\n\nM is the validation accuracy that both searches maximise, the mean over "
        "clients. The grid is the small one of the notes, run to its end; Bayesian optimisation "
        "runs until it has reached the grid's best M. A full grid would take its number of sets × "
        "the seconds of a trial of the small grid; the speedup is that over the seconds of "
        "Bayesian optimisation. Means over the seeds.\n\n" + grid(_HEADINGS, lines)
    )


def _line(
    label: str, grids: dict[int, Searched], searches: dict[int, Searched], paper: str
) -> list[str]:
    pairs = [
        (own, reached)
        for seed, own in grids.items()
        if own.best is not None
        and seed in searches
        and (reached := searches[seed].reached(own.best)) is not None
    ]
    if not pairs:
        return []
    missed = len(grids.keys() & searches.keys()) - len(pairs)
    trials = mean(len(own.seconds) for own, _ in pairs)
    seconds = mean(own.seconds[-1] for own, _ in pairs)
    each = mean(own.seconds_per_trial for own, _ in pairs)
    best = mean(own.best or 0.0 for own, _ in pairs)
    bayes_trials, bayes_s = (mean(reached[i] for _, reached in pairs) for i in (0, 1))
    return [
        label,
        f"{trials:.0f}, {seconds:.0f} s, {100 * best:.1f}",
        f"{bayes_trials:.1f}, {bayes_s:.0f} s"
        + (f" (not reached with {missed} more seeds)" if missed else ""),
        f"{seconds:.0f} / {bayes_s:.0f} = {seconds / bayes_s:.1f}×",
        *(
            f"{sets:,} × {each:.1f} s = {sets * each / 3600:.1f} h, {sets * each / bayes_s:.0f}×"
            for sets in (COMMON_GRID, JOINT_GRID)
        ),
        paper,
    ]
