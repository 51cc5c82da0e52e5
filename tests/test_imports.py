"""Imports point one way."""

import ast
from pathlib import Path

import pytest

import autofgl

SOURCE = Path(autofgl.__file__).parent
SHARED = {"errors", "seeding", "atomic"}

#: What each part may import besides itself and the shared modules.
ALLOWED: dict[str, set[str]] = {
    "graphs": set(),
    "federation": set(),
    "nn": {"graphs"},
    "secure": set(),
    "search": set(),
    "methods": {"graphs", "federation", "nn", "secure", "search"},
    "runs": {"graphs", "federation", "nn", "methods"},
    "report": {"runs", "nn", "methods"},
    "compare": {"report", "reproduce", "runs", "methods", "graphs", "config"},
    "reproduce": {"report", "runs", "methods", "nn", "config", "api"},
    "sites": {"graphs", "federation", "methods", "secure", "runs", "config", "execution"},
}

#: The only modules that may import these packages.
ONLY_IN = {
    "torch_geometric": {"graphs/client_graph.py", "graphs/datasets.py", "graphs/files.py"},
    "tensorboard": {"runs/tensorboard.py"},
    "msgpack": {"federation/payload.py"},
    "typer": {"cli.py", "cli_pages.py", "cli_options.py", "cli_site.py"},
    "tenseal": {"secure/ckks.py"},
    "optuna": {"search/bayes.py", "search/study_file.py"},
    "sqlalchemy": {"search/study_file.py"},
    "nvflare": {
        f"federation/engines/nvflare_{part}.py"
        for part in ("bridge", "calls", "guard", "kits", "session", "site")
    },
    "pickle": {"graphs/raw_files.py"},
}


def imported(path: Path) -> set[str]:
    """Full names of all modules that a file imports anywhere, under TYPE_CHECKING too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(str(node.module))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("part", ALLOWED)
def test_parts_know_only_the_parts_below_them(part: str) -> None:
    allowed = ALLOWED[part] | SHARED | {part}
    for path in (SOURCE / part).rglob("*.py"):
        parts = {name.split(".")[1] for name in imported(path) if name.startswith("autofgl.")}
        assert parts <= allowed, f"{path} imports {parts - allowed}"


@pytest.mark.parametrize("package", ONLY_IN)
def test_packages_stay_where_they_belong(package: str) -> None:
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(name.split(".")[0] == package for name in imported(path))
    }
    assert users <= ONLY_IN[package]


def test_public_names() -> None:
    assert sorted(autofgl.__all__) == autofgl.__all__
    for name in autofgl.__all__:
        assert getattr(autofgl, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = autofgl.nonsense
