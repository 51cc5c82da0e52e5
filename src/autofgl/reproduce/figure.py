"""What a figure is: lines, the federations they are run on, and how they are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

#: ``accuracy``: test accuracy over training time, and over cost. ``target``: bars of the time and
#: the cost until a common target accuracy. ``final``: bars of test accuracy, time and cost of the
#: whole training. ``returns``: return of every episode of a policy's learning. ``levels``: test
#: accuracy over the level of the panels, a number.
Chart: TypeAlias = Literal["accuracy", "target", "final", "returns", "levels"]


@dataclass(frozen=True)
class Panel:
    """A federation that all lines of a figure are run on.

    Attributes:
        name: Its folder.
        label: Its heading.
        group: What ``--datasets`` calls it, together with others on the same dataset.
        dataset: Name of the dataset.
        clients: Number of clients.
        partition: Name of the partitioner.
        settings: What all lines have in common here.
        level: What sets it apart from the others of its group, below its bars; may be empty. For
            the chart ``levels`` a number.
    """

    name: str
    label: str
    group: str
    dataset: str
    clients: int
    partition: str
    settings: Mapping[str, Any]
    level: str = ""


@dataclass(frozen=True)
class Line:
    """A way to train.

    Attributes:
        name: Its folder, and what ``--rows`` calls it.
        label: Its name in the legend.
        settings: What sets it apart from the other lines.
        uses: A line that learns a policy. It is run once in each panel, with seed 0, before this
            one, and all seeds of this one use what it has learnt.
        method: Name of the method.
        own: What differs from ``settings`` in single groups and panels, by their names.
    """

    name: str
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    uses: "Line | None" = None
    method: str = "fedgraph"
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    Attributes:
        name: What the command line calls it.
        title: What it shows.
        source: The paper and the number of the figure there.
        claim: What the paper says of it, in our words, with the section.
        chart: How it is drawn.
        panels: Federations.
        lines: Ways to train. The paper's own is the first, the others are compared with it.
        rounds: Rounds of a training, unless a line has its own number or the user says otherwise.
        seeds: Seeds of each line, unless the user says otherwise.
        notes: Where our setting differs from the paper's, a sentence each.
        axis: What the level of the panels is, for the chart ``levels``.
    """

    name: str
    title: str
    source: str
    claim: str
    chart: Chart
    panels: Sequence[Panel]
    lines: Sequence[Line]
    rounds: int = 100
    seeds: int = 3
    notes: Sequence[str] = ()
    axis: str = ""

    @property
    def learnt(self) -> list[Line]:
        """Lines that others use, each once."""
        return list({line.uses.name: line.uses for line in self.lines if line.uses}.values())
