"""What is known of each client, and what a learnt policy told it."""

from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from autofgl.report.chart import Bar, Chart, Series
from autofgl.report.curves import client_band
from autofgl.report.figures import Cells, bar_cell, bar_table, chart_grid, table
from autofgl.report.markup import Content, Safe, element
from autofgl.report.numbers import NOTHING, count, is_number, percent, plain, text
from autofgl.report.record import Row, RunRecord, pairs
from autofgl.report.section import Section

_SIZES = ("nodes", "edges", "cut_edges", "train", "val", "test")
_ACCURACIES = ("val_accuracy", "test_accuracy", "unadapted_test_accuracy")
#: More clients than these are folded away.
_MANY = 12
_FEWEST_TRIALS = 5


def clients(run: RunRecord) -> Section | None:
    """Sizes, labels and accuracies of the clients."""
    rows = _merged(run)
    if not rows:
        return None
    body: list[Content] = []
    accuracies = [row["test_accuracy"] for row in rows if is_number(row.get("test_accuracy"))]
    if accuracies:
        body.append(
            element(
                "p",
                f"Test accuracy from {percent(min(accuracies))} to {percent(max(accuracies))} "
                f"over {len(accuracies)} clients.",
            )
        )
    elif run.finished and run.config.get("secure") not in (None, "none"):
        body.append(element("p", "The sums were secure: only a client itself knows its accuracy."))
    whole = [table(_cells(rows), "Clients"), _configurations(rows)]
    if len(rows) > _MANY:
        whole = [element("details", element("summary", f"All {len(rows)} clients"), whole)]
    return Section("Clients", [*body, *whole])


def policies(run: RunRecord) -> Section | None:
    """Mini-batch size and sampling probabilities that a policy chose, and its learning."""
    told = [row["policies"] for row in run.history if _is_policies(row.get("policies"))]
    learnt = [row for row in run.history if is_number(row.get("return"))]
    charts = [*_learning(learnt), *(_chosen(run, told[-1]) if told else ())]
    grid = chart_grid(charts)
    return Section("Sampling policy", grid) if grid else None


def _learning(learnt: Sequence[Row]) -> list[Chart]:
    """Return and accuracy at the end of each episode."""
    ends = {row.get("episode"): row for row in learnt}
    returns = _over_episodes(ends, "return", "discounted return")
    accuracies = _over_episodes(ends, "accuracy", "accuracy")
    title = "Accuracy at the end of each episode"
    return [
        Chart("Return of each episode", "episode", [returns], x_format=count),
        Chart(title, "episode", [accuracies], percent, count),
    ]


def _chosen(run: RunRecord, last: Mapping[str, Sequence[float]]) -> list[Chart]:
    """What the policy told the clients in each round."""
    note = "Mean over clients; the band reaches from the lowest to the highest client."
    layers = max(len(values) for values in last.values()) - 1
    sizes = [client_band(run, "policies", "nodes", 0)]
    kept = [
        client_band(run, "policies", f"convolution {layer}", layer)
        for layer in range(1, layers + 1)
    ]
    size, keep = "Mini-batch size that the policy chose", "Probability that a neighbour is kept"
    return [
        Chart(size, "round", sizes, count, count, [0], run.marks, note),
        Chart(keep, "round", kept, percent, count, [0, 1], run.marks, note),
    ]


def importance(run: RunRecord) -> Section | None:
    """How much each hyper-parameter mattered, where the method tells it."""
    told = run.result.get("importance")
    if isinstance(told, dict):
        bars = [Bar(str(key), float(value)) for key, value in told.items() if is_number(value)]
        title, form = "Importance of each hyper-parameter", percent
    else:
        bars = [Bar(key, value) for key, value in rank_correlations(run.history).items()]
        title, form = (
            "Rank correlation of each hyper-parameter with the score (Spearman's ρ)",
            plain,
        )
    ordered = sorted(bars, key=lambda bar: -abs(bar.value))
    body = bar_table(title, ordered, form)
    return Section("Hyper-parameters", body) if body else None


