"""What `autofgl.secure` may import."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import autofgl.secure

FOLDER = Path(autofgl.secure.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and node.value == "tenseal.sealapi":
            yield "tenseal"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_secure_sums_know_arrays_only(path: Path) -> None:
    own = {name for name in imported(path) if name.startswith("autofgl")}
    assert all(name.startswith(("autofgl.secure", "autofgl.errors")) for name in own)
    assert not {"torch", "pickle", "random"} & set(imported(path))
    assert ("tenseal" in set(imported(path))) == (path.name == "ckks.py")
