"""How a run went: accuracy and loss over rounds, time and bytes, and what it cost."""

from collections.abc import Sequence
from statistics import mean

from autofgl.report.charts import Chart, Series
from autofgl.report.charts.figures import Cells, bar_table, chart_grid, table
from autofgl.report.numbers import Format, bytes_, count, is_number, percent, plain, seconds
from autofgl.report.page import Content, Safe, element
from autofgl.report.record import RunRecord

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
_TRAFFIC = {
    "bytes_up": "to the server",
    "bytes_down": "to the clients",
    "bytes_peer": "between clients",
    "bytes_secure": "of these, for keys and secure sums",
}
#: Keys that other sections show, or that measure nothing.
_ELSEWHERE = frozenset(
    {
        "round", "wall_s", "bytes_up", "bytes_down", "bytes_peer", "bytes_secure", "clients",
        "generation", "episode", "candidate", "candidate_round", "finalist", "trial",
        "best_fll", "median_fll", "unique_codes", "gamma", "reward", "return", "accuracy",
    }
)  # fmt: skip


def curves_section(run: RunRecord) -> Content:
    """Accuracy and loss; for a run with phases those of the last, and the whole run folded away."""
    last = run.last_phase
    grid = chart_grid([*_main(last), *_by_client(run), _finalists(last), *_against_effort(last)])
    if grid is None or last is run:
        return grid
    phase = element("p", f"The last phase, “{run.history[-1].get('phase')}”.")
    summary = element("summary", "The whole run, with all its phases")
    return [phase, grid, element("details", summary, chart_grid(_main(run)))]


def _main(run: RunRecord) -> list[Chart]:
    return [
        _by_round(run, kind.capitalize(), [key for key in _NAMES if key.endswith(kind)], form)
        for kind, form in (("accuracy", percent), ("loss", plain))
    ]


def _against_effort(run: RunRecord) -> list[Chart]:
    """Test accuracy over time and bytes where there is any, else that on validation nodes."""
    key = "test_accuracy" if run.series("test_accuracy", "").points else "val_accuracy"
    by_time = run.series(key, _NAMES[key], "wall_s")
    points = [
        (sum(row.get(way) or 0 for way in ("bytes_up", "bytes_down", "bytes_peer")), row.get(key))
        for row in run.history
    ]
    by_bytes = Series.of(_NAMES[key], points, run.parts)
    return [
        Chart("Accuracy over time", "time", [by_time], percent, seconds, whole_x=False),
        Chart("Accuracy over traffic", "bytes", [by_bytes], percent, bytes_, whole_x=False),
    ]


def _finalists(run: RunRecord) -> Chart:
    """Validation accuracy of each finalist, over the rounds of its own training."""
    accuracies: dict[float, list[object]] = {}
    for row in run.history:
        if is_number(row.get("finalist")):
            accuracies.setdefault(row["finalist"], []).append(row.get("val_accuracy"))
    series = [
        Series.of(f"finalist {number + 1}", enumerate(values, 1))
        for number, values in accuracies.items()
    ]
    shown = series if len(series) > 1 else []
    return Chart("Validation accuracy of each finalist", "round", shown, percent, count)


def more_figures_section(run: RunRecord) -> Content:
    """Every number of the history that no other section shows, and that varies."""
    keys = [
        key
        for key in run.numeric_keys
        if not (key in _ELSEWHERE or key in _NAMES or key.endswith(("_s", "_bytes")))
        and len({row[key] for row in run.history if row.get(key) is not None}) > 1
    ]
    grid = chart_grid(_by_round(run, key.replace("_", " "), [key], form_of(key)) for key in keys)
    if grid is None:
        return None
    summary = element("summary", f"{len(keys)} more figures of the history")
    return element("details", summary, grid)


def form_of(key: str) -> Format:
    """How a figure of that name is written."""
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
    entries = [entry for row in run.history for entry in row.items()]
    charts = []
    for key in dict.fromkeys(key for key, value in entries if _per_client(run, value)):
        name = "validation accuracy" if key == "client_val_accuracy" else key.replace("_", " ")
        title = f"{name.capitalize()} of the clients"
        note = "The band reaches from the lowest to the highest client."
        band, form = client_band(run, key, "mean over clients"), form_of(key)
        charts.append(Chart(title, "round", [band], form, count, marks=run.marks, note=note))
    return charts


