"""Imports point one way."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import autofgl

SOURCE = Path(autofgl.__file__).parent
SHARED = {"errors", "seeding", "atomic", "version", "identity", "workers", "plugins"}
BASE = {"graphs", "federation", "nn", "tasks", "secure", "search"}

#: What each part may import besides itself and the shared modules.
ALLOWED: dict[str, set[str]] = {
    "graphs": set(),
    "federation": set(),
    "nn": {"graphs"},
    "tasks": {"graphs"},
    "secure": set(),
    "search": set(),
    "runtime": BASE,
    "sharing": BASE | {"runtime"},
    "methods": BASE | {"runtime", "sharing"},
    "audit": BASE - {"search"} | {"runtime", "sharing"},
    "runs": {"graphs", "federation", "nn", "tasks", "methods", "runtime"},
    "matching": {"graphs", "federation", "secure"},
    "tables": {"graphs", "runs"},
    "report": {"runs", "nn", "methods"},
    "experiments": {"report", "runs", "methods", "runtime", "graphs", "nn", "config", "api"},
    "sites": {
        "graphs", "federation", "methods", "runtime", "secure", "runs", "config", "execution",
        "tables", "report", "matching",
    },
}  # fmt: skip

#: The only files and folders that may import these packages.
ONLY_IN = {
    "torch_geometric": {"graphs/client_graph.py", "graphs/objects.py", "graphs/fields.py"},
    "networkx": {"graphs/objects.py"},
    "pandas": set(),
    "polars": set(),
    "pyarrow": {"tables/table.py"},
    "private_set_intersection": {"matching/intersection.py"},
    "onnxruntime": {"runs/convert.py"},
    "tensorboard": {"runs/tracking.py"},
    "mlflow": {"runs/tracking.py"},
    "msgpack": {"federation/payload.py"},
    "typer": {"cli.py", "cli/pages.py", "cli/run.py", "cli/site.py", "cli"},
    "tenseal": {"secure/ckks.py", "secure/ckks"},
    "optuna": {"search/bayes.py"},
    "sqlalchemy": {"search/bayes.py"},
    "nvflare": {"federation/engines/nvflare"},
    "pickle": {"graphs/raw_files.py"},
}


@cache
def imported(source: str) -> set[str]:
    """Full names of all modules that a file imports anywhere, under TYPE_CHECKING too."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def parts_of_ours(source: str) -> set[str]:
    """The parts of this package that a file imports; ``autofgl`` for the package itself."""
    ours = (name.split(".") for name in imported(source) if name.split(".")[0] == "autofgl")
    return {words[1] if len(words) > 1 else words[0] for words in ours}


@pytest.mark.parametrize("part", ALLOWED)
def test_parts_know_only_the_parts_below_them(part: str) -> None:
    allowed = ALLOWED[part] | SHARED | {part}
    for path in (SOURCE / part).rglob("*.py"):
        parts = parts_of_ours(path.read_text())
        assert parts <= allowed, f"{path} imports {parts - allowed}"


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("import autofgl", {"autofgl"}),
        ("import autofgl as package", {"autofgl"}),
        ("from autofgl import __version__", {"__version__"}),
        ("from autofgl import atomic", {"atomic"}),
        ("import autofgl.graphs.cut", {"graphs"}),
        ("def f():\n    from autofgl.graphs.cut import pool", {"graphs"}),
        ("import autofglish", set()),
    ],
)
def test_imports_of_the_package_itself_are_seen(source: str, parts: set[str]) -> None:
    assert parts_of_ours(source) == parts


@pytest.mark.parametrize("package", ONLY_IN)
def test_packages_stay_where_they_belong(package: str) -> None:
    for path in SOURCE.rglob("*.py"):
        if any(name.split(".")[0] == package for name in imported(path.read_text())):
            file = path.relative_to(SOURCE)
            places = {file.as_posix(), *(folder.as_posix() for folder in file.parents)}
            assert places & ONLY_IN[package], f"{file} imports {package}"


def test_the_federation_imports_without_torch() -> None:
    """Whoever names an engine, issues kits or stops a site need not wait for torch."""
    files = (SOURCE / "federation").rglob("*.py")
    modules = [path.relative_to(SOURCE.parent).with_suffix("").parts for path in files]
    names = [".".join(parts) for parts in modules if parts[-1] != "site"]  # that one needs nvflare
    code = f"import sys, {', '.join(names)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names() -> None:
    assert sorted(autofgl.__all__) == autofgl.__all__
    for name in autofgl.__all__:
        assert getattr(autofgl, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = autofgl.nonsense


def test_completion_shows_the_public_names() -> None:
    assert set(autofgl.__all__) <= set(dir(autofgl))


@pytest.mark.parametrize("part", ["runtime", "sharing", "methods"])
def test_methods_know_no_engine(part: str) -> None:
    for path in (SOURCE / part).rglob("*.py"):
        engines = [name for name in imported(path.read_text()) if ".engines" in name]
        assert not engines, f"{path} imports {engines}"
