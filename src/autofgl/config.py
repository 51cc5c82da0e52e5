"""The configuration of a run: validated once, at the edge, and written into the run folder.

Nothing here needs torch or NumPy, so that a mistake is answered at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from autofgl.errors import GraphError, UserError, unknown_name
from autofgl.graphs import catalog
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.methods.catalog import METHODS, default_secure, find_method, settings_of
from autofgl.plugins import absolute_name, check_file
from autofgl.runs.budget import Budget
from autofgl.runs.files import parse_yaml
from autofgl.runtime.settings import BatchSettings

ENGINES = ("inprocess", "nvflare")
#: Names of devices, as :func:`autofgl.runtime.device.choose_device` takes them.
DEVICES = ("auto", "cpu", "cuda", "mps")
#: The names of :data:`autofgl.secure.MODES`, whose import takes longer than all of this.
SECURE_MODES = ("none", "ckks", "shares", "shares-additive")
#: Characters of a wrong value that a message shows.
_LONGEST_SHOWN = 200

#: The keys of ``--dp``, and the settings that they stand for.
PRIVACY = {
    "epsilon": "dp_epsilon",
    "delta": "dp_delta",
    "clip": "dp_clip",
    "colluders": "dp_colluders",
    "rows": "dp_rows_epsilon",
}

Model = TypeVar("Model", bound=BaseModel)


class RunConfig(BaseModel):
    """Everything that decides what a run does.

    Attributes:
        method: Name of the method, or ``module:Class`` or ``file.py:Class`` of one's own.
        graphs: Graph files, one for each client, or one that is partitioned.
        clients: Number of clients; none: 3 for a dataset, one for each file.
        secure: How sums are protected; :func:`check_config` fills in the method's own choice.
        device: Where networks compute, one of :data:`DEVICES`; a site says so for itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    dataset: str | None = None
    graphs: tuple[str, ...] = ()
    data_root: str | None = None
    clients: int | None = Field(default=None, ge=1)
    partition: str = "metis"
    secure: str = "none"
    seed: int = Field(default=0, ge=0)
    budget: str | None = None
    engine: str = "inprocess"
    device: str = "auto"
    settings: dict[str, bool | int | float | str | None] = {}

    @field_validator("settings", mode="before")
    @classmethod
    def _as_scalars(cls, given: Any) -> Any:
        """Lists as the command line has them: ``fanout=[10, 10]`` is ``10,10``."""
        if not isinstance(given, Mapping):
            return given
        lists = {key: value for key, value in given.items() if isinstance(value, list | tuple)}
        return {**given, **{key: ",".join(map(str, value)) for key, value in lists.items()}}

    @property
    def title(self) -> str:
        """The method in short: its name, or the class of one's own."""
        return self.method.rpartition(":")[2]

    @property
    def partitioned(self) -> bool:
        """Whether one graph is cut into clients, rather than one file given for each."""
        return self.dataset is not None or (len(self.graphs) == 1 and (self.clients or 1) > 1)

    @property
    def time_budget(self) -> Budget | None:
        """The time budget, if there is one."""
        return None if self.budget is None else Budget.parse(self.budget)


@dataclass(frozen=True)
class Layers:
    """The ``--set`` values, sorted by who reads them, and a notice for each old name."""

    data: DataSettings
    partition: PartitionSettings
    method: Any
    notices: tuple[str, ...] = ()

    def dump(self, config: RunConfig) -> dict[str, Any]:
        """All settings that have a say in this run, defaults included, in one flat dict."""
        readers = _readers(config, type(self.method))
        layers = (self.data, self.partition, self.method)
        values = {key: value for layer in layers for key, value in layer.model_dump().items()}
        return {key: values[key] for key in readers}


