"""``history.jsonl``: a line for each round, flushed as it comes."""

import json
from pathlib import Path
from typing import Any, TextIO

from autofgl.atomic import write_text


class History:
    """Appends rows to a file. Opening it keeps the rows up to a round and drops what came after."""

    def __init__(self, path: Path, keep_until: int = 0) -> None:
        rows = [row for row in read_history(path) if row["round"] <= keep_until]
        write_text(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        self._file: TextIO = path.open("a")

    def append(self, row: dict[str, Any]) -> None:
        """Add a row."""
        self._file.write(f"{json.dumps(row)}\n")
        self._file.flush()

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def read_history(path: Path) -> list[dict[str, Any]]:
    """All whole rows; a last line that was cut short by a crash is passed over."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
