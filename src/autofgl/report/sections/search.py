"""What a search did: population, trials and finalists; a learned policy; hyperparameters."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from autofgl.report.charts import Chart, Series
from autofgl.report.charts.figures import Cells, bar_table, chart_grid, spark, table_figure
from autofgl.report.numbers import Format, count, is_number, percent, plain, text
from autofgl.report.page import Content, Safe, element
from autofgl.report.record import Row, RunRecord, pairs
from autofgl.report.sections.curves import client_band, form_of

#: Lists of the result that become tables, with their headings.
_LISTS = {
    "finalists": "Finalists, trained to the end",
    "trials": "Trials",
    "top": "Best candidates",
    "front": "Pareto front: not beaten in every objective by any other",
}
_MOST_ROWS = 15
#: Fewer trials than this say nothing about a hyperparameter.
_FEWEST_TRIALS = 5


def search_section(run: RunRecord) -> Content:
    """How a population or a series of candidates developed."""
    lists = [(title, run.dicts(key)) for key, title in _LISTS.items()]
    tables = [_record_table(title, rows) for title, rows in lists if rows]
    charts = [*_population(run), _candidates(run), _trials(run)]
    return [chart_grid(charts), _operation_shares(run), *tables]


def _chart_over(
    x: str,
    rows: Iterable[Row],
    title: str,
    lines: Mapping[str, Sequence[str]],
    form: Format = plain,
    least: Sequence[float] = (),
    note: str = "",
) -> Chart:
    """A chart over a key of the rows, each line by the keys of its value and of its band."""
    series = [
        Series.of(name, [(row.get(x), *map(row.get, keys)) for row in rows])
        for name, keys in lines.items()
    ]
    return Chart(title, x, series, form, count, least, note=note)


def _population(run: RunRecord) -> list[Chart]:
    chart = partial(_chart_over, "generation", run.history)
    losses = {"best": ("best_fll", "best_fll", "median_fll"), "median": ("median_fll",)}
    note = "The band holds the better half of the population."
    codes, share = {"different codes": ["unique_codes"]}, {"γ": ["gamma"]}
    entropy = {"mean entropy, 1 is undecided": ["entropy"]}
    return [
        chart("Federated validation loss of the population", losses, note=note),
        chart("Different codes in the population", codes, count, [0]),
        chart("Share γ of the codes that clients propose", share, percent, [0]),
        chart("How undecided the genes are", entropy, plain, [0, 1]),
    ]


def _candidates(run: RunRecord) -> Chart:
    """Best validation accuracy of each candidate, and of all so far.

    No row has the accuracy of a candidate's last average, but its score is there: the share of
    wrong predictions and a little loss.
    """
    by_accuracy = dict(run.config.get("settings") or {}).get("fitness", "accuracy") == "accuracy"
    best: dict[Any, float] = {}
    for row in run.history:
        number, accuracy, score = (row.get(key) for key in ("candidate", "val_accuracy", "score"))
        if is_number(number) and is_number(accuracy):
            best[number] = max(accuracy, best.get(number, 0.0))
            if by_accuracy and is_number(score):
                best[number] = max(best[number], round(1 - score, 4))
    candidates = Series.of("candidate", best.items(), joined=False)
    so_far = Series.of("best so far", zip(best, accumulate(best.values(), max), strict=True))
    title = "Validation accuracy of each candidate"
    return Chart(title, "candidate", [candidates, so_far], percent, count)


def _trials(run: RunRecord) -> Chart:
    """Score of each trial of a hyperparameter search, and the best so far."""
    rows = [row for row in run.history if is_number(row.get("trial")) and "candidate" not in row]
    scores = Series.of("trial", [(row["trial"], row.get("score")) for row in rows], joined=False)
    best = {row["trial"]: row.get("best_score") for row in rows}
    series = [scores, Series.of("best so far", best.items())]
    return Chart("Score of each trial", "trial", series, x_format=count)


def _operation_shares(run: RunRecord) -> Safe | None:
    """The share of every operation over the generations, a row for each."""
    rows = [row["operations"] for row in run.history if isinstance(row.get("operations"), dict)]
    if len(rows) < 2:
        return None
    names = sorted({name for shares in rows for name in shares})
    over_time = {name: [float(shares.get(name) or 0.0) for shares in rows] for name in names}
    top = max(max(values) for values in over_time.values())
    cells: list[list[Content]] = [
        [name, percent(values[0]), spark(values, top), percent(values[-1])]
        for name, values in sorted(over_time.items(), key=lambda entry: -entry[1][-1])
    ]
    headings = ("operation", "first", f"0 to {percent(top)}", "last")
    title = "Share of each operation over the generations"
    return table_figure(title, Cells(headings, cells, frozenset({1, 3})))


def _record_table(title: str, rows: Sequence[Row]) -> Safe:
    """A list of mappings with one column for each key that all have."""
    keys = [key for key in rows[0] if not isinstance(rows[0][key], dict)]
    numeric = frozenset(
        at for at, key in enumerate(keys) if any(is_number(row.get(key)) for row in rows)
    )
    cells = [[_cell(key, row.get(key)) for key in keys] for row in rows[:_MOST_ROWS]]
    more = len(rows) - _MOST_ROWS
    note = element("p", f"and {more} more in result.json", class_="note") if more > 0 else None
    return table_figure(title, Cells([key.replace("_", " ") for key in keys], cells, numeric), note)


def _cell(key: str, value: Any) -> Content:
    if key in ("genotype", "code"):
        return element("code", str(value))
    return form_of(key)(value) if is_number(value) else text(value)


def policy_section(run: RunRecord) -> Content:
    """Mini-batch size and sampling probabilities that a policy chose, and how it learned."""
    rows = [row["policies"] for row in run.history if isinstance(row.get("policies"), dict)]
    valid = [
        row for row in rows if row and all(isinstance(one, list) and one for one in row.values())
    ]
    return chart_grid([*_learning(run), *(_policies(run, valid[-1]) if valid else ())])


def _learning(run: RunRecord) -> list[Chart]:
    """Return and accuracy at the end of each episode."""
    ends = {row.get("episode"): row for row in run.history if is_number(row.get("return"))}
    chart = partial(_chart_over, "episode", ends.values())
    return [
        chart("Return of each episode", {"discounted return": ["return"]}),
        chart("Accuracy at the end of each episode", {"accuracy": ["accuracy"]}, percent),
    ]


def _policies(run: RunRecord, last: Mapping[str, Sequence[float]]) -> list[Chart]:
    """What the policy chose for the clients in each round."""
    note = "Mean over clients; the band reaches from the lowest to the highest client."
    sizes = [client_band(run, "policies", "nodes", 0)]
    kept = [
        client_band(run, "policies", f"convolution {layer}", layer)
        for layer in range(1, max(map(len, last.values())))
    ]
    size, keep = "Mini-batch size that the policy chose", "Probability that a neighbor is kept"
    return [
        Chart(size, "round", sizes, count, count, [0], run.marks, note),
        Chart(keep, "round", kept, percent, count, [0, 1], run.marks, note),
    ]


def hyperparameters_section(run: RunRecord) -> Content:
    """How much each hyperparameter mattered: what the method says, else rank correlations."""
    importance = run.result.get("importance")
    if isinstance(importance, dict):
        values = {str(key): float(value) for key, value in importance.items() if is_number(value)}
        title, form = "Importance of each hyperparameter", percent
    else:
        values, form = rank_correlations(run.history), plain
        title = "Rank correlation of each hyperparameter with the score (Spearman's ρ)"
    return bar_table(title, sorted(values.items(), key=lambda entry: -abs(entry[1])), form)


def rank_correlations(history: Sequence[Row]) -> dict[str, float]:
    """Spearman's ρ between each numeric hyperparameter and the score, over the trials.

    A rough measure: it sees what rises or falls throughout, and no interactions. Nothing for fewer
    than five trials, nor for what did not vary.
    """
    from scipy import stats  # slow to import, and few runs need it

    trials = [
        (dict(pairs(row["hyper"])), row["score"])
        for row in history
        if isinstance(row.get("hyper"), dict) and is_number(row.get("score"))
    ]
    correlations = {}
    for key in dict.fromkeys(key for hyper, _ in trials for key in hyper):
        numeric = [(hyper[key], score) for hyper, score in trials if is_number(hyper.get(key))]
        values, scores = [value for value, _ in numeric], [score for _, score in numeric]
        if len(numeric) >= _FEWEST_TRIALS and len(set(values)) > 1 and len(set(scores)) > 1:
            correlations[key] = float(stats.spearmanr(values, scores).statistic)
    return correlations
