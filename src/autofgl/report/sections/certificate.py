"""What a run of ``auto`` ends with, and how it came about: certificate, timeline, decisions."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from autofgl.report.charts import Chart, Series
from autofgl.report.charts.figures import Cells, chart_grid, table_figure
from autofgl.report.numbers import NOTHING, bytes_, count, is_number, percent, plain, seconds, text
from autofgl.report.page import Content, Safe, element
from autofgl.report.record import Row, RunRecord, only_dicts

#: Keys of the result that these sections show.
SHOWN = frozenset({"certificate", "look", "stages", "candidates", "choice", "front"})
#: Baselines in words.
_BASELINES = {
    "alone": "each client alone",
    "fedavg": "FedAvg with a GCN",
    "fixed": "the best fixed network",
}
_MOST_DECISIONS = 60


def certificate_section(run: RunRecord) -> Content:
    """The sentence, the comparisons it rests on, and what the clients took."""
    certificate = run.result.get("certificate")
    if not isinstance(certificate, dict):
        return None
    against = dict(certificate.get("against") or {})
    rows = [_comparison(name, dict(one)) for name, one in against.items()]
    headings = (
        "against", "accuracy", "ours, points", "95 % interval", "only ours right",
        "only theirs", "p (McNemar)", "sites better, same, worse",
    )  # fmt: skip
    numeric = frozenset(range(1, len(headings)))
    taken = [
        [count(one.get("sites", 0)), text(one.get("kind")), text(one.get("label"))]
        for one in only_dicts(certificate.get("taken"))
    ]
    said = element("p", str(certificate.get("sentence", "")))
    words = "On test nodes, which were used for nothing else. All figures are sums over clients."
    note = element("p", words, class_="note")
    return [
        said,
        table_figure("The proof", Cells(headings, rows, numeric), note) if rows else None,
        _table("What the clients took", ("clients", "kind", "model"), taken),
        _front(run),
        _each_client(run),
        _look(run),
    ]


def _comparison(name: str, one: Mapping[str, Any]) -> list[Content]:
    low, high = one.get("interval", (0.0, 0.0))
    sites = dict(one.get("sites") or {})
    shares = (one.get("only_ours", 0), one.get("only_theirs", 0))
    return [
        _BASELINES.get(name, name),
        percent(one.get("test_accuracy", 0.0)),
        f"{100 * one.get('difference', 0.0):+.1f}",
        f"{100 * low:+.1f} to {100 * high:+.1f}",
        *map(count, shares),
        f"{one.get('p', 1.0):.2g}",
        ", ".join(count(sites.get(key, 0)) for key in ("better", "same", "worse")),
    ]


def _each_client(run: RunRecord) -> Safe | None:
    """What each client took, and how it fares, where clients say so themselves."""
    lines = [one for one in run.dicts("per_client") if "takes" in one]
    keys = ["test_accuracy", *(f"{name}_test_accuracy" for name in _BASELINES)]
    rows = [
        [
            text(one.get("name")),
            *(percent(one[key]) if is_number(one.get(key)) else NOTHING for key in keys),
            text(one.get("model")),
        ]
        for one in lines
    ]
    headings = ("client", "its model", *_BASELINES.values(), "what it took")
    return _table("Each client on its own test nodes", headings, rows, frozenset({1, 2, 3, 4}))


def _front(run: RunRecord) -> Safe | None:
    """The candidates that no other is better than in everything, with what they cost."""
    rows = [
        [
            text(one.get("label")),
            percent(one.get("score", 0.0)),
            count(one.get("parameters", 0)),
            seconds(one.get("inference_s", 0.0)),
            bytes_(one.get("bytes", 0)),
            "recommended" if one.get("recommended") else "",
        ]
        for one in run.dicts("front")
    ]
    objective = str(run.result.get("objective") or "accuracy").replace("_", " ")
    headings = ("candidate", f"validation {objective}", "parameters", "latency", "bytes", "")
    return _table("Good against small", headings, rows, frozenset({1, 2, 3, 4}))


def _look(run: RunRecord) -> Safe | None:
    look = run.result.get("look")
    rows = [[key.replace("_", " "), text(value)] for key, value in dict(look or {}).items()]
    return _table("What the federation is like", ("", "value"), rows, frozenset({1}))


def timeline_section(run: RunRecord) -> Content:
    """What was tried in each stage, what it cost and what it gained, and all decisions."""
    stages = {str(one.get("stage")): one for one in run.dicts("stages")}
    if run.config.get("method") != "auto" or not run.history:
        return None
    costs = _costs(run.history)
    rows, before = [], None
    for name, (rounds, spent, sent) in costs.items():
        one = stages.get(name, {})
        loss = one.get("val_loss")
        gain = NOTHING if before is None or not is_number(loss) else plain(before - loss)
        before = loss if is_number(loss) else before
        figures = [count(rounds), seconds(spent), bytes_(sent)]
        best = [text(one.get("best")), plain(loss) if is_number(loss) else NOTHING, gain]
        rows.append([name, *figures, text(one.get("decision")), *best, text(one.get("reason"))])
    headings = (
        "stage", "rounds", "time", "bytes", "what was done", "best so far", "its loss", "gained",
        "because",
    )  # fmt: skip
    return [
        chart_grid([_best_so_far(run)]),
        _table("Stages", headings, rows, frozenset({1, 2, 3, 6, 7})),
        _decisions(run.history),
    ]


def _costs(history: list[Row]) -> dict[str, tuple[int, float, float]]:
    """Rounds, seconds and bytes of each stage."""
    costs: dict[str, tuple[int, float, float]] = {}
    last = (0.0, 0.0)
    for row in history:
        now = (row.get("wall_s") or 0.0, (row.get("bytes_up") or 0) + (row.get("bytes_down") or 0))
        rounds, spent, sent = costs.get(str(row.get("phase")), (0, 0.0, 0.0))
        more = (rounds + 1, spent + now[0] - last[0], sent + now[1] - last[1])
        costs[str(row.get("phase"))], last = more, now
    return costs


def _best_so_far(run: RunRecord) -> Chart:
    rows = [row for row in run.history if is_number(row.get("val_accuracy"))]
    best = accumulate((row["val_accuracy"] for row in rows), max)
    line = Series.of("best so far", zip((row["round"] for row in rows), best, strict=True))
    title = "Validation accuracy of the best recipe so far"
    return Chart(title, "round", [line], percent, count, marks=run.marks)


def _decisions(history: list[Row]) -> Safe | None:
    rows = [
        [
            count(row["round"]),
            text(row.get("phase")),
            text(row["decision"]),
            text(row.get("reason")),
        ]
        for row in history
        if row.get("decision")
    ]
    headings = ("round", "stage", "decision", "reason")
    return _table("Decisions", headings, rows[:_MOST_DECISIONS], frozenset({0}))


def _table(
    title: str, headings: Any, rows: Any, numeric: frozenset[int] = frozenset()
) -> Safe | None:
    return table_figure(title, Cells(headings, rows, numeric)) if rows else None
