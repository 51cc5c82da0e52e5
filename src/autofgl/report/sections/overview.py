"""A run's main figures, network, clients and configuration, and who learns what in it."""

import base64
from collections.abc import Sequence

import yaml

from autofgl.methods.privacy import WHO_LEARNS_WHAT
from autofgl.nn.models.spec import NetworkSpec
from autofgl.report.charts.figures import Cells, bar_cell, class_counts, table, table_figure
from autofgl.report.charts.network import draw_network, network_svg
from autofgl.report.numbers import NOTHING, Format, bytes_, count, is_number, percent, seconds, text
from autofgl.report.page import Content, Safe, element, rich_text, scroll_region
from autofgl.report.record import Row, RunRecord, only_dicts, pairs
from autofgl.report.sections import joining
from autofgl.report.sections.certificate import SHOWN
from autofgl.report.sections.predictions import objective_figures

#: Main figures: key of the result, what it is called, how it is written.
_MAIN: tuple[tuple[str, str, Format], ...] = (
    ("test_accuracy", "test accuracy", percent),
    ("val_accuracy", "validation accuracy", percent),
    ("rounds", "rounds", count),
    ("wall_s", "time", seconds),
    ("bytes_up", "to the server", bytes_),
    ("bytes_down", "to the clients", bytes_),
    ("bytes_peer", "between clients", bytes_),
    ("parameters", "parameters", count),
    ("inference_s", "inference time", seconds),
)
#: More networks than this are not drawn, longer values cut off, more clients folded away.
_MOST_NETWORKS, _MOST_LETTERS, _MOST_CLIENTS = 6, 300, 12
_SIZES = ("nodes", "edges", "cut_edges", "train", "val", "test")
_ACCURACIES = ("val_accuracy", "test_accuracy", "unadapted_test_accuracy")
_MODES = {
    "none": "none: the server sees what each client sends",
    "ckks": "ckks: homomorphic encryption, the server adds what it cannot read",
    "shares": "shares: masks that cancel in the sum",
    "shares-additive": "shares-additive: additive secret shares",
}
#: Keys of the result that other sections show, or that the configuration has.
_ELSEWHERE = frozenset(
    {
        "per_client", "traffic", "hyperparameters", "versions", "architecture", "finalists", "top",
        "trials", "front", "importance", "method", "dataset", "clients", "partition", "secure",
        "seed", "dp", "objective", "metrics", *SHOWN, *(key for key, _, _ in _MAIN),
    }
)  # fmt: skip


def run_title(run: RunRecord) -> str:
    """Method and data."""
    if run.config.get("dataset"):
        return f"{run.method} on {run.config['dataset']}"
    files = len(run.config.get("graphs") or [])
    data = f"{files} graph file{'s' * (files != 1)}" if files else "graphs in memory"
    return f"{run.method} on {data}"


def headline(run: RunRecord) -> Safe:
    """A sentence on the run, and its main figures."""
    entries = [(key, row.get(key)) for row in run.history for key, _, _ in _MAIN]
    latest = {key: value for key, value in entries if is_number(value)}
    figures = run.result or {"rounds": len(run.history), **latest}
    shown = {name: percent(value) for name, value in objective_figures(run).items()} | {
        name: form(figures[key])
        for key, name, form in _MAIN
        if is_number(figures.get(key)) and not (key == "bytes_peer" and not figures[key])
    }
    cards = [
        element("div", element("dt", name), element("dd", value), class_="card")
        for name, value in shown.items()
    ]
    unfinished = "This run is not finished. What follows is its state so far."
    return element(
        "header",
        element("p", "AutoFGL run report", class_="kicker"),
        element("h1", run_title(run)),
        element("p", _sentence(run)),
        None if run.finished else element("p", unfinished, class_="state"),
        element("dl", cards, class_="cards") if cards else None,
        class_="top",
    )


