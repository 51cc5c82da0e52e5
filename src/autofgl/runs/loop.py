"""The one loop that runs every method."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from autofgl.errors import AutoFGLError
from autofgl.runs import checkpoint
from autofgl.runs.budget import Budget, Stopwatch
from autofgl.runs.folder import RunFolder
from autofgl.runs.history import History
from autofgl.runs.interrupt import StopRequest
from autofgl.runs.progress import RunProgress
from autofgl.runs.tensorboard import open_event_log
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row


class Interrupted(AutoFGLError):
    """The user stopped the run; it is saved."""


class PartiesReturned(AutoFGLError):
    """Parties that were lost are there again; the run is saved, to be gone on with together."""

    def __init__(self, parties: Sequence[str]) -> None:
        super().__init__(f"{', '.join(parties)} can take part again")
        self.parties = parties


@dataclass(frozen=True)
class Finished:
    """What the loop leaves for ``result.json``.

    Attributes:
        outcome: The method's own report.
        wall_s: Seconds over all sittings.
        stopped_by: ``rounds``, ``patience`` or ``budget``.
    """

    outcome: Outcome
    wall_s: float
    stopped_by: str


def run_rounds(
    method: Method,
    folder: RunFolder,
    *,
    budget: Budget | None,
    console: Console | None,
    title: str,
) -> Finished:
    """Set the method up or resume it, make rounds until it is done, and let it finish.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; everything is saved.
        PartiesReturned: Everything is saved; begin anew with all parties.
    """
    watch = _begin(method, folder)

    def save() -> None:
        method.before_checkpoint()
        state = {"method": method.state(), "round": method.round, "wall_s": watch.wall_s}
        state["cpu_s"] = watch.cpu_s
        checkpoint.save(folder.checkpoints, method.round, state, method.federation)

    history = History(folder.history, keep_until=method.round)
    events = open_event_log(folder.path)
    every = method.settings.checkpoint_every
    try:
        with StopRequest() as stop, RunProgress(title, method.rounds, console) as progress:
            out_of_time = False
            while True:
                if budget is not None:
                    spent = watch.spent(budget)
                    method.pace(spent)
                    if not out_of_time and spent >= 1:
                        out_of_time = True
                        method.wrap_up()
                if method.done:
                    break
                row = _complete(method.step(), method, watch.wall_s)
                history.append(row)
                if events is not None:
                    events.append(row)
                progress.show(row)
                returned = method.federation.returned
                at_rest = method.milestone or method.round % every == 0
                if stop.wanted or returned or at_rest:
                    save()
                if stop.wanted:
                    raise Interrupted(
                        f"stopped after round {method.round}; "
                        f"go on with: autofgl run --resume {folder.path}"
                    )
                if returned:
                    raise PartiesReturned(returned)
            save()
            stopped_by = "budget" if out_of_time else _reason(method)
            return Finished(method.finish(), watch.wall_s, stopped_by)
    finally:
        history.close()
        if events is not None:
            events.close()


def _begin(method: Method, folder: RunFolder) -> Stopwatch:
    """Resume from the newest checkpoint or set up afresh; the time begins with the rounds."""
    if not checkpoint.exists(folder.checkpoints):
        method.connect()
        method.setup()
        return Stopwatch()
    state = checkpoint.load_latest(folder.checkpoints, method.federation)
    method.connect()
    method.load_state(state["method"])
    return Stopwatch(state["wall_s"], state["cpu_s"])


def _complete(row: Row, method: Method, wall_s: float) -> Row:
    """The contract's columns first, then the method's own."""
    meter = method.federation.meter
    row_start = {"round": row["round"], "wall_s": round(wall_s, 6)}
    traffic = {"bytes_up": meter.total("up"), "bytes_down": meter.total("down")}
    if "secure" in meter.ops:
        secure = meter.ops["secure"]
        traffic["bytes_secure"] = secure.bytes_up + secure.bytes_down
    if meter.total("peer"):
        traffic["bytes_peer"] = meter.total("peer")
    return {**row_start, **traffic, **row}


def _reason(method: Method) -> str:
    return "rounds" if method.round >= method.rounds else "patience"
