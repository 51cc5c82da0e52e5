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

#: What a row of the table searched: its name on the page, and the sets of the full grid of that.
_SEARCHED = {"bayes": ("common", COMMON_GRID), "own": ("each client's own", JOINT_GRID)}

_HEADINGS = (
    "", "hyper-parameters", "small grid: trials, s, best M", "bayes: trials, s to the same M",
    "speedup, measured", "full grid: h", "speedup", "paper",
)  # fmt: skip
_PAPER = {"cora": "6.67 h / 0.39 h = 17.1×", "citeseer": "40.85 h / 0.42 h = 97.3×"}
_PAPER["pubmed"] = "427.67 h / 4.17 h = 102.6×"


def times(cells: Sequence[Summary]) -> str:
    """A line for each dataset and search that were run."""
    found = {(cell.column.name, cell.row.name): cell.searches for cell in cells}
    labels = {cell.column.name: cell.column.label for cell in cells}
    lines = [
        [label, what, *_figures(grids, searches, sets), _PAPER.get(name, NOTHING)]
        for name, label in labels.items()
        for row, (what, sets) in _SEARCHED.items()
        if (grids := found.get((name, "grid"))) and (searches := found.get((name, row)))
        if grids.keys() & searches.keys()
    ]
    if not lines:
        return ""
    return (
        "## Time\n\nM is the validation accuracy that all searches maximise, the mean over "
        "clients. The grid is the small one of the notes, run to its end; Bayesian optimisation "
        "runs until it has reached the grid's best M. The full grid, of the same values for both "
        "clients or of each client's own, would take its number of sets × the seconds of a trial "
        "of the small grid; the speedup is that over the seconds of Bayesian optimisation. Means "
        "over the seeds.\n\n" + grid(_HEADINGS, lines)
    )


def _figures(grids: dict[int, Searched], searches: dict[int, Searched], sets: int) -> list[str]:
    """Grid, search, and the speedups of a line, as means over the seeds that reached the grid's M.

    The grid's own figures are of all seeds that both were run with.
    """
    common = [(own, searches[seed]) for seed, own in grids.items() if seed in searches]
    pairs = [
        (own, reached)
        for own, search in common
        if own.best is not None and (reached := search.reached(own.best)) is not None
    ]
    trials = mean(len(own.seconds) for own, _ in common)
    seconds = mean(own.seconds[-1] for own, _ in common)
    each = mean(own.seconds_per_trial for own, _ in common)
    best = mean(own.best or 0.0 for own, _ in common)
    small = f"{trials:.0f}, {seconds:.0f} s, {100 * best:.1f}"
    whole = f"{sets:,} × {each:.1f} s = {sets * each / 3600:.1f} h"
    if not pairs:
        tried = max(len(search.seconds) for _, search in common)
        return [small, f"not reached in {tried}", NOTHING, whole, NOTHING]
    bayes_trials, bayes_s = (mean(reached[i] for _, reached in pairs) for i in (0, 1))
    missed = len(common) - len(pairs)
    note = f" (not reached with {missed} more of {len(common)} seeds)" if missed else ""
    return [
        small,
        f"{bayes_trials:.1f}, {bayes_s:.0f} s{note}",
        f"{seconds:.0f} / {bayes_s:.0f} = {seconds / bayes_s:.1f}×",
        whole,
        f"{sets * each / bayes_s:.0f}×",
    ]
