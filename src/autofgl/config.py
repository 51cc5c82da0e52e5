"""The configuration of a run: validated once, at the edge, and written into the run folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autofgl.errors import UserError, unknown_name
from autofgl.graphs.datasets import DataSettings
from autofgl.graphs.partition import PartitionSettings
from autofgl.graphs.synthetic import SyntheticSettings
from autofgl.methods.catalog import default_secure
from autofgl.runs.budget import Budget
from autofgl.secure import MODES

ENGINES = ("inprocess", "nvflare")

Model = TypeVar("Model", bound=BaseModel)


class RunConfig(BaseModel):
    """Everything that decides what a run does.

    Attributes:
        method: Name of the method.
        dataset: Name of a dataset; none if the graphs come from files or from memory.
        graphs: Graph files, one for each client, or one that is partitioned.
        data_root: Folder with raw files of public datasets.
        clients: Number of clients; none: 3 for a dataset, one for each file.
        partition: Name of the partitioner.
        secure: How sums are protected; :func:`check_config` fills in the method's own choice.
        seed: Root of all chance.
        budget: Time after which no further round is begun, such as ``10m`` or ``10m cpu``.
        engine: What carries the messages.
        settings: ``--set`` values of dataset, partitioner and method.
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
    settings: dict[str, bool | int | float | str | None] = {}

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
    """The ``--set`` values, sorted by who reads them."""

    data: DataSettings
    partition: PartitionSettings
    method: Any

    def dump(self, config: RunConfig) -> dict[str, Any]:
        """All settings that have a say in this run, defaults included, in one flat dict."""
        readers = _readers(config, type(self.method))
        layers = (self.data, self.partition, self.method)
        values = {key: value for layer in layers for key, value in layer.model_dump().items()}
        return {key: values[key] for key in readers}


def check_config(values: Mapping[str, Any]) -> RunConfig:
    """Validate a configuration from the command line or a file.

    Raises:
        UserError: A key or a value is wrong.
    """
    for key in values:
        if key not in RunConfig.model_fields:
            raise unknown_name("configuration key", str(key), RunConfig.model_fields)
    config = validated(RunConfig, _with_secure(values))
    if config.dataset and config.graphs:
        raise UserError("give either --dataset or --graphs, not both")
    if len(config.graphs) > 1 and config.clients not in (None, len(config.graphs)):
        raise UserError(
            f"{len(config.graphs)} graph files make {len(config.graphs)} clients, "
            f"not {config.clients}: leave --clients out"
        )
    if config.secure not in MODES:
        raise unknown_name("secure mode", config.secure, MODES)
    if config.engine not in ENGINES:
        raise unknown_name("engine", config.engine, ENGINES)
    budget = config.time_budget
    if budget is not None and budget.cpu and config.engine != "inprocess":
        raise UserError(
            f"with --engine {config.engine} clients compute in processes of their own: "
            f"give --budget {budget.seconds:g}s of wall time"
        )
    return config


def _with_secure(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the method's own secure mode where none is given."""
    if values.get("secure") is not None or "method" not in values:
        return dict(values)
    return {**values, "secure": default_secure(str(values["method"]))}


def sort_settings(config: RunConfig, method_settings: type[BaseModel]) -> Layers:
    """Hand every ``--set`` value to the layer that reads it.

    Raises:
        UserError: Nobody reads a key in this run, or a value does not fit.
    """
    readers = _readers(config, method_settings)
    for key in config.settings:
        if key not in readers:
            raise _unread(key, readers, config)

    def layer(model: type[Model]) -> Model:
        own = {key: value for key, value in config.settings.items() if readers[key] is model}
        return validated(model, own, "setting ")

    return Layers(layer(DataSettings), layer(PartitionSettings), layer(method_settings))


def read_config_file(path: Path) -> dict[str, Any]:
    """The keys of a YAML configuration file.

    Raises:
        UserError: The file cannot be read or is not a mapping.
    """
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        problem = str(error).replace("\n", " ")
        raise UserError(f"{path} is not YAML: {problem}") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a configuration: it must be a mapping of keys to values")
    return values


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """``key=value`` pairs of the command line.

    Raises:
        UserError: A pair has no ``=``.
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UserError(f"--set takes key=value, not '{pair}'")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError:
            parsed = value
        scalar = isinstance(parsed, bool | int | float | str) or parsed is None
        settings[key.strip()] = parsed if scalar else value
    return settings


def validated(model: type[Model], values: dict[str, Any], what: str = "") -> Model:
    """Build a pydantic model, turning its complaints into one line.

    Raises:
        UserError: A value does not fit.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        message = f"{what}{key}={first['input']}: {reason[:1].lower()}{reason[1:]}"
        raise UserError(message) from error


def _readers(config: RunConfig, method_settings: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Who reads which key in this run."""
    data = set(DataSettings.model_fields) - set(SyntheticSettings.model_fields)
    if config.dataset is None:
        data = set()
    elif config.dataset == "synthetic":
        data |= set(SyntheticSettings.model_fields)
    readers: dict[str, type[BaseModel]] = {
        key: DataSettings for key in DataSettings.model_fields if key in data
    }
    if config.partitioned:
        readers |= dict.fromkeys(PartitionSettings.model_fields, PartitionSettings)
    return readers | dict.fromkeys(method_settings.model_fields, method_settings)


def _unread(key: str, readers: Mapping[str, Any], config: RunConfig) -> UserError:
    if key in SyntheticSettings.model_fields:
        return UserError(f"setting '{key}' has no effect here: it needs --dataset synthetic")
    if key in DataSettings.model_fields:
        return UserError(f"setting '{key}' has no effect on graph files: they hold their own masks")
    if key in PartitionSettings.model_fields:
        return UserError(f"setting '{key}' has no effect here: nothing is partitioned")
    return unknown_name(f"setting of {config.method}", key, readers)
