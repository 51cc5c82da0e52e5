"""Makes the runs of an experiment one after another, and its pages after each.

The state of all runs is in their folders, so that an experiment may be stopped at any time:
a finished run is left alone, one that was stopped goes on from its checkpoint.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from autofgl import api
from autofgl.atomic import write_text
from autofgl.config import RunConfig, check_config, sort_settings
from autofgl.errors import AutoFGLError, Interrupted, UserError
from autofgl.experiments.plan import Experiment, Figure, Options, Run, plan
from autofgl.runs.folder import Result, RunFolder, locked


@dataclass(frozen=True)
class Pages(ABC):
    """The files of an experiment, and what is said on the terminal."""

    experiment: Experiment
    options: Options

    @abstractmethod
    def files(self) -> dict[str, str]:
        """Names and contents, made anew from the run folders; ``<kind>.json`` is the first."""

    @abstractmethod
    def describe(self, run: Run, result: Result) -> str:
        """What to say of a run that was just made."""

    @abstractmethod
    def ending(self, files: dict[str, str]) -> str:
        """What to say when all runs were made."""


def run_experiment(pages: Pages, console: Console) -> None:
    """Make all runs that are asked for and not finished; renew the pages after each.

    Raises:
        UserError: An option is wrong, or the folder holds something else.
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        AutoFGLError: Some runs failed; all others were made nevertheless.
    """
    experiment, options = pages.experiment, pages.options
    runs = plan(experiment, options)
    check_folder(experiment, options.out)
    check_begun(experiment, options)
    with locked(options.out):
        _run_all(runs, pages, console)


def _run_all(runs: Sequence[Run], pages: Pages, console: Console) -> None:
    """:func:`run_experiment` in a folder that nobody else works in."""
    experiment, options = pages.experiment, pages.options
    finished = [RunFolder(run.folder(options.out)).finished for run in runs]
    _write(pages)
    name = "compare" if experiment.kind == "comparison" else experiment.name
    _say(console, f"{name}: {len(runs)} runs, {sum(finished)} of them finished before")
    failures = 0
    try:
        for number, (run, done) in enumerate(zip(runs, finished, strict=True), 1):
            if not done:
                _say(console, f"[{number}/{len(runs)}] {run}")
                failures += not _attempt(run, pages, console)
    except (Interrupted, KeyboardInterrupt) as stopped:
        raise Interrupted("stopped; run the same command again to resume") from stopped
    _say(console, pages.ending(_write(pages)))
    if failures:
        raise AutoFGLError(
            f"{failures} of {len(runs)} runs failed; run the same command to try them again"
        )


def check_folder(experiment: Experiment, out: Path) -> None:
    """Refuse a folder of something else: ``<kind>.json`` is the first file of an experiment.

    Folders of a figure's settings may be there before, with runs that were copied from elsewhere.
    """
    kind = experiment.kind
    try:
        content = json.loads((out / f"{kind}.json").read_text())
    except (OSError, ValueError):
        content = None
    if not out.exists() or (isinstance(content, dict) and content.get(kind) == experiment.name):
        return
    copied = {one.name for one in experiment.settings} if isinstance(experiment, Figure) else set()
    if not out.is_dir() or any(
        not path.name.startswith(".") and path.name not in copied for path in out.iterdir()
    ):
        raise UserError(f"{out} is not a folder of {experiment.name}: choose another --out")


def check_begun(experiment: Experiment, options: Options) -> None:
    """Refuse a folder with runs that were not made as is asked now, and say what differs."""
    for setting in experiment.settings:
        for variant in (*experiment.policies, *experiment.variants):
            for run in experiment.begun_runs(setting, variant, options.out):
                folder = RunFolder(run.folder(options.out))
                if folder.config.exists():
                    _check_same(folder, _facts(run.config(options)))


def _check_same(folder: RunFolder, asked: dict[str, Any]) -> None:
    try:
        made = _facts(check_config(folder.read_config()))
    except UserError as error:
        raise UserError(f"{folder.path} cannot be used, choose another --out: {error}") from error
    differing = [key for key in asked | made if asked.get(key) != made.get(key)]
    if differing:
        what = ", ".join(f"{key} {made.get(key)} (now {asked.get(key)})" for key in differing[:3])
        raise UserError(f"{folder.path} was made with {what}: choose another --out")


def _facts(config: RunConfig) -> dict[str, Any]:
    """What decides a run, defaults included: the place of raw files or of a policy does not."""
    main = ("method", "dataset", "clients", "partition", "secure", "seed")
    facts = {
        **{key: getattr(config, key) for key in main},
        "budget": None if config.time_budget is None else str(config.time_budget),
        **sort_settings(config).dump(config),
    }
    return {**facts, "policy": Path(facts["policy"]).name} if facts.get("policy") else facts


def _attempt(run: Run, pages: Pages, console: Console) -> bool:
    """Make a run, renew the pages and say so; whether it went well."""
    failure = run.failure(pages.options.out)
    try:
        result = _make(run, pages.options, console)
    except Interrupted:
        raise
    except AutoFGLError as error:
        write_text(failure, f"{error}\n")
        _write(pages)
        _say(console, f"  failed: {error}")
        return False
    failure.unlink(missing_ok=True)
    _write(pages)
    _say(console, f"  {pages.describe(run, result)}")
    return True


def _make(run: Run, options: Options, console: Console) -> Result:
    """Start the run or go on with it. Its own progress is shown on a terminal only."""
    folder = RunFolder(run.folder(options.out))
    shown = console if console.is_terminal else None
    if folder.config.exists():
        return api.resume(folder.path, console=shown)
    for stray in folder.path.glob(".*.tmp"):
        stray.unlink()  # killed while the folder was made
    config = run.config(options)
    clients = api.load_clients(config, sort_settings(config))
    return api.start_run(config, clients, folder.path, shown)


def _write(pages: Pages) -> dict[str, str]:
    files, out = pages.files(), pages.options.out
    for name, content in files.items():
        write_text(out / name, content)
    return files


def _say(console: Console, line: str) -> None:
    """Show a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
