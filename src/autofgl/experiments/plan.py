"""What is run: settings × variants × seeds, how each run is configured, and where it lies.

Everything here is plain data and light to import, so that a misspelled name is refused at once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from autofgl.errors import UserError, unknown_name

if TYPE_CHECKING:
    from autofgl.config import RunConfig

#: ``accuracy``: test accuracy over training time, and over cost. ``target``: marks of the time and
#: the cost until a common target accuracy. ``final``: marks of test accuracy, time and cost of the
#: whole training. ``returns``: return of every episode of a policy's learning. ``losses``:
#: federated losses of every generation of a search. ``levels``: test accuracy over the level of the
#: settings, a number.
ChartKind: TypeAlias = Literal["accuracy", "target", "final", "returns", "losses", "levels"]


@dataclass(frozen=True)
class Setting:
    """The clients that all variants are run on: a column of a table, a panel of a figure."""

    name: str  #: its folder, and what ``--datasets`` calls it unless it has a group
    label: str  #: its heading
    dataset: str | None  #: none with graph files
    clients: int | None = 3
    partition: str = "metis"
    #: ``--set`` values that all variants have in common here
    shared: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""  #: what ``--datasets`` calls it together with others on the same dataset
    level: str = ""  #: what sets it apart from others of its group, on an axis of a figure
    graphs: tuple[str, ...] = ()  #: graph files in place of a dataset


@dataclass(frozen=True)
class Variant:
    """A method with its settings: a row of a table, a line of a figure, an entry of a comparison.

    A variant that ``uses`` another needs its policy: that one is run once in each setting, with
    seed 0, before this one, and all seeds of this one use what it has learned.
    """

    name: str  #: its folder, and what ``--rows`` calls it
    label: str  #: what pages call it
    method: str
    #: what differs from the method's defaults, and from that in groups or settings by their names
    settings: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeds: int | None = None  #: in place of the experiment's number
    budgeted: bool = False  #: whether it gets the time budget rather than run to its end
    partition: str | None = None  #: in place of the setting's
    uses: "Variant | None" = None


@dataclass(frozen=True)
class Experiment:
    """Variants in settings."""

    kind: ClassVar[str] = "experiment"

    name: str  #: what the command line calls it
    title: str  #: what it shows
    settings: Sequence[Setting]
    variants: Sequence[Variant]
    source: str = ""  #: the paper, and the number of the table or figure there
    notes: Sequence[str] = ()  #: where our way differs from the paper's, a sentence each
    seeds: int = 3  #: of each variant that has no number of its own
    rounds: int | None = None  #: of each run unless its settings or the user say otherwise

    @property
    def policies(self) -> list[Variant]:
        """Variants that others use, each once."""
        used = (variant.uses for variant in self.variants)
        return list({variant.name: variant for variant in used if variant}.values())

    def begun_runs(self, setting: Setting, variant: Variant, out: Path) -> "list[Run]":
        """The runs of a variant in a setting that were begun, or failed, by seed."""
        place = out / setting.name / variant.name
        names = (re.fullmatch(r"seed-(\d+)(\.failed\.txt)?", path.name) for path in place.glob("*"))
        seeds = sorted({int(name[1]) for name in names if name})
        return [Run(self, setting, variant, seed) for seed in seeds]


class Published(NamedTuple):
    """What a paper reports in a cell: FLACC in percent, millions of parameters, inference time."""

    accuracy: float
    parameters: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Table(Experiment):
    """A table of a paper; its settings are the columns, its variants the rows."""

    kind: ClassVar[str] = "table"

    #: The paper's figures by variant's and setting's name; some may be missing.
    paper: Mapping[tuple[str, str], Published] = field(default_factory=dict)
    #: Whether the clients' mean accuracy, and that of every network over the classes of all
    #: clients, are shown too.
    by_client: bool = False
    tuning: bool = False  #: whether it is about the time of searches for hyperparameters
    #: Whether accuracy by round, and the accuracy of a test phase at the server, are shown too.
    by_round: bool = False


@dataclass(frozen=True)
class Figure(Experiment):
    """A figure of a paper; its settings are the panels, its variants the lines.

    The paper's own variant is the first, the others are compared with it.
    """

    kind: ClassVar[str] = "figure"

    rounds: int = 100
    claim: str = ""  #: what the paper says of it, in our words, with the section
    chart: ChartKind = "accuracy"
    axis: str = ""  #: what the level of the settings is, for the chart ``levels``


@dataclass(frozen=True)
class Comparison(Experiment):
    """Methods side by side in one setting; what they are given is the user's."""

    kind: ClassVar[str] = "comparison"

    @property
    def setting(self) -> Setting:
        """What all methods are run on."""
        return self.settings[0]

    @property
    def data(self) -> str:
        """Name of the dataset, or number of graph files."""
        return self.setting.dataset or f"{len(self.setting.graphs)} graph files"


