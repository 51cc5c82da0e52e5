"""A figure as CSV, Markdown and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from autofgl.reproduce.figure import Chart, Figure, Panel
from autofgl.reproduce.grid import grid, number
from autofgl.reproduce.measures import ENDS, LineSummary
from autofgl.reproduce.options import Options
from autofgl.reproduce.render import ours, seeds

Lines = Sequence[LineSummary]


class Columns(NamedTuple):
    """What stands in ``figure.csv``: what x and y are, and what else there is of a point."""

    x: str
    y: str
    more: tuple[str, ...]


COLUMNS: dict[Chart, Columns] = {
    "accuracy": Columns(
        "seconds", "test_accuracy", ("round", "seconds", "cost", "val_accuracy", "train_loss")
    ),
    "target": Columns("level", "target_seconds", ("target_cost", "target", "test_accuracy")),
    "final": Columns("level", "test_accuracy", ("seconds", "cost", "target_seconds", "target")),
    "levels": Columns("level", "test_accuracy", ("val_accuracy", "wall_s")),
    "returns": Columns("episode", "discounted_return", ("accuracy", "seconds", "cost")),
}


def as_csv(figure: Figure, lines: Lines) -> str:
    """A row for each point."""
    x, y, more = COLUMNS[figure.chart]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("panel", "line", "seed", "x", "y", *more))
    for line in lines:
        for seed in line.runs:
            for point in _points(figure.chart, line, seed):
                values = (point[key] for key in (x, y, *more))
                writer.writerow((line.panel.name, line.line.name, seed, *values))
    return text.getvalue()


def as_json(figure: Figure, options: Options, lines: Lines, learning: Lines) -> str:
    """Every run's figures; accuracies are in [0, 1]."""
    whole = {
        "figure": figure.name,
        "title": figure.title,
        "source": figure.source,
        "claim": figure.claim,
        "rounds": _rounds(figure, options),
        "secure": options.secure,
        "lines": [line.to_dict() for line in lines],
        "learning": [line.to_dict() for line in learning],
        "notes": list(figure.notes),
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(figure: Figure, options: Options, lines: Lines, learning: Lines) -> str:
    """The paper's claim, and a section for each panel that was begun."""
    blocks = [
        f"# {figure.title}",
        f"Paper: {figure.source}. Ours: `autofgl reproduce {figure.name}`, {_how(figure, options)}",
        f"**The paper's claim:** {figure.claim}",
        *_sections(figure, lines, learning),
        "\n".join(f"- {note}" for note in figure.notes),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _points(chart: Chart, line: LineSummary, seed: int) -> list[dict[str, Any]]:
    match chart:
        case "accuracy":
            return [asdict(point) for point in line.trainings[seed]]
        case "returns":
            return [asdict(episode) for episode in line.learnings[seed]]
    return [{**line.runs[seed], "level": line.panel.level, "target": line.target}]


def _rounds(figure: Figure, options: Options) -> int:
    return figure.rounds if options.rounds is None else options.rounds


def _how(figure: Figure, options: Options) -> str:
    if figure.chart == "returns":
        return f"secure sums {options.secure}. All figures are means over the seeds."
    if figure.chart == "levels":
        return (
            f"{_rounds(figure, options)} rounds, secure sums {options.secure}. Federated test "
            "accuracy in percent, mean ± sample standard deviation over the seeds."
        )
    return (
        f"{_rounds(figure, options)} rounds, secure sums {options.secure}. Federated test accuracy "
        "in percent, mean ± sample standard deviation over the seeds; all else are means. Seconds "
        "and cost (sampled edges × width, in millions) are those of training, without "
        f"evaluations; × is the ratio to {figure.lines[0].label}. MB are those of one round."
    )


def _sections(figure: Figure, lines: Lines, learning: Lines) -> list[str]:
    """One for each panel, or for each dataset where panels are levels."""
    if figure.chart != "levels":
        return [_section(figure, panel, lines, learning) for panel in figure.panels]
    groups = dict.fromkeys(panel.group for panel in figure.panels)
    return [_levels(figure, [line for line in lines if line.panel.group == g]) for g in groups]


def _levels(figure: Figure, lines: Lines) -> str:
    """Accuracies of all lines, a row for each level."""
    if not any(line.runs or line.failed for line in lines):
        return ""
    panel = lines[0].panel
    heading = f"## {panel.group}\n\n`{panel.dataset}`, partition `{panel.partition}`."
    rows: dict[str, list[str]] = {}
    for line in lines:
        rows.setdefault(line.panel.level, []).append(f"{ours(line)} ({seeds(line)})")
    headings = (figure.axis, *(f"{line.label} (seeds)" for line in figure.lines))
    return f"{heading}\n\n{grid(headings, [[level, *row] for level, row in rows.items()])}"


def _section(figure: Figure, panel: Panel, lines: Lines, learning: Lines) -> str:
    own = [line for line in lines if line.panel == panel]
    learnt = [line for line in learning if line.panel == panel]
    if not any(line.runs or line.failed for line in (*own, *learnt)):
        return ""
    heading = (
        f"## {panel.label}\n\n"
        f"`{panel.dataset}`, {panel.clients} clients, partition `{panel.partition}`."
    )
    if figure.chart == "returns":
        return f"{heading}\n\n{_returns_grid(own)}"
    target = own[0].target
    if target is not None:
        heading += f" Target accuracy {100 * target:.1f} %."
    told = "\n".join(f"Policy: {_learning(line)}" for line in learnt)
    return "\n\n".join(part for part in (heading, _lines_grid(own), told) if part)


def _lines_grid(lines: Lines) -> str:
    first = lines[0]
    headings = (
        "", "test accuracy", "seeds", "s to target", "×", "cost to target", "×", "s, all rounds",
        "cost, all rounds", "MB to and from the server", "MB between clients",
    )  # fmt: skip
    return grid(
        headings,
        [
            [
                line.line.label,
                ours(line),
                seeds(line),
                _mean(line, "target_seconds"),
                _ratio(line, first, "target_seconds"),
                _mean(line, "target_cost", 1e6),
                _ratio(line, first, "target_cost"),
                _mean(line, "seconds"),
                _mean(line, "cost", 1e6),
                _mean(line, "server_bytes_per_round", 1e6, 3),
                _mean(line, "peer_bytes_per_round", 1e6, 3),
            ]
            for line in lines
        ],
    )


def _returns_grid(lines: Lines) -> str:
    headings = (
        "", "seeds", "episodes", f"return, first {ENDS}", f"return, last {ENDS}", "best", "rounds",
        "s of training", "whole run, s", "cost",
    )  # fmt: skip
    return grid(
        headings,
        [
            [
                line.line.label,
                seeds(line) if line.runs else _failure(line),
                number(line.mean("episodes"), 0),
                *(_mean(line, key) for key in ("first_return", "last_return", "best_return")),
                number(line.mean("rounds"), 0),
                _mean(line, "seconds"),
                _mean(line, "wall_s"),
                _mean(line, "cost", 1e6),
            ]
            for line in lines
        ],
    )


def _learning(line: LineSummary) -> str:
    """What the learning of a policy has cost."""
    if not line.runs:
        return _failure(line)
    return (
        f"learnt in {line.mean('rounds'):.0f} rounds, {_mean(line, 'seconds')} s of training "
        f"({_mean(line, 'wall_s')} s in all), cost {_mean(line, 'cost', 1e6)}; mean return of the "
        f"first {ENDS} episodes {_mean(line, 'first_return')}, of the last {ENDS} "
        f"{_mean(line, 'last_return')}."
    )


def _failure(line: LineSummary) -> str:
    return next((f"failed: {reason}" for reason in line.failed.values()), "not learnt yet.")


def _mean(line: LineSummary, key: str, unit: float = 1.0, digits: int = 2) -> str:
    mean = line.mean(key)
    return number(None if mean is None else mean / unit, digits)


def _ratio(line: LineSummary, first: LineSummary, key: str) -> str:
    ours, other = line.mean(key), first.mean(key)
    return number(ours / other if ours is not None and other else None, 2)
