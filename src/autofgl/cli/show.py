"""What the command line prints: methods, datasets, graphs, networks and results."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.methods.fl_agcns.diagnosis import Ranked
    from autofgl.runs.folder import Result


@cache
def console() -> "Console":
    """The terminal; rich is imported when there is something to show."""
    from rich.console import Console

    return Console()


def show_line(text: str) -> None:
    """A line as it is, however long."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def show_notices(notices: Iterable[str]) -> None:
    """What a user should know of the settings, beside the output."""
    for notice in notices:
        print(f"autofgl: {notice}", file=sys.stderr)


def show_table(where: "Console", columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A plain table."""
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    where.print(table)


def list_methods(
    method: Annotated[
        str | None, typer.Argument(help="Method whose settings to show, and who learns what in it.")
    ] = None,
) -> None:
    """List the methods, or the settings of one and who learns what in it."""
    from autofgl.methods.catalog import METHODS, settings_of
    from autofgl.methods.privacy import WHO_LEARNS_WHAT
    from autofgl.plugins import entry_points, entry_summary

    if method is None:
        rows = [(name, one.summary, one.sharing, one.search) for name, one in METHODS.items()]
        rows += [(name, entry_summary(one), "", "") for name, one in entry_points("method").items()]
        show_table(console(), ("method", "what it does", "sharing", "search"), rows)
        return
    fields = settings_of(method).model_fields.items()
    settings = [(key, str(field.default), field.description or "") for key, field in fields]
    meanings = [(key, default, " ".join(text.split())) for key, default, text in settings]
    show_table(console(), ("setting", "default", "meaning"), meanings)
    learns = []
    for party in WHO_LEARNS_WHAT.get(method, ()):
        besides = {"with --secure none": party.none, "with secure sums": party.secure}
        more = [f"{mode}, also {what}" for mode, what in besides.items() if what]
        learns.append((party.who, ";\n".join([party.always, *more])))
    if learns:
        console().print()
        show_table(console(), ("who", "learns"), learns)


def list_datasets() -> None:
    """List the datasets."""
    from autofgl.graphs.catalog import DATASETS
    from autofgl.plugins import entry_points, entry_summary

    rows = [(name, entry.size, entry.description) for name, entry in DATASETS.items()]
    rows += [(name, "", entry_summary(entry)) for name, entry in entry_points("dataset").items()]
    show_table(console(), ("dataset", "size", "what it is"), rows)


def show_clients(graphs: "Sequence[ClientGraph]", seconds: float) -> None:
    """How many clients there are, and how large."""
    from autofgl.graphs.client_graph import summarize_clients

    cut = summarize_clients(graphs)
    sizes = [client.nodes for client in cut.clients]
    among = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
    show_line(
        f"{len(graphs)} client{'s' * (len(graphs) > 1)} with {among} nodes, "
        f"{cut.cut_share:.1%} of the edges cut, ready in {seconds:.1f} s"
    )


def show_result(finished: "Result") -> None:
    """The figures of a finished run, and the network that a search has chosen."""
    from autofgl.nn.models.spec import SearchedSpec, architecture_tree, spec_from_json
    from autofgl.report.report import FILE as REPORT
    from autofgl.runs.export import read_description

    figures = finished.figures
    sizes = ("nodes", "train", "val", "test")
    lines = []
    for row in figures["per_client"]:
        if "nodes" in row:
            accuracy = f"{row['test_accuracy']:.4f}" if row["test"] else "-"
            lines.append((row["name"], *(str(row[key]) for key in sizes), accuracy))
    if lines:
        show_table(console(), ("client", *sizes, "test accuracy"), lines)
    spec = spec_from_json(read_description(finished.folder)["network"])
    if isinstance(spec, SearchedSpec):
        show_line(architecture_tree(spec.parsed(), spec.fusion))
    if "certificate" in figures:
        show_certificate(figures["certificate"])
    show_line(
        f"{figures['method'].rpartition(':')[2]}: test accuracy {figures['test_accuracy']:.4f}, "
        f"validation {figures['val_accuracy']:.4f}, {figures['rounds']} rounds "
        f"in {figures['wall_s']:.1f} s, {figures['bytes_up'] / 1e6:.1f} MB up, "
        f"{figures['bytes_down'] / 1e6:.1f} MB down"
    )
    if "dp" in figures:
        show_line(privacy_line(figures["dp"]))
    show_line(f"run folder: {finished.folder}")
    report = finished.folder / REPORT
    if report.exists():
        show_line(f"report: {report}")


def show_certificate(certificate: "Mapping[str, Any]") -> None:
    """What the clients took, and how it compares with each baseline."""
    taken = [(str(one["sites"]), one["kind"], one["label"]) for one in certificate["taken"]]
    show_table(console(), ("clients", "takes", "model"), taken)
    rows = []
    for name, one in certificate["against"].items():
        low, high = (f"{100 * bound:+.1f}" for bound in one["interval"])
        difference = f"{100 * one['difference']:+.1f} ({low} to {high})"
        rows.append((name, f"{one['test_accuracy']:.4f}", difference, f"{one['p']:.3g}"))
    show_table(console(), ("against", "test accuracy", "difference, points", "p"), rows)
    show_line(certificate["sentence"])


def privacy_line(spent: "Mapping[str, Any]") -> str:
    """What a run has spent of its differential privacy."""
    return (
        f"differential privacy of each client: epsilon {spent['epsilon']:.3g} of "
        f"{spent['budget']:g} at delta {spent['delta']:g}; the accuracies carry noise of "
        f"{spent['accuracy_deviation']:.2g} (standard deviation)"
    )


def show_ranked(network: "Ranked") -> None:
    """A network, as soon as it is ranked."""
    show_line(
        f"shared {network.shared_loss:6.3f} {network.shared_accuracy:6.1%}   "
        f"alone {network.alone_loss:6.3f} {network.alone_accuracy:6.1%}   {network.genotype}"
    )