def network_section(run: RunRecord) -> Content:
    """The trained network as a drawing; where clients have their own, each kind once."""
    if run.network is None:
        return None
    kinds: dict[NetworkSpec, list[str]] = {}
    for name, spec in (run.networks or {"": run.network}).items():
        kinds.setdefault(spec, []).append(name)
    figures = [_figure(spec, names) for spec, names in list(kinds.items())[:_MOST_NETWORKS]]
    more = len(kinds) - len(figures)
    note = element("p", f"and {more} more in model.json", class_="note") if more else None
    words = element("p", element("code", str(run.result.get("architecture", ""))))
    body = element("div", figures, class_="charts") if len(figures) > 1 else figures
    return [words, body, note]


def _figure(spec: NetworkSpec, names: Sequence[str]) -> Safe:
    """A network with the names of the clients that have it, and a link that saves it."""
    file = "data:image/svg+xml;base64," + base64.b64encode(network_svg(spec).encode()).decode()
    link = element("a", "Save the drawing (SVG)", href=file, download="architecture.svg")
    owners = ", ".join(name for name in names if name)
    label = f"The network of {owners}" if owners else "The network"
    return element(
        "figure",
        element("figcaption", owners) if owners else None,
        scroll_region(draw_network(spec), label),
        element("p", link),
    )


def clients_section(run: RunRecord) -> Content:
    """Sizes, labels and accuracies of the clients."""
    rows = list(run.clients.values())
    if not rows:
        return None
    accuracies = [row["test_accuracy"] for row in rows if is_number(row.get("test_accuracy"))]
    secure = run.finished and run.config.get("secure") not in (None, "none")
    summary = "The sums were secure: only a client itself knows its accuracy." if secure else ""
    if accuracies:
        lowest, highest = percent(min(accuracies)), percent(max(accuracies))
        summary = f"Test accuracy from {lowest} to {highest} over {len(accuracies)} clients."
    whole: Content = [table(_cells(rows), "Clients"), _choices(rows)]
    if len(rows) > _MOST_CLIENTS:
        whole = element("details", element("summary", f"All {len(rows)} clients"), whole)
    return [element("p", summary) if summary else None, whole]


def _cells(rows: Sequence[Row]) -> Cells:
    sizes = [key for key in _SIZES if any(is_number(row.get(key)) for row in rows)]
    accuracies = [key for key in _ACCURACIES if any(is_number(row.get(key)) for row in rows)]
    labels = any(isinstance(row.get("labels"), list) for row in rows)
    headings = ["client", *(key.replace("_", " ") for key in sizes)]
    headings += ["nodes by class"] * labels
    for key in accuracies:
        headings += [key.replace("_", " ").replace("val ", "validation "), ""]
    shown = {"name", "labels", "unlabelled", *_SIZES, *_ACCURACIES, *joining.SHOWN}
    entries = ((key, row[key]) for row in rows for key in row if key not in shown)
    others = list(dict.fromkeys(key for key, value in entries if not isinstance(value, dict)))
    headings += [key.replace("_", " ") for key in others]
    cells: list[list[Content]] = []
    for row in rows:
        cell: list[Content] = [str(row["name"]), *(text(row.get(key)) for key in sizes)]
        if labels:
            cell.append(class_counts(row.get("labels")))
        for value in map(row.get, accuracies):
            cell += [percent(value), bar_cell(value)] if is_number(value) else [NOTHING, ""]
        cells.append([*cell, *(text(row.get(key)) for key in others)])
    return Cells(headings, cells, frozenset(range(1, len(sizes) + 1)))


def _choices(rows: Sequence[Row]) -> Safe | None:
    """What each client has chosen for itself: mappings of its row, a column for each key."""
    chosen: dict[str, Row] = {str(row["name"]): {} for row in rows}
    for row in rows:
        choices = (value for key, value in row.items() if key != "metrics")
        for value in choices:
            chosen[str(row["name"])] |= pairs(value) if isinstance(value, dict) else {}
    keys = list(dict.fromkeys(key for values in chosen.values() for key in values))
    if not keys:
        return None
    cells = [[name, *(text(values.get(key)) for key in keys)] for name, values in chosen.items()]
    headings = ["client", *(key.replace("_", " ") for key in keys)]
    return table_figure("What each client has chosen", Cells(headings, cells))


