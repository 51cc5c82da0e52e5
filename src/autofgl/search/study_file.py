"""A study of Optuna in an SQLite file: what was asked and told is there at once, and whole.

Optuna's journal file would do as well until a process is killed while it writes: half a line makes
it unreadable, and a lock that nobody holds makes the next one wait. SQLite has transactions.
"""

from pathlib import Path

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.pool import NullPool

_STUDY = "autofgl"


class StudyFile:
    """The trials of one study, by their numbers.

    Args:
        path: The file; it is made if there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        storage = RDBStorage(
            f"sqlite:///{path.absolute()}",
            # Connections are closed after use; a busy file is waited for.
            engine_kwargs={"poolclass": NullPool, "connect_args": {"timeout": 30}},
        )
        self._study = optuna.create_study(storage=storage, study_name=_STUDY, load_if_exists=True)

    def read(self) -> list[FrozenTrial]:
        """All trials, by number."""
        return self._study.get_trials(deepcopy=False)

    def write(self, number: int, trial: FrozenTrial) -> None:
        """Add a trial with the next number, or say what became of an open one."""
        known = self.read()
        if number >= len(known):
            self._study.add_trial(trial)
            return
        if known[number].state == TrialState.RUNNING and trial.state != TrialState.RUNNING:
            try:
                self._study.tell(number, trial.value if trial.values else None, trial.state)
            except UpdateFinishedTrialError:
                return  # somebody else was first
