"""Options that several commands have."""

from typing import Annotated, TypeAlias

import typer

Dataset: TypeAlias = Annotated[
    str | None, typer.Option(help="Dataset (see autofgl datasets). [default: cora]")
]
Graphs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Graph files, one for each client; one file with --clients is cut."),
]
Clients: TypeAlias = Annotated[int | None, typer.Option(help="Number of clients. [default: 3]")]
DataRoot: TypeAlias = Annotated[
    str | None, typer.Option(help="Folder with raw datasets. [default: $AUTOFGL_DATA]")
]
Secure: TypeAlias = Annotated[str, typer.Option(help="Protection of sums: none, ckks or shares.")]
