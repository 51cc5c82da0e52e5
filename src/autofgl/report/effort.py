"""What a run cost: bytes and seconds, by phase and by operation."""

from collections.abc import Sequence

from autofgl.report.chart import Bar, Chart
from autofgl.report.figures import Cells, bar_table, chart_grid, table
from autofgl.report.markup import Content, Safe, element
from autofgl.report.numbers import Format, bytes_, count, is_number, seconds
from autofgl.report.record import RunRecord
from autofgl.report.section import Section

_WAYS = {
    "bytes_up": "to the server",
    "bytes_down": "to the clients",
    "bytes_peer": "between clients",
    "bytes_secure": "of these, for keys and secure sums",
}


def effort(run: RunRecord) -> Section | None:
    """Traffic and time."""
    traffic = Chart(
        "Bytes so far",
        "round",
        [run.series(key, name, gaps=False) for key, name in _WAYS.items()],
        bytes_,
        count,
        [0],
        run.marks,
    )
    bars = [
        _by_phase(run, "Time by phase", ["wall_s"], seconds),
        _by_phase(run, "Bytes by phase", ["bytes_up", "bytes_down", "bytes_peer"], bytes_),
        _by_step(run, "Time by step", "_s", seconds),
        _by_step(run, "Bytes by step", "_bytes", bytes_),
    ]
    shown = [figure for figure in bars if figure]
    body: list[Content] = [
        chart_grid([traffic]),
        element("div", shown, class_="charts") if shown else None,
        _operations(run),
    ]
    return Section("Traffic and time", body) if any(body) else None


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
    if len(totals) < 2:
        return None
    return bar_table(title, [Bar(phase, value) for phase, value in totals.items()], form)


def _by_step(run: RunRecord, title: str, ending: str, form: Format) -> Safe | None:
    """Sums of the figures that rows have of their own, such as ``evolve_s``."""
    keys = [key for key in run.numeric_keys if key.endswith(ending) and key != "wall_s"]
    sums = [
        Bar(
            key.removesuffix(ending).replace("_", " "),
            sum(row[key] for row in run.history if is_number(row.get(key))),
        )
        for key in keys
    ]
    return bar_table(title, [bar for bar in sums if bar.value], form, style=1)


def _operations(run: RunRecord) -> Safe | None:
    """Messages and bytes of every operation."""
    told = run.result.get("traffic")
    if not isinstance(told, dict) or not told:
        return None
    names = {"down": "to clients", "up": "to server", "peer": "between clients"}
    ways = [way for way in names if any(_of(row, "bytes", way) for row in told.values())]
    headings = ["operation"]
    for way in ways:
        headings += [f"messages {names[way]}", f"bytes {names[way]}"]
    rows: list[list[Content]] = []
    largest_first = sorted(
        told.items(), key=lambda entry: -sum(_of(entry[1], "bytes", way) for way in ways)
    )
    for op, row in largest_first:
        cells: list[Content] = [element("code", str(op))]
        for way in ways:
            cells += [count(_of(row, "messages", way)), bytes_(_of(row, "bytes", way))]
        rows.append(cells)
    title = "Messages by operation"
    whole = table(Cells(headings, rows, frozenset(range(1, len(headings)))), title)
    return element("details", element("summary", title), whole)


def _of(row: object, what: str, way: str) -> float:
    value = row.get(f"{what}_{way}") if isinstance(row, dict) else None
    return value if is_number(value) else 0.0