def rank_correlations(history: Sequence[Row]) -> dict[str, float]:
    """Spearman's ρ between each numeric hyper-parameter and the score, over the trials.

    A rough measure: it sees what rises or falls throughout, and no interplay. Nothing for fewer
    than five trials, nor for what did not vary.
    """
    tried = [
        (dict(pairs(row["hyper"])), row["score"])
        for row in history
        if isinstance(row.get("hyper"), dict) and is_number(row.get("score"))
    ]
    found = {}
    for key in dict.fromkeys(key for hyper, _ in tried for key in hyper):
        known = [(hyper[key], score) for hyper, score in tried if is_number(hyper.get(key))]
        if len(known) >= _FEWEST_TRIALS and all(
            len(set(side)) > 1 for side in zip(*known, strict=True)
        ):
            values, scores = zip(*known, strict=True)
            found[key] = float(stats.spearmanr(values, scores).statistic)
    return found


def _merged(run: RunRecord) -> list[Row]:
    """Rows of the data and of the result, joined by the client's name."""
    told = run.data.get("clients")
    rows: dict[str, Row] = {}
    for row in [*(told if isinstance(told, list) else []), *run.dicts("per_client")]:
        if isinstance(row, dict) and "name" in row:
            name = str(row["name"])
            rows[name] = {**rows.get(name, {}), **row}
    return list(rows.values())


def _cells(rows: list[Row]) -> Cells:
    sizes = [key for key in _SIZES if any(is_number(row.get(key)) for row in rows)]
    accuracies = [key for key in _ACCURACIES if any(is_number(row.get(key)) for row in rows)]
    labels = any(isinstance(row.get("labels"), list) for row in rows)
    headings = ["client", *(key.replace("_", " ") for key in sizes)]
    headings += ["nodes by class"] * labels
    for key in accuracies:
        headings += [key.replace("_", " ").replace("val ", "validation "), ""]
    shown = {"name", "labels", "unlabelled", *_SIZES, *_ACCURACIES}
    others = list(
        dict.fromkeys(
            key
            for row in rows
            for key in row
            if key not in shown and not isinstance(row[key], dict)
        )
    )
    headings += [key.replace("_", " ") for key in others]
    cells: list[list[Content]] = []
    for row in rows:
        cell: list[Content] = [str(row["name"]), *(text(row.get(key)) for key in sizes)]
        if labels:
            cell.append(_labels(row.get("labels")))
        for key in accuracies:
            cell += _accuracy(row.get(key))
        cell += [text(row.get(key)) for key in others]
        cells.append(cell)
    return Cells(headings, cells, frozenset(range(1, len(sizes) + 1)))


def _configurations(rows: Sequence[Row]) -> Safe | None:
    """What each client has chosen for itself: mappings of its row, a column for each key."""
    told = {
        str(row["name"]): {
            key: value
            for chosen in row.values()
            if isinstance(chosen, dict)
            for key, value in pairs(chosen)
        }
        for row in rows
    }
    keys = list(dict.fromkeys(key for values in told.values() for key in values))
    if not keys:
        return None
    cells: list[list[Content]] = [
        [name, *(text(values.get(key)) for key in keys)] for name, values in told.items()
    ]
    title = "What each client has chosen"
    whole = table(Cells(["client", *(key.replace("_", " ") for key in keys)], cells), title)
    return element("figure", element("figcaption", title), whole)


def _accuracy(value: Any) -> list[Content]:
    return [percent(value), bar_cell(value)] if is_number(value) else [NOTHING, ""]


def _labels(counts: Any) -> Content:
    """A column for each class, as high as its number of nodes."""
    numbers = [value for value in counts if is_number(value)] if isinstance(counts, list) else []
    if not numbers or not max(numbers):
        return NOTHING
    step = max(3.0, min(9.0, 140 / len(numbers)))
    columns = [
        element(
            "rect",
            x=round(at * step, 1),
            y=round(24 - 22 * value / max(numbers), 1),
            width=round(step - 1, 1),
            height=round(22 * value / max(numbers), 1),
            class_="bar s0",
        )
        for at, value in enumerate(numbers)
    ]
    spoken = ", ".join(f"class {at}: {plain(value)}" for at, value in enumerate(numbers))
    width = round(len(numbers) * step)
    return element(
        "svg",
        element("title", spoken),
        columns,
        viewbox=f"0 0 {width} 25",
        width=width,
        height=25,
        role="img",
        aria_label=spoken,
    )


def _over_episodes(ends: Mapping[Any, Row], key: str, name: str) -> Series:
    return Series.of(name, [(number, row.get(key)) for number, row in ends.items()])


def _is_policies(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(numbers, list) and numbers for numbers in value.values())
    )
