"""``autofgl export``: a run's network for other programs, with a model card."""

from pathlib import Path
from typing import Annotated

import typer

from autofgl.cli.show import show_line
from autofgl.errors import UserError, unknown_name

EXPORT_EXAMPLE = "Example: autofgl export runs/demo --format onnx"
#: As :data:`autofgl.runs.convert.FORMATS` has them, whose import takes longer.
_FORMATS = ("onnx", "torch")


def export_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    format_: Annotated[
        str, typer.Option("--format", help="onnx, or torch for a program of torch.export.")
    ] = "onnx",
    client: Annotated[
        str | None, typer.Option(help="Client whose model to use, if each client has its own.")
    ] = None,
    weighted: Annotated[
        bool,
        typer.Option(help="Take weights of edges, too. [default: as in training, where known]"),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write. [default: DIR/export/model.onnx or .pt2]")
    ] = None,
) -> None:
    """Export a run's network, checked against the original, with a model card beside it."""
    from autofgl.runs.export import model_names, read_description
    from autofgl.runs.folder import RunFolder

    if format_ not in _FORMATS:
        raise unknown_name("format", format_, _FORMATS)
    RunFolder.open(folder).read_result()
    names = model_names(read_description(folder))
    if client is not None and client not in names:
        raise UserError(f"no model '{client}': choose one of {', '.join(names) or 'none'}")

    from autofgl.atomic import write_text
    from autofgl.runs.convert import convert_model
    from autofgl.runs.model_card import CARD, model_card

    done = convert_model(folder, format_, out, client, weighted)
    inputs = "x, edge_index" + (", edge_weight" if done.weighted else "")
    file = f"File: {done.path.name} ({format_}), inputs {inputs}, output scores"
    card = done.path.with_name(CARD)
    write_text(card, model_card(folder, [file]))
    show_line(f"written: {done.path}, {card}")
    show_line(f"inputs {inputs}; output scores; largest difference to the original "
              f"{done.difference:.1e} of the largest score")  # fmt: skip
