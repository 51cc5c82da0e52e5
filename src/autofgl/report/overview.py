"""The main figures of a run, its network and its configuration."""

import base64
from collections.abc import Sequence
from typing import Any

import yaml

from autofgl.nn.found import FoundSpec
from autofgl.nn.networks import NetworkSpec
from autofgl.report.architecture import draw_network, standalone
from autofgl.report.figures import Cells, table
from autofgl.report.markup import Content, Safe, element
from autofgl.report.numbers import (
    NOTHING,
    Format,
    bytes_,
    count,
    is_number,
    percent,
    seconds,
    text,
)
from autofgl.report.record import RunRecord, pairs
from autofgl.report.section import Section
from autofgl.report.style import NETWORK_STYLE

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
#: More different networks than these are not drawn.
_MOST_NETWORKS = 6
#: Keys of the result that other sections tell, or that the configuration has.
_ELSEWHERE = frozenset(
    {
        "per_client", "traffic", "hyperparameters", "versions", "architecture", "finalists", "top",
        "trials", "front", "importance", "method", "dataset", "clients", "partition", "secure",
        "seed", *(key for key, _, _ in _MAIN),
    }
)  # fmt: skip


def headline(run: RunRecord) -> Safe:
    """A sentence on the run, and its main figures."""
    figures = run.result or _so_far(run)
    cards = [
        element("div", element("dt", name), element("dd", form(figures[key])), class_="card")
        for key, name, form in _MAIN
        if is_number(figures.get(key)) and not (key == "bytes_peer" and not figures[key])
    ]
    state = None
    if not run.finished:
        state = element(
            "p", "This run is not finished. What follows is how far it has come.", class_="state"
        )
    return element(
        "header",
        element("p", "AutoFGL run report", class_="kicker"),
        element("h1", title(run)),
        element("p", _sentence(run)),
        state,
        element("dl", cards, class_="cards") if cards else None,
        class_="top",
    )


def title(run: RunRecord) -> str:
    """Method and data."""
    return f"{run.method} on {data_name(run)}"


def data_name(run: RunRecord) -> str:
    """The dataset, or what the graphs are."""
    if run.config.get("dataset"):
        return str(run.config["dataset"])
    files = run.config.get("graphs") or []
    return f"{len(files)} graph file{'s' * (len(files) != 1)}" if files else "graphs in memory"


def network(run: RunRecord) -> Section | None:
    """The trained network as a drawing; where clients have their own, each kind once."""
    if run.network is None:
        return None
    kinds: dict[NetworkSpec, list[str]] = {}
    for name, spec in (run.networks or {"": run.network}).items():
        kinds.setdefault(spec, []).append(name)
    drawn = [_drawn(spec, names) for spec, names in list(kinds.items())[:_MOST_NETWORKS]]
    more = len(kinds) - len(drawn)
    note = element("p", f"and {more} more in model.json", class_="note") if more else None
    words = element("p", element("code", str(run.result.get("architecture", ""))))
    title = "Found architecture" if isinstance(run.network, FoundSpec) else "Network"
    body = element("div", drawn, class_="charts") if len(drawn) > 1 else drawn
    return Section(title, [words, body, note])


def _drawn(spec: NetworkSpec, names: Sequence[str]) -> Safe:
    """A network with the names of those who have it, and a link that saves it."""
    drawing = draw_network(spec)
    file = base64.b64encode(standalone(drawing, NETWORK_STYLE).encode()).decode()
    link = element(
        "a",
        "Save the drawing (SVG)",
        href=f"data:image/svg+xml;base64,{file}",
        download="architecture.svg",
    )
    owners = ", ".join(name for name in names if name)
    label = f"The network of {owners}" if owners else "The network"
    return element(
        "figure",
        element("figcaption", owners) if owners else None,
        element("div", drawing, class_="scroll", role="region", aria_label=label, tabindex=0),
        element("p", link),
    )


def result_figures(run: RunRecord) -> Section | None:
    """Whatever else the result holds."""
    rows: list[list[Content]] = [
        [key.replace("_", " "), _shortened(text(value))]
        for key, value in pairs({k: v for k, v in run.result.items() if k not in _ELSEWHERE})
    ]
    if not rows:
        return None
    return Section("Other results", table(Cells(("figure", "value"), rows), "Other results"))


def configuration(run: RunRecord) -> Section:
    """The whole configuration, and the versions that decide on the numbers."""
    rows: list[list[Content]] = [[key, text(value)] for key, value in pairs(run.config)]
    versions = run.result.get("versions")
    made: list[Content] = []
    if isinstance(versions, dict):
        made.append(element("p", f"Made with {text(versions)}."))
    if run.config.get("dataset") or run.config.get("graphs"):
        command = element("code", "autofgl run --config config.yaml")
        made.append(element("p", "To run it again: ", command, "."))
    written = element("pre", yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True))
    return Section(
        "Configuration",
        [
            *made,
            element(
                "details",
                element("summary", f"All {len(rows)} settings"),
                table(Cells(("setting", "value"), rows), "Settings"),
            ),
            element("details", element("summary", "As config.yaml"), written),
        ],
    )


def _sentence(run: RunRecord) -> str:
    config = run.config
    told = [
        f"{config.get('clients') or NOTHING} clients",
        f"partition {config.get('partition', NOTHING)}" if config.get("dataset") else "",
        f"secure sums {config.get('secure', NOTHING)}",
        f"seed {config.get('seed', NOTHING)}",
        f"budget {config['budget']}" if config.get("budget") else "",
        f"ended by {run.result['stopped_by']}" if run.result.get("stopped_by") else "",
    ]
    return ", ".join(part for part in told if part) + "."


def _so_far(run: RunRecord) -> dict[str, Any]:
    """The last known value of each main figure in the history."""
    known: dict[str, Any] = {"rounds": len(run.history)}
    for row in run.history:
        known |= {key: row[key] for key, _, _ in _MAIN if is_number(row.get(key))}
    return known


def _shortened(told: str, most: int = 300) -> str:
    return told if len(told) <= most else f"{told[:most]}…"
