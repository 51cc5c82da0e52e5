"""What a table is: rows of methods, columns of datasets, and the paper's figures between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True)
class Column:
    """A dataset, and how it is cut.

    Attributes:
        name: Its folder, and what ``--datasets`` calls it.
        label: Its heading.
        dataset: Name of the dataset.
        clients: Number of clients.
        partition: Name of the partitioner.
        settings: What all rows have in common here.
    """

    name: str
    label: str
    dataset: str
    clients: int = 3
    partition: str = "metis"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A method with its settings.

    Attributes:
        name: Its folder, and what ``--rows`` calls it.
        label: What the paper calls it.
        method: Name of the method.
        kind: A ``search`` gets the time budget, a ``fixed`` network runs to its end.
        seeds: How many seeds it is run with unless the user says otherwise.
        settings: What differs from the method's defaults.
        partition: A partitioner in place of the column's.
        own: What differs from ``settings`` in single columns, by their names.
    """

    name: str
    label: str
    method: str
    kind: Literal["search", "fixed"]
    seeds: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    partition: str | None = None
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Published(NamedTuple):
    """What the paper reports in a cell: FLACC in percent, and millions of parameters if it does."""

    accuracy: float
    parameters: float | None = None


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        name: What the command line calls it.
        title: What it shows.
        source: The paper and the number of the table there.
        columns: Datasets.
        rows: Methods.
        paper: The paper's figures by row's and column's name; some may be missing.
        notes: Where our setting differs from the paper's, a sentence each.
        by_client: Whether the clients' mean accuracy, and that of every network over the classes of
            all clients, are shown too.
        tuning: Whether it is about the time of searches for hyper-parameters.
        times: The paper's inference times in seconds, by row's and column's name.
    """

    name: str
    title: str
    source: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    paper: Mapping[tuple[str, str], Published]
    notes: Sequence[str] = ()
    by_client: bool = False
    tuning: bool = False
    times: Mapping[tuple[str, str], float] = field(default_factory=dict)