def other_results_section(run: RunRecord) -> Content:
    """Everything in the result that no other section shows; long values are cut off."""
    other = {key: value for key, value in run.result.items() if key not in _ELSEWHERE}
    rows = []
    for key, value in pairs(other):
        words = text(value)
        short = words if len(words) <= _MOST_LETTERS else f"{words[:_MOST_LETTERS]}…"
        rows.append([key.replace("_", " "), short])
    return table(Cells(("figure", "value"), rows), "Other results") if rows else None


def privacy_section(run: RunRecord) -> Content:
    """What each party learns in a run like this one, by its method and its secure mode."""
    mode = str(run.config.get("secure", "none"))
    sums: list[Content] = [element("p", f"Secure sums: {_MODES.get(mode, mode)}.")]
    if isinstance(run.result.get("dp"), dict):
        sums.append(element("p", _noise_sentence(run.result["dp"])))
    parties = WHO_LEARNS_WHAT.get(run.method, ())
    if not parties:
        other = element("p", f"The documentation of {run.method} says who learns what.")
        return [*sums, other, _audit(run)]
    rows = [[party.who, rich_text(party.with_mode(mode != "none"))] for party in parties]
    return [*sums, table(Cells(("who", "learns"), rows), "Who learns what"), _audit(run)]


def _audit(run: RunRecord) -> Content:
    """What attacks on a short run with the same settings got, if there were any."""
    leaks = only_dicts(run.audit.get("leaks"))
    if not leaks:
        command = element("code", "autofgl audit DIR")
        return element("p", "No attacks were run on it: ", command, " measures them.")
    rows = []
    for leak in leaks:
        numbers = [leak.get("figure"), leak.get("chance")]
        figure, chance = (f"{one:.3g}" if is_number(one) else NOTHING for one in numbers)
        named = f"{leak.get('measure')} {figure}" if leak.get("measure") else figure
        words = [text(leak.get(key)) for key in ("who", "attack", "verdict", "got")]
        rows.append([*words, named, chance])
    headings = ("who", "attack", "verdict", "what it got", "measured", "by chance")
    return [
        element("p", f"Measured: {text(run.audit.get('summary'))}."),
        table(Cells(headings, rows), "What attacks got"),
    ]


def _noise_sentence(spent: Row) -> str:
    """What differential privacy promises of a run, and what noise its figures carry."""
    kinds = spent.get("releases", {})
    return (
        f"Differential privacy of each client: ε = {text(spent.get('epsilon'))} at "
        f"δ = {text(spent.get('delta'))}, of a budget of {text(spent.get('budget'))}, over "
        f"{text(kinds.get('updates'))} summed updates and {text(kinds.get('figures'))} sums of "
        "figures, searches included. It holds against the server together with "
        f"{text(spent.get('colluders'))} of the clients. Accuracies and losses carry noise too; "
        f"that of an accuracy has a standard deviation of {text(spent.get('accuracy_deviation'))}."
    )


def configuration_section(run: RunRecord) -> Content:
    """The whole configuration, and the versions that the numbers depend on."""
    rows = [[key, text(value)] for key, value in pairs(run.config)]
    versions = run.result.get("versions")
    body: list[Content] = []
    if isinstance(versions, dict):
        body.append(element("p", f"Made with {text(versions)}."))
    if run.config.get("dataset") or run.config.get("graphs"):
        command = element("code", "autofgl run --config config.yaml")
        body.append(element("p", "To run it again: ", command, "."))
    settings = table(Cells(("setting", "value"), rows), "Settings")
    written = element("pre", yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True))
    body.append(element("details", element("summary", f"All {len(rows)} settings"), settings))
    body.append(element("details", element("summary", "As config.yaml"), written))
    return body


def _sentence(run: RunRecord) -> str:
    config, dropped = run.config, run.result.get("dropped") or {}
    parts = [
        f"{config.get('clients') or NOTHING} clients",
        f"partition {config.get('partition', NOTHING)}" if config.get("dataset") else "",
        f"secure sums {config.get('secure', NOTHING)}",
        f"seed {config.get('seed', NOTHING)}",
        f"budget {config['budget']}" if config.get("budget") else "",
        f"stopped by {run.result['stopped_by']}" if run.result.get("stopped_by") else "",
        f"bad clients left out: {', '.join(dropped)}" if dropped else "",
    ]
    return ", ".join(part for part in parts if part) + "."
