"""What there is in the papers: what can be run again, whole or quickly, and where the rest is.

Every paper is a YAML file in this folder: its ``name`` and its citation (``paper``), ``tables``,
``figures`` and ``views`` by their numbers, ``static`` content, and under ``common`` what several of
these refer to. Tables and figures have the fields of :class:`Table` and :class:`Figure`, and

- lists of ``settings``, ``variants`` and ``notes`` may have lists in them,
- every setting is combined with each of ``parts``, if there are any: names and labels are joined,
- ``every_variant`` has fields that all variants are given here,
- ``own`` settings of a variant may be those of several names, with spaces between them,
- ``paper`` is a text with a line for each row: its name and, column by column, the paper's figures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from autofgl.experiments.plan import Figure, Published, Setting, Table, Variant


class View(NamedTuple):
    """A figure that is made of the runs of a table."""

    name: str  #: what the command line calls it
    title: str
    source: str  #: the paper, and the number of the figure there
    table: str  #: the table whose runs it needs
    rows: Sequence[str]  #: which of its rows; none: all
    part: str  #: where it stands on the table's page


def _numbered(kind: str, short: str, word: str) -> Iterator[dict[str, Any]]:
    """All tables, figures or views with their names and sources."""
    for paper in _PAPERS:
        for number, about in paper.get(kind, {}).items():
            named = {"name": f"{paper['name']}-{short}{number}"}
            yield {**named, "source": f"{paper['paper']}, {word} {number}", **about}


def _flat(items: Sequence[Any]) -> list[Any]:
    """The items of a list and of lists in it."""
    nested = (_flat(item) if isinstance(item, list) else [item] for item in items)
    return [item for some in nested for item in some]


def _table(about: dict[str, Any]) -> Table:
    made = _experiment(about)
    paper = {}
    for line in made.pop("paper", "").splitlines():
        row, *cells = line.split("|")
        for column, cell in zip(made["settings"], cells, strict=False):
            paper[row.strip(), column.name] = Published(*map(float, cell.split()))
    return Table(**made, paper=paper)


def _experiment(about: dict[str, Any], grouped: bool = False) -> dict[str, Any]:
    """What tables and figures have in common."""
    made = {**about, "notes": tuple(_flat(about["notes"]))}
    parts, every = made.pop("parts", [{}]), made.pop("every_variant", {})
    made["settings"] = [
        _setting(one, part, grouped) for one in _flat(about["settings"]) for part in parts
    ]
    made["variants"] = [_variant({**row, **every}) for row in _flat(about["variants"])]
    return made


def _setting(one: dict[str, Any], part: dict[str, Any], grouped: bool) -> Setting:
    both = (one, part)
    made = {
        **one,
        **part,
        "name": "-".join(half["name"] for half in both if "name" in half),
        "label": ", ".join(half["label"] for half in both if "label" in half),
        "shared": {key: value for half in both for key, value in half.get("shared", {}).items()},
    }
    group = {"group": one["name"], "level": part.get("label", "")} if grouped else {}
    return Setting(**made, **group)


def _variant(about: dict[str, Any]) -> Variant:
    names = about.get("own", {}).items()
    own = {name: settings for several, settings in names for name in several.split()}
    uses = _variant(about["uses"]) if "uses" in about else None
    return Variant(**{**about, "own": own, "uses": uses})


_PAPERS: list[dict[str, Any]] = [
    yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text("utf-8"))
    for name in ("fl_agcns", "fedgraph", "asfgnn", "graphfl_ga")
]
TABLES = {table.name: table for table in map(_table, _numbered("tables", "table", "Table"))}
FIGURES = {
    about["name"]: Figure(**_experiment(about, grouped=True))
    for about in _numbered("figures", "fig", "Fig.")
}
VIEWS = {view["name"]: View(**view) for view in _numbered("views", "fig", "Fig.")}
#: Tables without results to run again, and where their content is here.
STATIC = [(what, where) for paper in _PAPERS for what, where in paper["static"]]

#: Time for each run of a quick table.
QUICK_BUDGET = "30s"
_QUICK_ROUNDS, _QUICK_FIGURE_ROUNDS = 100, 20
_QUICK_LEARNING: dict[str, Any] = {"episodes": 4, "episode_rounds": 8, "profile_rounds": 8}
_QUICK_SEARCH: dict[str, Any] = {"generations": 6, "warmup": 2}
_QUICK_NOTE = (
    "**Quick version**: first dataset only, one seed, {what}. It shows that everything runs and "
    "about where the figures lie; it is no reproduction."
)


def quick_table(table: Table) -> Table:
    """The first dataset with one seed; every run has the budget, fixed networks too."""
    what = f"at most {QUICK_BUDGET} and {_QUICK_ROUNDS} rounds for each run"
    variants = [
        replace(row, budgeted=True, seeds=1, settings=_fewer(row.settings, _QUICK_ROUNDS))
        for row in table.variants
    ]
    notes = (_QUICK_NOTE.format(what=what), *table.notes)
    return replace(table, settings=table.settings[:1], variants=variants, notes=notes)


def quick_figure(figure: Figure) -> Figure:
    """The first dataset with one seed and few rounds; a policy is learned in few episodes."""
    what = (
        f"{_QUICK_FIGURE_ROUNDS} rounds, policies learned in {_QUICK_LEARNING['episodes']} "
        f"episodes of {_QUICK_LEARNING['episode_rounds']} rounds, searches of "
        f"{_QUICK_SEARCH['generations']} generations"
    )
    first = figure.settings[0].group
    return replace(
        figure,
        settings=[panel for panel in figure.settings if panel.group == first],
        variants=[_quick_line(line) for line in figure.variants],
        rounds=min(figure.rounds, _QUICK_FIGURE_ROUNDS),
        seeds=1,
        notes=(_QUICK_NOTE.format(what=what), *figure.notes),
    )


def _quick_line(line: Variant) -> Variant:
    settings = line.settings
    if "rounds" in settings:
        settings = _fewer(settings, _QUICK_FIGURE_ROUNDS)
    if "episodes" in settings:
        settings = {**settings, **_QUICK_LEARNING}
    if "generations" in settings:
        settings = {**settings, **_QUICK_SEARCH}
    uses = None if line.uses is None else _quick_line(line.uses)
    return replace(line, settings=settings, uses=uses)


def _fewer(settings: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The same with at most so many rounds."""
    return {**settings, "rounds": min(int(settings.get("rounds", most)), most)}
