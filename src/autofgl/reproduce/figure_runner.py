"""Runs what a figure is missing.

Every seed of a line is an ordinary run folder, ``OUT/<panel>/<line>/seed-<n>``; a policy that lines
use is learnt in ``OUT/<panel>/policy/seed-0``. ``figure.html``, ``figure.svg``, ``figure.csv``,
``summary.md`` and ``figure.json`` are made anew from the folders after every run.
"""

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.report.charts.figures import charts_svg
from autofgl.reproduce.batch import check_folder, make_all
from autofgl.reproduce.figure import Figure
from autofgl.reproduce.figure_charts import figure_files
from autofgl.reproduce.figure_html import as_html
from autofgl.reproduce.figure_pages import Lines, as_csv, as_json, markdown
from autofgl.reproduce.figure_runs import FigureRun, check_present, plan
from autofgl.reproduce.measures import summarise, summarise_learning
from autofgl.reproduce.options import Options
from autofgl.runs.folder import Result


def reproduce(figure: Figure, options: Options, console: Console) -> None:
    """Run all lines that are asked for and not finished, and write the figure.

    Raises:
        UserError: An option is wrong, or the folder holds something else.
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        AutoFGLError: Some runs failed; all others were made nevertheless.
    """
    runs = plan(figure, options)
    check_folder(options.out, "figure", figure.name, {panel.name for panel in figure.panels})
    check_present(figure, options)
    make_all(figure.name, runs, _FigurePages(figure, options), options, console)


class _FigurePages:
    """``figure.html``, ``figure.svg``, ``figure.csv``, ``summary.md`` and ``figure.json``."""

    def __init__(self, figure: Figure, options: Options) -> None:
        self._figure = figure
        self._options = options

    def write(self) -> None:
        """Make all anew."""
        figure, options, out = self._figure, self._options, self._options.out
        lines, learning = self._read()
        write_text(out / "figure.json", as_json(figure, options, lines, learning))
        write_text(out / "figure.csv", as_csv(figure, lines))
        summary = markdown(figure, options, lines, learning)
        write_text(out / "summary.md", summary)
        write_text(out / "figure.html", as_html(figure, lines, summary))
        for name, rows in figure_files(figure, lines).items():
            write_text(out / name, charts_svg(rows))

    def told(self, run: FigureRun, result: Result) -> str:
        """Its accuracy and its time."""
        seconds = f"in {result.figures['wall_s']:.1f} s"
        if self._figure.chart == "returns" or run.line in self._figure.learnt:
            return f"policy learnt {seconds}"
        return f"test accuracy {100 * result.test_accuracy:.1f} {seconds}"

    def ending(self) -> str:
        """The summary, and where all files are."""
        out = self._options.out
        text = (out / "summary.md").read_text()
        more = "figure.svg, figure.csv and summary.md beside it"
        return f"\n{text}\nwritten to {out / 'figure.html'}, {more}"

    def _read(self) -> tuple[Lines, Lines]:
        """The lines that are shown, and the learning of what they use."""
        learning = summarise_learning(self._figure, self._options)
        if self._figure.chart == "returns":
            return learning, []
        return summarise(self._figure, self._options), learning
