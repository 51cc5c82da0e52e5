"""What is compared: entries, on which data, with how many seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofgl.config import RunConfig, check_config, parse_settings, sort_settings
from autofgl.errors import UserError, unknown_name
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.methods.catalog import find_method
from autofgl.reproduce.batch import Planned, check_same, seeds_in
from autofgl.reproduce.options import Options


@dataclass(frozen=True)
class Entry:
    """A method with settings of its own.

    Attributes:
        label: What the user called it, ``fedavg`` or ``fedavg:model=gat,hidden=16``.
        method: Name of the method.
        settings: What this entry alone has.
    """

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Entry":
        """An entry of the command line.

        Raises:
            UserError: The method is unknown, or a setting has no value.
        """
        method, _, own = text.partition(":")
        find_method(method)
        pairs = [pair for pair in own.split(",") if pair]
        return cls(text, method, parse_settings(pairs))

    @property
    def name(self) -> str:
        """Its folder."""
        return re.sub(r"[^a-z0-9.=-]+", "_", self.label.lower())


@dataclass(frozen=True)
class Contest:
    """What all entries have in common.

    Attributes:
        entries: The methods.
        dataset: Name of the dataset; none if graph files are given.
        graphs: Graph files.
        clients: Number of clients.
        partition: Name of the partitioner.
        settings: Settings for every entry that reads them.
        name: What the folder is known by.
    """

    entries: Sequence[Entry]
    dataset: str | None = None
    graphs: tuple[str, ...] = ()
    clients: int | None = None
    partition: str = "metis"
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = "comparison"

    def settings_of(self, entry: Entry) -> dict[str, Any]:
        """The common settings that an entry reads, and its own."""
        known = _keys(entry.method)
        common = {key: value for key, value in self.settings.items() if key in known}
        return {**common, **entry.settings}

    def check(self) -> None:
        """Refuse what cannot be compared.

        Raises:
            UserError: Too few entries, one twice, or a setting that none of them reads.
        """
        if len(self.entries) < 2:
            raise UserError("a comparison needs two methods at least, e.g. compare fedavg fl-agcns")
        names = [entry.name for entry in self.entries]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"'{name}' is there twice: give its settings, as in fedavg:lr=0.02")
        known = {key for entry in self.entries for key in _keys(entry.method)}
        for key in self.settings:
            if key not in known:
                raise unknown_name("setting of these methods", key, known)


@dataclass(frozen=True)
class Heat(Planned):
    """One seed of an entry."""

    contest: Contest
    entry: Entry
    seed: int

    def __str__(self) -> str:
        return f"{self.entry.label}, seed {self.seed}"

    def folder(self, out: Path) -> Path:
        """Its run folder."""
        return out / self.entry.name / f"seed-{self.seed}"

    def config(self, options: Options) -> RunConfig:
        """The configuration that ``autofgl run`` would have."""
        contest = self.contest
        return check_config(
            {
                "method": self.entry.method,
                "dataset": contest.dataset,
                "graphs": contest.graphs,
                "data_root": options.data_root,
                "clients": contest.clients,
                "partition": contest.partition,
                "secure": options.secure_of(self.entry.method),
                "seed": self.seed,
                "budget": options.budget,
                "settings": contest.settings_of(self.entry),
            }
        )


def plan(contest: Contest, options: Options) -> list[Heat]:
    """All runs, each seed with all entries before the next seed, so that pairs are whole early.

    Raises:
        UserError: Something about the contest or an option is wrong.
    """
    contest.check()
    if options.seeds is None or options.seeds < 1:
        raise UserError(f"--seeds {options.seeds}: there must be one at least")
    heats = [
        Heat(contest, entry, seed) for seed in range(options.seeds) for entry in contest.entries
    ]
    for heat in heats:
        sort_settings(heat.config(options), find_method(heat.entry.method).Settings)
        check_same(heat, options)
    return heats


def present(contest: Contest, entry: Entry, out: Path) -> list[Heat]:
    """The runs of an entry that were begun, or failed, by seed."""
    return [Heat(contest, entry, seed) for seed in seeds_in(out / entry.name)]


def _keys(method: str) -> set[str]:
    layers = (DataSettings, PartitionSettings, find_method(method).Settings)
    return {key for layer in layers for key in layer.model_fields}
