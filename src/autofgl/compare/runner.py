"""Makes the runs of a comparison, and its pages.

Every seed of an entry is an ordinary run folder, ``OUT/<entry>/seed-<n>``. ``compare.html``,
``compare.csv`` and ``comparison.json`` are made anew from the folders after every run.
"""

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.compare.contest import Contest, Heat, plan
from autofgl.compare.pages import as_csv, as_html, as_json
from autofgl.compare.standing import EntrySummary, summarise
from autofgl.compare.verdict import verdict
from autofgl.reproduce.batch import check_folder, make_all
from autofgl.reproduce.options import Options
from autofgl.runs.folder import Result

PAGE = "compare.html"


def compare(contest: Contest, options: Options, console: Console) -> None:
    """Make all runs that are not finished, and the pages.

    Raises:
        UserError: An option is wrong, or the folder holds something else.
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        AutoFGLError: Some runs failed; all others were made nevertheless.
    """
    heats = plan(contest, options)
    check_folder(options.out, "comparison", contest.name)
    make_all("compare", heats, _ContestPages(contest, options), options, console)


class _ContestPages:
    """``compare.html``, ``compare.csv`` and ``comparison.json``."""

    def __init__(self, contest: Contest, options: Options) -> None:
        self._contest = contest
        self._options = options

    def write(self) -> None:
        """Make all anew."""
        contest, options, out = self._contest, self._options, self._options.out
        entries = self._read()
        write_text(out / "comparison.json", as_json(contest, options, entries))
        write_text(out / "compare.csv", as_csv(entries))
        write_text(out / PAGE, as_html(contest, options, entries))

    def told(self, run: Heat, result: Result) -> str:
        """Its accuracy, its time and its bytes."""
        del run
        figures = result.figures
        moved = (figures["bytes_up"] + figures["bytes_down"]) / 1e6
        return (
            f"test accuracy {100 * result.test_accuracy:.1f} in {figures['wall_s']:.1f} s, "
            f"{moved:.1f} MB"
        )

    def ending(self) -> str:
        """The table, the verdict, and where the page is."""
        entries = self._read()
        width = max(len(entry.entry.label) for entry in entries)
        lines = [f"{entry.entry.label:{width}}  {_line(entry)}" for entry in entries]
        return "\n".join(
            ("", *lines, "", *verdict(entries), f"written to {self._options.out / PAGE}")
        )

    def _read(self) -> list[EntrySummary]:
        return summarise(self._contest, self._options)


def _line(entry: EntrySummary) -> str:
    if entry.accuracy is None:
        return "nothing finished"
    spread = "" if entry.spread is None else f" ± {entry.spread:.1f}"
    moved = (entry.mean("bytes") or 0.0) / 1e6
    return f"{entry.accuracy:.1f}{spread} %  {entry.mean('wall_s'):.1f} s  {moved:.1f} MB"
