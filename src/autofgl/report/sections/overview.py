"""The main figures of a run, its network, its configuration, and who learns what in it."""

import base64
from collections.abc import Sequence
from typing import Any

import yaml

from autofgl.methods.privacy import WHO_LEARNS_WHAT
from autofgl.nn.models.spec import NetworkSpec
from autofgl.report.charts.figures import Cells, scroll_region, table
from autofgl.report.charts.network import draw_network, network_svg
from autofgl.report.numbers import NOTHING, Format, bytes_, count, is_number, percent, seconds, text
from autofgl.report.page import Content, Safe, element, rich_text
from autofgl.report.record import RunRecord, pairs

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
#: More different networks than this are not drawn, and longer values are cut off.
_MOST_NETWORKS, _MOST_LETTERS = 6, 300
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
        "seed", *(key for key, _, _ in _MAIN),
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
    figures = run.result or _so_far(run)
    cards = [
        element("div", element("dt", name), element("dd", form(figures[key])), class_="card")
        for key, name, form in _MAIN
        if is_number(figures.get(key)) and not (key == "bytes_peer" and not figures[key])
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
    sums = element("p", f"Secure sums: {_MODES.get(mode, mode)}.")
    parties = WHO_LEARNS_WHAT.get(run.method, ())
    if not parties:
        return [sums, element("p", f"The documentation of {run.method} says who learns what.")]
    rows = [[party.who, rich_text(party.with_mode(mode != "none"))] for party in parties]
    return [sums, table(Cells(("who", "learns"), rows), "Who learns what")]


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
    config = run.config
    parts = [
        f"{config.get('clients') or NOTHING} clients",
        f"partition {config.get('partition', NOTHING)}" if config.get("dataset") else "",
        f"secure sums {config.get('secure', NOTHING)}",
        f"seed {config.get('seed', NOTHING)}",
        f"budget {config['budget']}" if config.get("budget") else "",
        f"stopped by {run.result['stopped_by']}" if run.result.get("stopped_by") else "",
    ]
    return ", ".join(part for part in parts if part) + "."


def _so_far(run: RunRecord) -> dict[str, Any]:
    """The latest value of each main figure in the history."""
    latest: dict[str, Any] = {"rounds": len(run.history)}
    for row in run.history:
        latest |= {key: row[key] for key, _, _ in _MAIN if is_number(row.get(key))}
    return latest