def _per_client(run: RunRecord, value: object) -> bool:
    if not isinstance(value, dict) or not value or not value.keys() <= run.clients.keys():
        return False
    return all(isinstance(one, int | float) for one in value.values())


def client_band(run: RunRecord, key: str, name: str, index: int | None = None) -> Series:
    """Mean of a figure that the history has by client, with a band from the least to the greatest.

    ``index`` says which number, where each client has a list of them.
    """
    points = []
    for row in run.history:
        by_client = row.get(key)
        values = list(by_client.values()) if isinstance(by_client, dict) else []
        if index is not None:
            values = [value[index] for value in values if len(value) > index]
        if values:
            points.append((row["round"], mean(values), min(values), max(values)))
    return Series.of(name, points)


def traffic_section(run: RunRecord) -> Content:
    """Bytes and seconds, by phase, step and operation."""
    series = [run.series(key, name, gaps=False) for key, name in _TRAFFIC.items()]
    traffic = Chart("Bytes so far", "round", series, bytes_, count, [0], run.marks)
    bars = [
        _by_phase(run, "Time by phase", ["wall_s"], seconds),
        _by_phase(run, "Bytes by phase", ["bytes_up", "bytes_down", "bytes_peer"], bytes_),
        _by_step(run, "Time by step", "_s", seconds),
        _by_step(run, "Bytes by step", "_bytes", bytes_),
    ]
    shown = element("div", bars, class_="charts") if any(bars) else None
    return [chart_grid([traffic]), shown, _operations(run)]


def _by_phase(run: RunRecord, title: str, keys: Sequence[str], form: Format) -> Safe | None:
    """What each phase added to figures that grow over the run."""
    totals: dict[str, float] = {}
    before = dict.fromkeys(keys, 0.0)
    for row in run.history:
        for key in keys:
            value = row.get(key)
            if is_number(value):
                phase = str(row.get("phase", "rounds"))
                totals[phase] = totals.get(phase, 0.0) + value - before[key]
                before[key] = value
    return bar_table(title, totals.items(), form) if len(totals) > 1 else None


def _by_step(run: RunRecord, title: str, ending: str, form: Format) -> Safe | None:
    """Sums over the rows of figures such as ``evolve_s``."""
    sums = {
        key: sum(row[key] for row in run.history if is_number(row.get(key)))
        for key in run.numeric_keys
        if key.endswith(ending) and key != "wall_s"
    }
    named = [(key.removesuffix(ending).replace("_", " "), value) for key, value in sums.items()]
    return bar_table(title, [(name, value) for name, value in named if value], form, style=1)


def _operations(run: RunRecord) -> Safe | None:
    """Messages and bytes of every operation, the largest first."""
    traffic = run.result.get("traffic")
    if not isinstance(traffic, dict) or not traffic:
        return None
    names = {"down": "to clients", "up": "to server", "peer": "between clients"}
    ways = [way for way in names if any(_of(row, "bytes", way) for row in traffic.values())]
    columns = [(what, way) for way in ways for what in ("messages", "bytes")]
    ordered = sorted(
        traffic.items(), key=lambda entry: -sum(_of(entry[1], "bytes", way) for way in ways)
    )
    forms = {"messages": count, "bytes": bytes_}
    rows = [
        [element("code", str(op)), *(forms[what](_of(row, what, way)) for what, way in columns)]
        for op, row in ordered
    ]
    headings = ["operation", *(f"{what} {names[way]}" for what, way in columns)]
    title = "Messages by operation"
    whole = table(Cells(headings, rows, frozenset(range(1, len(headings)))), title)
    return element("details", element("summary", title), whole)


def _of(row: object, what: str, way: str) -> float:
    value = row.get(f"{what}_{way}") if isinstance(row, dict) else None
    return value if is_number(value) else 0.0
