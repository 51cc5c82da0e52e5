"""Runs of a figure: which there are, how each is configured, and in which order they are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autofgl.config import RunConfig, check_config
from autofgl.errors import UserError, unknown_name
from autofgl.reproduce.batch import Planned, check_same, seeds_in
from autofgl.reproduce.figure import Figure, Line, Panel
from autofgl.reproduce.options import Options, chosen

#: File in a run folder that holds what was learnt.
POLICY_FILE = "policy.afp"


@dataclass(frozen=True)
class FigureRun(Planned):
    """One run of a figure."""

    figure: Figure
    panel: Panel
    line: Line
    seed: int

    def __str__(self) -> str:
        return f"{self.panel.label}, {self.line.label}, seed {self.seed}"

    @property
    def needs(self) -> "FigureRun | None":
        """The run that must come before: it learns the policy that this one uses."""
        return FigureRun(self.figure, self.panel, self.line.uses, 0) if self.line.uses else None

    def folder(self, out: Path) -> Path:
        """Its run folder."""
        return out / self.panel.name / self.line.name / f"seed-{self.seed}"

    def config(self, options: Options) -> RunConfig:
        """The configuration that ``autofgl run`` would have.

        Raises:
            UserError: An option is wrong.
        """
        rounds = self.figure.rounds if options.rounds is None else options.rounds
        settings = {
            "rounds": rounds,
            **self.panel.settings,
            **self.line.settings,
            **self.line.own.get(self.panel.group, {}),
            **self.line.own.get(self.panel.name, {}),
        }
        if options.episodes is not None and "episodes" in settings:
            settings["episodes"] = options.episodes
        if self.needs:
            settings["policy"] = str(self.needs.folder(options.out.absolute()) / POLICY_FILE)
        return check_config(
            {
                "method": self.line.method,
                "dataset": self.panel.dataset,
                "data_root": options.data_root,
                "clients": self.panel.clients,
                "partition": self.panel.partition,
                "secure": options.secure_of(self.line.method),
                "seed": self.seed,
                "settings": settings,
            }
        )


def plan(figure: Figure, options: Options) -> list[FigureRun]:
    """The runs that are asked for and those they need, each once and after what it needs; all with
    the first seed before any with the second.

    Raises:
        UserError: A line, a dataset or an option is wrong.
    """
    panels = _panels(figure, options.columns)
    lines = chosen("row of this figure", options.rows, figure.lines)
    _check_rounds(figure, options.rounds)
    asked = [
        FigureRun(figure, panel, line, seed)
        for seed in range(options.seeds_of(figure))
        for panel in panels
        for line in lines
    ]
    whole = [run for last in asked for run in (last.needs, last) if run is not None]
    runs = list({run.folder(options.out): run for run in whole}.values())
    for run in runs:
        run.config(options)
    return runs


def present(figure: Figure, panel: Panel, line: Line, out: Path) -> list[FigureRun]:
    """The runs of a line in a panel that were begun, or failed, by seed."""
    seeds = seeds_in(out / panel.name / line.name)
    return [FigureRun(figure, panel, line, seed) for seed in seeds]


def check_present(figure: Figure, options: Options) -> None:
    """Refuse a folder with runs that were not made as is asked now.

    Raises:
        UserError: One was made with another configuration; the message says what differs.
    """
    for panel in figure.panels:
        for line in (*figure.learnt, *figure.lines):
            for run in present(figure, panel, line, options.out):
                check_same(run, options)


def _panels(figure: Figure, names: Sequence[str]) -> list[Panel]:
    """The panels on these datasets; all of them if there are no names."""
    groups = {panel.group for panel in figure.panels}
    wanted = {name.lower() for name in names} or groups
    for name in sorted(wanted - groups):
        raise unknown_name("dataset of this figure", name, groups)
    return [panel for panel in figure.panels if panel.group in wanted]


def _check_rounds(figure: Figure, rounds: int | None) -> None:
    if rounds is None:
        return
    if rounds < 1:
        raise UserError(f"--rounds {rounds}: there must be one at least")
    if all("rounds" in line.settings for line in figure.lines):
        raise UserError(f"--rounds has no effect on {figure.name}: it shows no training")