def check_config(values: Mapping[str, Any]) -> RunConfig:
    """Validate a configuration from the command line or a file; a mistake is a UserError."""
    for key in values:
        if key not in RunConfig.model_fields:
            raise unknown_name("configuration key", str(key), RunConfig.model_fields)
    method = values.get("method")
    if isinstance(method, str):
        if method not in METHODS:
            find_method(method)  # one's own, or an error with the nearest names
            values = {**values, "method": absolute_name(method)}
        if values.get("secure") is None:
            values = {**values, "secure": _default_secure(method, values.get("settings") or {})}
    if isinstance(values.get("settings"), Mapping):
        values = {**values, "settings": _own_code(values["settings"])}
    if isinstance(values.get("dataset"), str):
        values = {**values, "dataset": absolute_name(values["dataset"])}
    config = validated(RunConfig, dict(values))
    _check_data(config)
    if config.secure not in SECURE_MODES:
        raise unknown_name("secure mode", config.secure, SECURE_MODES)
    entry = METHODS.get(config.method)
    if entry is not None and config.secure != "none" and not entry.sums_securely:
        raise UserError(f"{config.method} sums nothing that --secure {config.secure} could protect")
    if config.engine not in ENGINES:
        raise unknown_name("engine", config.engine, ENGINES)
    if config.device not in DEVICES:
        raise unknown_name("device", config.device, DEVICES)
    budget = config.time_budget
    if budget is not None and budget.cpu and config.engine != "inprocess":
        where = f"with --engine {config.engine} clients compute in processes of their own"
        raise UserError(f"{where}: give --budget {budget.seconds:g}s of wall time")
    return config


