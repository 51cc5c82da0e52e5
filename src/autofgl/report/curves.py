"""How a run went: accuracy and loss over rounds, time and bytes, and every other figure."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from autofgl.report.chart import Chart, Series
from autofgl.report.figures import chart_grid
from autofgl.report.markup import element
from autofgl.report.numbers import Format, bytes_, count, is_number, percent, plain, seconds
from autofgl.report.record import RunRecord
from autofgl.report.section import Section

_NAMES = {
    "train_accuracy": "training",
    "val_accuracy": "validation",
    "test_accuracy": "test",
    "unadapted_val_accuracy": "validation, before adaptation",
    "unadapted_test_accuracy": "test, before adaptation",
    "train_loss": "training",
    "val_loss": "validation",
    "test_loss": "test",
}
#: Titles of figures that the history has for each client.
_BY_CLIENT = {"client_val_accuracy": "Validation accuracy of the clients"}
#: What other sections show, or what is no measure.
_ELSEWHERE = frozenset(
    {
        "round", "wall_s", "bytes_up", "bytes_down", "bytes_peer", "bytes_secure", "clients",
        "generation", "episode", "candidate", "candidate_round", "finalist", "trial",
        "best_fll", "median_fll", "unique_codes", "gamma", "reward", "return", "accuracy",
    }
)  # fmt: skip


def curves(run: RunRecord) -> Section | None:
    """Accuracy and loss; of a run with phases those of the last one, and the whole folded away."""
    last = run.last_phase
    grid = chart_grid([*_main(last), *_by_client(run), _finalists(last), *_against_effort(last)])
    if grid is None:
        return None
    if last is run:
        return Section("Curves", grid)
    phase = element("p", f"Of the last phase, “{run.history[-1].get('phase')}”.")
    summary = element("summary", "The whole run, with all its phases")
    return Section("Curves", [phase, grid, element("details", summary, chart_grid(_main(run)))])


def _main(run: RunRecord) -> list[Chart]:
    accuracies = [key for key in _NAMES if key.endswith("accuracy")]
    losses = [key for key in _NAMES if key.endswith("loss")]
    return [
        _by_round(run, "Accuracy", accuracies, percent),
        _by_round(run, "Loss", losses, plain),
    ]


def _against_effort(run: RunRecord) -> list[Chart]:
    """Test figures over time and bytes where there are any, else validation."""
    judged = "test_accuracy" if run.series("test_accuracy", "").points else "val_accuracy"
    by_time = run.series(judged, _NAMES[judged], "wall_s")
    return [
        Chart("Accuracy over time", "time", [by_time], percent, seconds, whole_x=False),
        _accuracy_over_bytes(run, judged),
    ]


def _finalists(run: RunRecord) -> Chart:
    """Validation accuracy of each finalist, over the rounds of its own training."""
    series = []
    numbers = dict.fromkeys(
        row["finalist"] for row in run.history if is_number(row.get("finalist"))
    )
    for number in numbers:
        rows = [row for row in run.history if row.get("finalist") == number]
        points = [(at, row.get("val_accuracy")) for at, row in enumerate(rows, 1)]
        series.append(Series.of(f"finalist {number + 1}", points))
    shown = series if len(series) > 1 else []
    return Chart("Validation accuracy of each finalist", "round", shown, percent, count)


def more_figures(run: RunRecord) -> Section | None:
    """Every number of the history that no other section shows."""
    known = _ELSEWHERE | set(_NAMES)
    keys = [
        key
        for key in run.numeric_keys
        if key not in known and not key.endswith(("_s", "_bytes")) and _varies(run, key)
    ]
    charts = [_by_round(run, key.replace("_", " "), [key], form_of(key)) for key in keys]
    grid = chart_grid(charts)
    if grid is None:
        return None
    summary = element("summary", f"{len(keys)} more figures of the history")
    return Section("More figures", element("details", summary, grid))


def form_of(key: str) -> Format:
    """How a figure is written, by its name."""
    if key.endswith("accuracy"):
        return percent
    if key.endswith("_s") or key == "seconds":
        return seconds
    if "bytes" in key:
        return bytes_
    return count if key in ("cost", "parameters", "params") else plain


def _by_round(run: RunRecord, title: str, keys: Sequence[str], form: Format) -> Chart:
    series = [run.series(key, _NAMES.get(key, key.replace("_", " "))) for key in keys]
    return Chart(title, "round", series, form, count, marks=run.marks)


def _by_client(run: RunRecord) -> list[Chart]:
    """Figures that the history has for each client: their mean, and a band over all clients."""
    keys = dict.fromkeys(
        key for row in run.history for key, value in row.items() if _per_client(run, value)
    )
    return [
        Chart(
            _BY_CLIENT.get(key, f"{key.replace('_', ' ').capitalize()} of the clients"),
            "round",
            [client_band(run, key, "mean over clients")],
            form_of(key),
            count,
            note="The band reaches from the lowest to the highest client.",
            marks=run.marks,
        )
        for key in keys
    ]


def client_band(run: RunRecord, key: str, name: str, place: int | None = None) -> Series:
    """Mean of a figure over clients, with a band from the least to the greatest.

    Args:
        run: The run.
        key: Where the history has it, by client.
        name: The name in the legend.
        place: Which number, where each client has a list of them.
    """
    points = []
    for row in run.history:
        told = row.get(key)
        values = list(told.values()) if isinstance(told, dict) else []
        if place is not None:
            values = [value[place] for value in values if len(value) > place]
        if values:
            points.append((row["round"], mean(values), min(values), max(values)))
    return Series.of(name, points)


def _per_client(run: RunRecord, value: Any) -> bool:
    if not isinstance(value, dict) or not value or not set(value) <= run.client_names:
        return False
    return all(isinstance(one, int | float) for one in value.values())


def _accuracy_over_bytes(run: RunRecord, key: str) -> Chart:
    points = [
        (sum(row.get(way) or 0 for way in ("bytes_up", "bytes_down", "bytes_peer")), row.get(key))
        for row in run.history
    ]
    series = Series.of(_NAMES[key], points, run.parts)
    return Chart("Accuracy over traffic", "bytes", [series], percent, bytes_, whole_x=False)


def _varies(run: RunRecord, key: str) -> bool:
    return len({row.get(key) for row in run.history if row.get(key) is not None}) > 1
