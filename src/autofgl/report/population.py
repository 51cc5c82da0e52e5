"""What a search did: its population, its trials, its finalists."""

from collections.abc import Sequence
from typing import Any

from autofgl.report.chart import Chart, Series
from autofgl.report.curves import form_of
from autofgl.report.figures import Cells, chart_grid, spark, table
from autofgl.report.markup import Content, Safe, element
from autofgl.report.numbers import count, is_number, percent, text
from autofgl.report.record import Row, RunRecord
from autofgl.report.section import Section

#: Lists of the result that are told as tables, with their headings.
_LISTS = {
    "finalists": "Finalists, trained to the end",
    "trials": "Trials",
    "top": "Best candidates",
    "front": "Not beaten in everything by any other",
}
_MOST_ROWS = 15


def population(run: RunRecord) -> Section | None:
    """How a population or a series of candidates developed."""
    body = [chart_grid(_charts(run)), _operations(run), *_tables(run)]
    return Section("Search", body) if any(body) else None


def _charts(run: RunRecord) -> list[Chart]:
    evolved = [row for row in run.history if is_number(row.get("generation"))]

    def over_generations(key: str, name: str) -> Series:
        return Series.of(name, [(row["generation"], row.get(key)) for row in evolved])

    return [
        _losses(evolved),
        Chart(
            "Different codes in the population",
            "generation",
            [over_generations("unique_codes", "different codes")],
            count,
            count,
            y_range=[0],
        ),
        Chart(
            "Share γ of the codes that clients propose",
            "generation",
            [over_generations("gamma", "γ")],
            percent,
            count,
            y_range=[0],
        ),
        Chart(
            "How undecided the genes are",
            "generation",
            [over_generations("entropy", "mean entropy, 1 is undecided")],
            x_format=count,
            y_range=[0, 1],
        ),
        _candidates(run),
        _trials(run),
    ]


def _losses(evolved: Sequence[Row]) -> Chart:
    """Best and median loss; the band between them is the better half of the population."""
    points = [
        (row["generation"], row.get("best_fll"), row.get("best_fll"), row.get("median_fll"))
        for row in evolved
    ]
    median = Series.of("median", [(row["generation"], row.get("median_fll")) for row in evolved])
    return Chart(
        "Federated validation loss of the population",
        "generation",
        [Series.of("best", points), median],
        x_format=count,
        note="The band holds the better half of the population.",
    )


def _candidates(run: RunRecord) -> Chart:
    """Best validation accuracy of each candidate, and of all so far.

    The last average of a candidate is in no row, but its score is: wrong share and a little loss.
    """
    by_accuracy = dict(run.config.get("settings") or {}).get("fitness", "accuracy") == "accuracy"
    best: dict[Any, float] = {}
    for row in run.history:
        number, accuracy, score = (row.get(key) for key in ("candidate", "val_accuracy", "score"))
        if is_number(number) and is_number(accuracy):
            best[number] = max(accuracy, best.get(number, 0.0))
            if by_accuracy and is_number(score):
                best[number] = max(best[number], round(1 - score, 4))
    so_far = [(number, max(list(best.values())[: at + 1])) for at, number in enumerate(best)]
    return Chart(
        "Validation accuracy of each candidate",
        "candidate",
        [Series.of("candidate", best.items(), joined=False), Series.of("best so far", so_far)],
        percent,
        count,
    )


def _trials(run: RunRecord) -> Chart:
    """Score of each trial of a search for hyper-parameters, and the best so far."""
    rows = [row for row in run.history if is_number(row.get("trial"))]
    scores = [(row["trial"], row.get("score")) for row in rows if "candidate" not in row]
    best = [(row["trial"], row.get("best_score")) for row in rows if "candidate" not in row]
    return Chart(
        "Score of each trial",
        "trial",
        [Series.of("trial", scores, joined=False), Series.of("best so far", dict(best).items())],
        x_format=count,
    )


def _operations(run: RunRecord) -> Safe | None:
    """The share of every operation over the generations: a line of its own for each."""
    rows = [row["operations"] for row in run.history if isinstance(row.get("operations"), dict)]
    names = {name for shares in rows for name in shares}
    if len(rows) < 2:
        return None
    over_time = {
        name: [float(shares.get(name) or 0.0) for shares in rows] for name in sorted(names)
    }
    top = max(max(values) for values in over_time.values())
    ordered = sorted(over_time.items(), key=lambda entry: -entry[1][-1])
    cells: list[list[Content]] = [
        [name, percent(values[0]), spark(values, top), percent(values[-1])]
        for name, values in ordered
    ]
    title = "Share of each operation over the generations"
    headings = ("operation", "first", f"0 to {percent(top)}", "last")
    return element(
        "figure",
        element("figcaption", title),
        table(Cells(headings, cells, frozenset({1, 3})), title),
    )


def _tables(run: RunRecord) -> list[Safe]:
    return [
        record_table(heading, run.dicts(key)) for key, heading in _LISTS.items() if run.dicts(key)
    ]


def record_table(title: str, rows: Sequence[Row]) -> Safe:
    """A list of mappings with one column for each key that all have."""
    keys = [key for key in rows[0] if not isinstance(rows[0][key], dict)]
    numeric = frozenset(
        at for at, key in enumerate(keys) if any(is_number(row.get(key)) for row in rows)
    )
    cells: list[list[Content]] = [[_cell(key, row.get(key)) for key in keys] for row in rows]
    headings = [key.replace("_", " ") for key in keys]
    shown = table(Cells(headings, cells[:_MOST_ROWS], numeric), title)
    more = len(rows) - _MOST_ROWS
    note = element("p", f"and {more} more in result.json", class_="note") if more > 0 else None
    return element("figure", element("figcaption", title), shown, note)


def _cell(key: str, value: Any) -> Content:
    if key in ("genotype", "code"):
        return element("code", str(value))
    return form_of(key)(value) if is_number(value) else text(value)