def _own_code(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with whole paths of files that hold a network of one's own, which have to exist."""
    whole = dict(settings)
    model = whole.get("model")
    if isinstance(model, str) and ":" in model:
        whole["model"] = absolute_name(model)
        check_file("model", whole["model"])
    types = whole.get("types")
    if isinstance(types, str) and ":" in types:
        names = [absolute_name(name.strip()) for name in types.split(",")]
        whole["types"] = ",".join(names)
        for name in names:
            check_file("layer", name)
    return whole


def _default_secure(method: str, settings: Mapping[str, Any]) -> str:
    """The mode of a run that names none: the method's own, unless noise needs more."""
    own = default_secure(method)
    sums = method not in METHODS or METHODS[method].sums_securely
    return "shares" if own == "none" and sums and settings.get("dp_epsilon") else own


def _check_data(config: RunConfig) -> None:
    if config.dataset and config.graphs:
        raise UserError("give either --dataset or --graphs, not both")
    if config.dataset is not None:
        catalog.check_dataset(config.dataset)
    if config.partitioned and config.partition not in catalog.PARTITIONERS:
        raise unknown_name("partition", config.partition, catalog.PARTITIONERS)
    files = len(config.graphs)
    if files > 1 and config.clients not in (None, files):
        wrong = f"{files} graph files make {files} clients, not {config.clients}"
        raise UserError(f"{wrong}: leave --clients out")


def check_files(config: RunConfig) -> None:
    """Refuse graph files that do not exist, before anything is imported that could read them."""
    for path in config.graphs:
        if not Path(path).is_file():
            raise GraphError(f"{path}: there is no such file")


def check_device(name: str) -> None:
    """Refuse a device that is unknown or not there; to look for one takes torch."""
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    if name in ("cuda", "mps"):
        from autofgl.runtime.device import choose_device

        choose_device(name)


def sort_settings(config: RunConfig, method_settings: type[BaseModel] | None = None) -> Layers:
    """Hand every ``--set`` value to the layer that reads it, and that checks whether it fits."""
    method_settings = method_settings or settings_of(config.method)
    readers = _readers(config, method_settings)
    values, notices = _present_names(config.settings, readers)
    for key in values:
        if key not in readers:
            raise _unread(key, readers, config)
    values = {**catalog.DRAWN.get(config.dataset or "", {}), **values}

    def layer(model: type[Model]) -> Model:
        own = {key: value for key, value in values.items() if readers[key] is model}
        return validated(model, own, "setting ")

    layers = layer(DataSettings), layer(PartitionSettings), layer(method_settings)
    return Layers(*layers, notices=tuple(notices))


def parse_settings(pairs: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """``key=value`` pairs of the command line."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UserError(f"{option} takes key=value, not '{pair}'")
        try:
            parsed = parse_yaml(value, key)
        except UserError:
            parsed = value
        scalar = isinstance(parsed, bool | int | float | str) or parsed is None
        settings[key.strip()] = parsed if scalar else value
    return settings


def privacy_settings(given: Sequence[str] | Mapping[str, Any] | str | float) -> dict[str, Any]:
    """The settings that ``--dp epsilon=8,clip=0.5`` stands for; a number is an epsilon."""
    if isinstance(given, int | float):
        given = {"epsilon": given}
    if not isinstance(given, Mapping):
        texts = [given] if isinstance(given, str) else given
        given = parse_settings([pair for text in texts for pair in text.split(",")], "--dp")
    for key in given:
        if key not in PRIVACY:
            raise unknown_name("key of --dp", str(key), PRIVACY)
    if not {"epsilon", "rows"} & given.keys():
        raise UserError("--dp takes epsilon=8, say, or rows=8 for what clients send each other")
    return {PRIVACY[key]: value for key, value in given.items()}


def validated(model: type[Model], values: dict[str, Any], what: str = "") -> Model:
    """Build a pydantic model, turning its complaints into one line."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        message = f"{what}{key}={_shown(first['input'])}: {reason[:1].lower()}{reason[1:]}"
        raise UserError(message) from error


def _shown(value: object) -> str:
    """A value in a message of one line, whoever sent it."""
    text = "".join(char if char.isprintable() else "?" for char in str(value)[:_LONGEST_SHOWN])
    return text if len(str(value)) <= _LONGEST_SHOWN else f"{text}…"


def _readers(config: RunConfig, method_settings: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Who reads which key in this run."""
    data: list[str] = []
    if config.dataset is not None:
        knobs = () if config.dataset in catalog.DRAWN else catalog.SyntheticSettings.model_fields
        data = [key for key in DataSettings.model_fields if key not in (*knobs, "directed")]
    elif config.graphs or config.partition == "given":
        data = ["directed"]
    readers: dict[str, type[BaseModel]] = dict.fromkeys(data, DataSettings)
    if config.partitioned:
        readers |= dict.fromkeys(PartitionSettings.model_fields, PartitionSettings)
    return readers | dict.fromkeys(method_settings.model_fields, method_settings)


def _present_names(
    given: Mapping[str, Any], readers: Mapping[str, type[BaseModel]]
) -> tuple[dict[str, Any], list[str]]:
    """The values by the present names of settings and choices, and a notice for each old one."""
    renamed: dict[str, str] = {}
    for model in dict.fromkeys(readers.values()):
        renamed |= getattr(model, "renamed", {})
    values, notices = {}, []
    for old, value in given.items():
        key = old if old in readers else renamed.get(old, old)
        if key != old:
            if key in given:
                raise UserError(f"setting '{old}' is now called '{key}': give it once")
            notices.append(f"setting '{old}' is now called '{key}'")
        choices = getattr(readers.get(key), "renamed_values", {}).get(key, {})
        values[key] = choices.get(value, value)
        if values[key] != value:
            notices.append(f"setting {key}: '{value}' is now called '{values[key]}'")
    return values, notices


def _unread(key: str, readers: Mapping[str, Any], config: RunConfig) -> UserError:
    if key in PRIVACY.values() and not readers.keys() & set(PRIVACY.values()):
        return UserError(f"{config.title} sums nothing that --dp could put noise into")
    if key == PRIVACY["rows"]:
        return UserError(f"{config.title} sends no rows between clients that --dp rows could cover")
    if key in BatchSettings.model_fields and "support" in readers:
        sizes = "give support=512 query=512, say"
        return UserError(f"{config.title} has no mini-batches, but tasks of some nodes: {sizes}")
    if key in BatchSettings.model_fields and "fanouts" in readers:
        return UserError(f"{config.title} samples neighbors with sampler=sage fanouts=10,25")
    if key == "model":
        others = "fedavg, separate, centralized and graphfl train one that you name"
        return UserError(f"{config.title} has a network of its own and takes no model: {others}")
    if key in catalog.SyntheticSettings.model_fields:
        return UserError(f"setting '{key}' has no effect here: it needs --dataset synthetic")
    if key == "directed":
        own = "datasets have undirected edges, and a site's graph file says itself what it has"
        return UserError(f"setting 'directed' has no effect here: {own}")
    if key in DataSettings.model_fields:
        return UserError(f"setting '{key}' has no effect on graph files: they hold their own masks")
    if key in PartitionSettings.model_fields:
        return UserError(f"setting '{key}' has no effect here: nothing is partitioned")
    return unknown_name(f"setting of {config.title}", key, readers)
