"""What a person sees while a run goes on."""

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_FIGURES = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")


class RunProgress:
    """A bar with the current figures; on a pipe, a plain line every tenth of the way.

    Args:
        title: Shown before the bar.
        rounds: Rounds that are planned.
        console: Where to draw; nothing is drawn without one.
    """

    def __init__(self, title: str, rounds: int, console: Console | None) -> None:
        self._console = console
        self._rounds = rounds
        self._title = title
        self._bar: Progress | None = None

    def __enter__(self) -> "RunProgress":
        if self._console is not None and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[figures]}"),
                console=self._console,
            )
            self._task = self._bar.add_task(self._title, total=self._rounds, figures="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, row: dict[str, Any]) -> None:
        """Show the figures of a round."""
        figures = "  ".join(f"{key} {row[key]:.4f}" for key in _FIGURES if row.get(key) is not None)
        if self._bar is not None:
            self._bar.update(self._task, completed=row["round"], figures=figures)
        elif self._console is not None and row["round"] % max(1, self._rounds // 10) == 0:
            line = f"{self._title} {row['round']}/{self._rounds}  {figures}"
            self._console.print(line, highlight=False, soft_wrap=True)
