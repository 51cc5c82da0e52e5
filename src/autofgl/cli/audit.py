"""The command that attacks a run: what do its messages give away, and to whom?"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autofgl.cli.run import (
    Clients,
    ConfigFile,
    DataRoot,
    Dataset,
    Graphs,
    Partition,
    Privacy,
    SecureMode,
    Seed,
    Set,
    read_values,
)
from autofgl.cli.show import show_line, show_notices
from autofgl.errors import Interrupted, UserError

if TYPE_CHECKING:
    from autofgl.audit.verdict import Audit

AUDIT_EXAMPLE = "Example: autofgl audit fedavg --secure shares, or: autofgl audit runs/demo"


def audit_command(
    target: Annotated[
        str, typer.Argument(help="Run folder, or a method (see autofgl methods) to try out.")
    ],
    dataset: Dataset = None,
    graphs: Graphs = None,
    clients: Clients = None,
    partition: Partition = None,
    secure: SecureMode = None,
    seed: Seed = None,
    set_: Set = None,
    dp: Privacy = None,
    config: ConfigFile = None,
    data_root: DataRoot = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rounds to record and attack at most. [default: 20, or 120 if clients exchange "
            "rows]",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Attack a short run with these settings, and print what server and clients could learn.

    A folder's run is repeated for its first rounds; the result is kept in audit.json and shown in
    its report.
    """
    given: dict[str, Any] = {"dataset": dataset, "graphs": graphs or None, "clients": clients}
    given |= {"partition": partition, "secure": secure, "seed": seed, "data_root": data_root}
    given |= {"settings": set_ or None, "dp": dp or None}
    given = {key: value for key, value in given.items() if value is not None}
    tell = _tell if as_json or not sys.stdout.isatty() else _show
    folder = Path(target)
    try:
        if folder.is_dir() or (folder / "config.yaml").exists():
            result = _of_folder(folder, given, config, rounds, tell)
        else:
            result = _of_method({"method": target, **given}, config, rounds, tell)
    except KeyboardInterrupt:
        raise Interrupted("the audit was stopped; nothing was written") from None
    _print(result, as_json)


def _of_folder(
    folder: Path,
    given: dict[str, Any],
    file: Path | None,
    rounds: int | None,
    tell: Callable[[str], None],
) -> "Audit":
    from autofgl.config import check_config, sort_settings
    from autofgl.runs.folder import RunFolder

    run = RunFolder.open(folder)
    if given or file:
        raise UserError("a run folder has its own configuration: give --rounds and --json only")
    config = check_config(run.read_config())
    sort_settings(config)  # mistakes are refused before anything heavy is imported
    from autofgl import api

    return api.audit_folder(folder, rounds=rounds, report=tell)


def _of_method(
    given: dict[str, Any], file: Path | None, rounds: int | None, tell: Callable[[str], None]
) -> "Audit":
    from autofgl import api
    from autofgl.config import check_config, sort_settings

    config = check_config(read_values(given, file))
    layers = sort_settings(config)
    show_notices(layers.notices)
    return api.audit(config, api.load_clients(config, layers), rounds=rounds, report=tell)


def _print(result: "Audit", as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.to_json(), indent=2, allow_nan=False))
        return
    from autofgl.audit.verdict import COLUMNS
    from autofgl.cli.show import console, show_table

    show_line(result.summary)
    show_table(console(), COLUMNS, result.rows)
    show_line("An attack that got nothing proves nothing: a better one may get more.")


def _show(line: str) -> None:
    show_line(f"… {line}")


def _tell(line: str) -> None:
    print(f"… {line}", file=sys.stderr, flush=True)
