"""Searchers know neither graphs nor clients; their names come without torch and Optuna."""

import subprocess
import sys
from pathlib import Path

import autofgl

SOURCE = Path(autofgl.__file__).parent


def test_searchers_import_nothing_of_ours_but_errors_and_seeding() -> None:
    allowed = ("autofgl.search", "autofgl.errors", "autofgl.seeding")
    for path in (SOURCE / "search").glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("import autofgl", "from autofgl")):
                assert line.split()[1].startswith(allowed), f"{path.name}: {line}"


def test_searchers_need_neither_torch_nor_optuna() -> None:
    code = "import sys, autofgl.search; sys.exit(bool({'torch', 'optuna'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
