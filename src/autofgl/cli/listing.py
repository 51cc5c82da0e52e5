"""Commands that list what can be named: methods with their settings, datasets."""

from typing import Annotated

import typer

from autofgl.cli.show import console, show_table


def list_methods(
    method: Annotated[str | None, typer.Argument(help="Show the settings of this method.")] = None,
) -> None:
    """List the methods, or the settings of one."""
    from autofgl.methods.catalog import METHODS, settings_of

    if method is None:
        rows = [(name, entry.summary) for name, entry in METHODS.items()]
        show_table(console(), ("method", "what it does"), rows)
        return
    fields = settings_of(method).model_fields
    show_table(
        console(),
        ("setting", "default", "meaning"),
        [(key, str(field.default), field.description or "") for key, field in fields.items()],
    )


def list_datasets() -> None:
    """List the datasets."""
    from autofgl.graphs.catalog import DATASETS

    rows = [(name, entry.size, entry.description) for name, entry in DATASETS.items()]
    show_table(console(), ("dataset", "size", "what it is"), rows)