@dataclass(frozen=True)
class Leaderboard(Experiment):
    """Methods on datasets that are cut in several ways, anew with every seed.

    Each method has as many variants as there are settings to choose from, and by validation nodes
    one of them counts: ``entries`` have the label of the method of each variant.
    """

    kind: ClassVar[str] = "leaderboard"

    entries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What the user asks of an experiment; nothing: all of it, as it is defined."""

    out: Path
    datasets: tuple[str, ...] = ()  #: names of settings or groups
    rows: tuple[str, ...] = ()  #: names of variants
    seeds: int | None = None
    budget: str = "10m"  #: of each run that has one
    secure: str = "none"
    data_root: str | None = None  #: folder with raw datasets
    rounds: int | None = None  #: of each training of a figure
    episodes: int | None = None  #: that policies of a figure are learned in

    def seeds_of(self, experiment: Experiment, variant: Variant) -> int:
        """With how many seeds a variant is run."""
        return self.seeds or variant.seeds or experiment.seeds

    def rounds_of(self, experiment: Experiment) -> int | None:
        """How many rounds the runs of an experiment have, if it says so."""
        return experiment.rounds if self.rounds is None else self.rounds


@dataclass(frozen=True)
class Run:
    """One seed of a variant in a setting: an ordinary run folder."""

    experiment: Experiment
    setting: Setting
    variant: Variant
    seed: int

    def __str__(self) -> str:
        parts = (self.setting.label, self.variant.label, f"seed {self.seed}")
        return ", ".join(filter(None, parts))

    @property
    def needs(self) -> "Run | None":
        """The run that must come before: it learns the policy that this one uses."""
        uses = self.variant.uses
        return Run(self.experiment, self.setting, uses, 0) if uses else None

    def folder(self, out: Path) -> Path:
        """Its run folder."""
        return out / self.setting.name / self.variant.name / f"seed-{self.seed}"

    def failure(self, out: Path) -> Path:
        """The file beside its folder that says why its last attempt failed."""
        folder = self.folder(out)
        return folder.with_name(f"{folder.name}.failed.txt")

    def config(self, options: Options) -> "RunConfig":
        """The configuration that ``autofgl run`` would have, or a :class:`UserError`."""
        from autofgl.config import check_config
        from autofgl.methods.catalog import METHODS

        setting, variant = self.setting, self.variant
        method = METHODS.get(variant.method)
        protected = method is None or method.sums_securely
        return check_config(
            {
                "method": variant.method,
                "dataset": setting.dataset,
                "graphs": setting.graphs,
                "data_root": options.data_root,
                "clients": setting.clients,
                "partition": variant.partition or setting.partition,
                "secure": options.secure if protected else "none",
                "seed": self.seed,
                "budget": options.budget if variant.budgeted else None,
                "settings": self._method_settings(options),
            }
        )

    def check(self, options: Options) -> None:
        """Refuse what cannot be run; a comparison's settings and files, the user's, count too."""
        config = self.config(options)
        if self.experiment.kind in ("comparison", "leaderboard"):
            from autofgl.config import check_files, sort_settings
            from autofgl.runs.folder import RunFolder

            sort_settings(config)
            if not RunFolder(self.folder(options.out)).finished:
                check_files(config)

    def _method_settings(self, options: Options) -> dict[str, Any]:
        rounds = options.rounds_of(self.experiment)
        settings = {
            **({} if rounds is None else {"rounds": rounds}),
            **self.setting.shared,
            **self.variant.settings,
            **self.variant.own.get(self.setting.group, {}),
            **self.variant.own.get(self.setting.name, {}),
        }
        if options.episodes is not None and "episodes" in settings:
            settings["episodes"] = options.episodes
        if self.needs:
            settings["policy"] = str(self.needs.folder(options.out.absolute()) / "policy.afp")
        return settings


def plan(experiment: Experiment, options: Options) -> list[Run]:
    """The runs that are asked for and those they need, each once and after what it needs; all with
    the first seed before any with the second.

    Raises:
        UserError: A name or an option is wrong.
    """
    for name, number in (("--seeds", options.seeds), ("--rounds", options.rounds)):
        if number is not None and number < 1:
            raise UserError(f"{name} {number}: there must be one at least")
    if options.rounds and all("rounds" in variant.settings for variant in experiment.variants):
        raise UserError(f"--rounds has no effect on {experiment.name}: it shows no training")
    what = f"of this {experiment.kind}"
    datasets = [(one.group or one.name, one) for one in experiment.settings]
    settings = _selected(f"dataset {what}", options.datasets, datasets)
    rows = [(one.name, one) for one in experiment.variants]
    variants = _selected(f"row {what}", options.rows, rows)
    seeds = {variant.name: options.seeds_of(experiment, variant) for variant in variants}
    asked = [
        Run(experiment, setting, variant, seed)
        for seed in range(max(seeds.values()))
        for setting, variant in product(settings, variants)
        if seed < seeds[variant.name]
    ]
    whole = [run for last in asked for run in (last.needs, last) if run is not None]
    runs = list({run.folder(options.out): run for run in whole}.values())
    for run in runs:
        run.check(options)
    return runs


def make_comparison(
    methods: Sequence[str], setting: Setting, settings: Mapping[str, Any] | None = None
) -> Comparison:
    """A comparison of methods such as ``fedavg`` or ``fedavg:model=gat,hidden=16``; ``settings``
    are for every method that reads them.

    Raises:
        UserError: A method or a setting is unknown, a method is there twice, or there is only one.
    """
    variants = [parse_variant(method) for method in methods]
    if len(variants) < 2:
        raise UserError("a comparison needs two methods at least, e.g. compare fedavg fl-agcns")
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"'{name}' is there twice: give its settings, as in fedavg:lr=0.02")
    complete = _with_common(variants, settings or {})
    return Comparison("comparison", ", ".join(methods), [setting], complete)


def make_leaderboard(
    methods: Sequence[str],
    datasets: Sequence[str],
    partitions: Sequence[str],
    *,
    clients: int = 10,
    settings: Mapping[str, Any] | None = None,
    tune: Sequence[str] = (),
    budgeted: bool = False,
) -> Leaderboard:
    """A leaderboard of methods such as ``fedavg:sharing=personal`` on cuts such as ``metis`` and
    ``dirichlet:dirichlet_beta=0.1``; ``tune`` has values to choose from by validation nodes, such
    as ``lr=0.01,0.03``, for every method that reads the setting.

    Raises:
        UserError: Something of it is unknown, or a method is there twice.
    """
    variants, entries = [], {}
    for method in methods:
        one = parse_variant(method)
        read = _readable_settings(one.method)
        grids = [(key, values) for key, values in map(_choices, tune) if key in read]
        for point in product(*(values for _, values in grids)):
            chosen = [f"{key}={value}" for (key, _), value in zip(grids, point, strict=True)]
            text = method + (":" if chosen and ":" not in method else "," if chosen else "")
            made = replace(parse_variant(text + ",".join(chosen)), budgeted=budgeted)
            if made.name in entries:
                raise UserError(f"'{method}' is there twice: give its settings, as in fedavg:lr=1")
            variants.append(made)
            entries[made.name] = one.label
    places = [_cut_setting(dataset, cut, clients) for dataset in datasets for cut in partitions]
    complete = _with_common(variants, settings or {})
    about = f"{len(methods)} methods, {clients} clients"
    return Leaderboard("leaderboard", about, places, complete, entries=entries)


def _cut_setting(dataset: str, text: str, clients: int) -> Setting:
    """A dataset in a cut, which may have settings of its own: ``labels:clients=3``."""
    from autofgl.config import parse_settings
    from autofgl.graphs.catalog import PartitionSettings

    cut, _, own = text.partition(":")
    settings = parse_settings([pair for pair in own.split(",") if pair])
    for key in settings:
        known = [*PartitionSettings.model_fields, "clients"]
        if key not in known:
            raise unknown_name("setting of a partition", key, known)
    level = " ".join([cut, *(str(value) for value in settings.values())])
    number = settings.pop("clients", clients)
    name = re.sub(r"[^a-z0-9.=-]+", "-", f"{dataset}-{text}".lower())
    group = dataset.replace(":", "-")
    label = f"{dataset}, {level}"
    return Setting(name, label, dataset, number, cut, settings, group=group, level=level)


def _choices(text: str) -> tuple[str, list[str]]:
    key, equals, values = text.partition("=")
    if not equals or not key or not values:
        raise UserError(f"--tune takes key=value,value, not '{text}'")
    return key.strip(), values.split(",")


def _with_common(variants: Sequence[Variant], common: Mapping[str, Any]) -> list[Variant]:
    """The variants with settings that are for each that reads them."""
    readers = {variant.name: _readable_settings(variant.method) for variant in variants}
    readable = set().union(*readers.values())
    for key in common:
        if key not in readable:
            raise unknown_name("setting of these methods", key, readable)
    complete = []
    for variant in variants:
        read = {key: value for key, value in common.items() if key in readers[variant.name]}
        complete.append(replace(variant, settings={**read, **variant.settings}))
    return complete


def parse_variant(text: str) -> Variant:
    """A method of the command line with settings of its own, if any."""
    from autofgl.config import parse_settings
    from autofgl.methods.catalog import settings_of

    method, _, own = text.partition(":")
    settings_of(method)
    settings = parse_settings([pair for pair in own.split(",") if pair])
    name = re.sub(r"[^a-z0-9.=-]+", "_", text.lower())
    return Variant(name, text, method, settings, budgeted=True)


Choice = TypeVar("Choice")


def _selected(kind: str, names: Iterable[str], named: Sequence[tuple[str, Choice]]) -> list[Choice]:
    """The choices of these names, in their own order; all of them if there are no names."""
    wanted, possible = {name.lower() for name in names}, {name for name, _ in named}
    for name in sorted(wanted - possible):
        raise unknown_name(kind, name, possible)
    return [choice for name, choice in named if not wanted or name in wanted]


def _readable_settings(method: str) -> set[str]:
    """Names of the settings that a method's runs read."""
    from autofgl.graphs.catalog import DataSettings, PartitionSettings
    from autofgl.methods.catalog import settings_of

    layers = (DataSettings, PartitionSettings, settings_of(method))
    return {key for layer in layers for key in layer.model_fields}
