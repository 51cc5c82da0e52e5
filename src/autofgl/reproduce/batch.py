"""Runs that are made one after another. All that is known of them is in their folders, so it may
be stopped at any time: a finished run is left alone, one that was stopped goes on from its
checkpoint.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console

from autofgl import api
from autofgl.atomic import write_text
from autofgl.config import RunConfig, check_config, sort_settings
from autofgl.errors import AutoFGLError, Interrupted, UserError
from autofgl.methods.catalog import find_method
from autofgl.reproduce.options import Options
from autofgl.runs.folder import Result, RunFolder


class Planned(ABC):
    """One seed of a table's cell or of a figure's line."""

    seed: int

    @abstractmethod
    def folder(self, out: Path) -> Path:
        """Its run folder; the last part is ``seed-<n>``."""

    @abstractmethod
    def config(self, options: Options) -> RunConfig:
        """The configuration that ``autofgl run`` would have.

        Raises:
            UserError: An option is wrong.
        """

    def failure(self, out: Path) -> Path:
        """Where the reason stands why its last try failed; beside the run folder."""
        folder = self.folder(out)
        return folder.with_name(f"{folder.name}.failed.txt")


Run = TypeVar("Run", bound=Planned)
Seen = TypeVar("Seen", bound=Planned, contravariant=True)


class Pages(Protocol[Seen]):
    """The files that a table or a figure is written to."""

    def write(self) -> None:
        """Make them anew from the run folders."""

    def told(self, run: Seen, result: Result) -> str:
        """What to say of a run that was just made."""

    def ending(self) -> str:
        """What to say when all runs were made."""


def make_all(
    name: str, runs: Sequence[Run], pages: Pages[Run], options: Options, console: Console
) -> None:
    """Make all runs that are not finished, in this order; renew the pages after each.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        AutoFGLError: Some runs failed; all others were made nevertheless.
    """
    finished = [RunFolder(run.folder(options.out)).finished for run in runs]
    _write(pages, options.out)
    _say(console, f"{name}: {len(runs)} runs, {sum(finished)} of them finished before")
    failures = 0
    try:
        for number, (run, done) in enumerate(zip(runs, finished, strict=True), 1):
            if not done:
                _say(console, f"[{number}/{len(runs)}] {run}")
                failures += not _attempt(run, pages, options, console)
    except (Interrupted, KeyboardInterrupt) as stopped:
        raise Interrupted("stopped; the same command goes on where it was") from stopped
    _write(pages, options.out)
    _say(console, pages.ending())
    if failures:
        raise AutoFGLError(
            f"{failures} of {len(runs)} runs failed; the same command tries them again"
        )


def check_folder(out: Path, kind: str, name: str, parts: Collection[str] = ()) -> None:
    """Refuse a folder of something else: ``<kind>.json`` is the first file of a table or figure.
    Folders named as its ``parts`` may be there before, with runs that were copied from elsewhere.

    Raises:
        UserError: It holds something else.
    """
    if not out.exists() or _name_in(out / f"{kind}.json", kind) == name:
        return
    if not out.is_dir() or any(
        not path.name.startswith(".") and path.name not in parts for path in out.iterdir()
    ):
        raise UserError(f"{out} is not a folder of {name}: choose another --out")


def check_same(run: Planned, options: Options) -> None:
    """Refuse a folder with a run that was not made as is asked now.

    Raises:
        UserError: It was made with another configuration; the message says what differs.
    """
    folder = RunFolder(run.folder(options.out))
    if not folder.config.exists():
        return
    asked = _facts(run.config(options))
    try:
        made = _facts(check_config(folder.read_config()))
    except UserError as error:
        raise UserError(f"{folder.path} cannot be used, choose another --out: {error}") from error
    differing = [key for key in asked | made if asked.get(key) != made.get(key)]
    if differing:
        what = ", ".join(f"{key} {made.get(key)} (now {asked.get(key)})" for key in differing[:3])
        raise UserError(f"{folder.path} was made with {what}: choose another --out")


def seeds_in(place: Path) -> list[int]:
    """Seeds of the runs that were begun in a folder, or failed."""
    found = (re.fullmatch(r"seed-(\d+)(\.failed\.txt)?", path.name) for path in place.glob("*"))
    return sorted({int(hit[1]) for hit in found if hit})


def _attempt(run: Run, pages: Pages[Run], options: Options, console: Console) -> bool:
    """Make a run, renew the pages and tell of it; whether it went well."""
    failure = run.failure(options.out)
    try:
        result = _make(run, options, console)
    except Interrupted:
        raise
    except AutoFGLError as error:
        write_text(failure, f"{error}\n")
        _write(pages, options.out)
        _say(console, f"  failed: {error}")
        return False
    failure.unlink(missing_ok=True)
    _write(pages, options.out)
    _say(console, f"  {pages.told(run, result)}")
    return True


def _make(run: Planned, options: Options, console: Console) -> Result:
    """Start the run or go on with it. Its own progress is shown on a terminal only."""
    folder = RunFolder(run.folder(options.out))
    shown = console if console.is_terminal else None
    if folder.config.exists():
        return api.resume(folder.path, console=shown)
    for stray in folder.path.glob(".*.tmp"):
        stray.unlink()  # killed while the folder was made
    config = run.config(options)
    layers = sort_settings(config, find_method(config.method).Settings)
    return api.start(config, api.load_clients(config, layers), folder.path, shown)


def _write(pages: Pages[Run], out: Path) -> None:
    try:
        pages.write()
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}") from error


def _say(console: Console, line: str) -> None:
    """Show a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _facts(config: RunConfig) -> dict[str, Any]:
    """What decides a run, defaults included: the place of raw files or of a policy does not."""
    layers = sort_settings(config, find_method(config.method).Settings)
    main = ("method", "dataset", "clients", "partition", "secure", "seed")
    facts = {
        **{key: getattr(config, key) for key in main},
        "budget": None if config.time_budget is None else str(config.time_budget),
        **layers.dump(config),
    }
    return {**facts, "policy": Path(facts["policy"]).name} if facts.get("policy") else facts


def _name_in(path: Path, kind: str) -> str | None:
    """Name of the table or figure that a file is of."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found.get(kind) if isinstance(found, dict) else None
