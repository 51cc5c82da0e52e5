"""What `autofgl.secure` may import."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import autofgl.secure

FOLDER = Path(autofgl.secure.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and node.value == "tenseal.sealapi":
            yield "tenseal"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_secure_sums_know_arrays_only(path: Path) -> None:
    own = {name for name in imported(path) if name.startswith("autofgl")}
    allowed = ("autofgl.secure", "autofgl.errors", "autofgl.identity", "autofgl.workers")
    assert all(name.startswith(allowed) for name in own)
    assert not {"torch", "pickle", "random"} & set(imported(path))
    assert ("tenseal" in set(imported(path))) == (path.name == "cipher.py")


def modules_after(program: str) -> set[str]:
    shown = f"{program}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", shown], check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


def test_the_names_of_the_modes_cost_nothing() -> None:
    heavy = {"torch", "numpy", "tenseal", "cryptography"}
    assert not heavy & modules_after("from autofgl.secure import MODES, Reveal, SumClient")


def test_only_ckks_waits_for_tenseal() -> None:
    make = "from autofgl.secure import make_client; make_client('{}', name='a', parties=['a', 'b'])"
    for mode in ("none", "shares", "shares-additive", "ckks"):
        assert "tenseal" not in modules_after(make.format(mode)), "before there are keys"
