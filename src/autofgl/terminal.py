"""What the command line prints of graphs, networks and results."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.partition import describe
from autofgl.methods.fl_agcns.diagnosis import Quality, Ranked
from autofgl.nn.models.spec import SearchedSpec, architecture_tree, spec_from_json
from autofgl.report.report import FILE as REPORT
from autofgl.runs.export import read_description
from autofgl.runs.result import Result


def show_clients(console: Console, clients: Sequence[ClientGraph], seconds: float) -> None:
    """How many clients there are, and how large."""
    cut = describe(clients)
    sizes = [client.nodes for client in cut.clients]
    among = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
    console.print(
        f"{len(clients)} client{'s' * (len(clients) > 1)} with {among} nodes, "
        f"{cut.cut_share:.1%} of the edges cut, ready in {seconds:.1f} s",
        highlight=False,
    )


def show_result(console: Console, result: Result) -> None:
    """The figures of a finished run, and the network that a search has found."""
    figures = result.figures
    told = [row for row in figures["per_client"] if "nodes" in row]
    if told:
        show_table(
            console,
            ("client", "nodes", "train", "val", "test", "test accuracy"),
            [
                (row["name"], *(str(row[key]) for key in ("nodes", "train", "val", "test")),
                 f"{row['test_accuracy']:.4f}" if row["test"] else "-")
                for row in told
            ],
        )  # fmt: skip
    _show_found(console, result.folder)
    console.print(
        f"{figures['method']}: test accuracy {figures['test_accuracy']:.4f}, "
        f"validation {figures['val_accuracy']:.4f}, {figures['rounds']} rounds "
        f"in {figures['wall_s']:.1f} s, {figures['bytes_up'] / 1e6:.1f} MB up, "
        f"{figures['bytes_down'] / 1e6:.1f} MB down",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"run folder: {result.folder}", highlight=False, soft_wrap=True)
    report = result.folder / REPORT
    if report.exists():
        console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _show_found(console: Console, folder: Path) -> None:
    """Draw the network of a search."""
    spec = spec_from_json(read_description(folder)["network"])
    if isinstance(spec, SearchedSpec):
        drawing = architecture_tree(spec.parsed(), spec.fusion)
        console.print(drawing, markup=False, highlight=False, soft_wrap=True)


def show_ranked(console: Console, ranked: Ranked) -> None:
    """A network, as soon as it is ranked."""
    console.print(
        f"shared {ranked.shared_loss:6.3f} {ranked.shared_accuracy:6.1%}   "
        f"alone {ranked.alone_loss:6.3f} {ranked.alone_accuracy:6.1%}   {ranked.genotype}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def show_quality(console: Console, quality: Quality) -> None:
    """How well the rankings agree."""
    console.print(
        f"rank correlation over {len(quality.networks)} networks: "
        f"loss τ {quality.kendall_loss:.2f} ρ {quality.spearman_loss:.2f}, "
        f"accuracy τ {quality.kendall_accuracy:.2f} ρ {quality.spearman_accuracy:.2f}",
        highlight=False,
        soft_wrap=True,
    )


def show_table(console: Console, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A plain table."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)
