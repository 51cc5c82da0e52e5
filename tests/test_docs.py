"""The pages of the documentation: tables from their sources, and files that exist."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from autofgl.errors import UserError
from autofgl.methods.catalog import METHODS
from autofgl.methods.privacy import WHO_LEARNS_WHAT
from autofgl.nn.cross_client import closed_hops
from autofgl.nn.models.spec import FAMILIES, ModelSpec

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def methods_page(hooks: ModuleType) -> str:
    text = (ROOT / "docs" / "methods.md").read_text()
    return str(hooks.on_page_markdown(text, page=None, config=None, files=None))


def section(page: str, name: str) -> str:
    """The part of a page below a heading of the second level."""
    start = page.index(f"\n## {name}\n")
    end = page.find("\n## ", start + 1)
    return page[start:] if end < 0 else page[start:end]


def rows(text: str) -> list[str]:
    """Lines of tables, without escapes."""
    return [line.replace("\\|", "|") for line in text.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_its_privacy_and_settings(method: str, methods_page: str) -> None:
    text = section(methods_page, method)
    lines = rows(text)
    for party in WHO_LEARNS_WHAT[method]:
        line = next(line for line in lines if line.startswith(f"| {party.who} | {party.always} |"))
        assert party.none in line
        assert party.secure in line
    assert f"settings of <code>{method}</code>" in text
    listed = {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert "`rounds`" in text
    assert {"rounds", "lr", "patience"} <= listed


def test_rows_that_cross_are_told_of_every_network(methods_page: str) -> None:
    """Which families keep their first hop to themselves is what closed_hops does."""
    texts = [party.always for party in WHO_LEARNS_WHAT["fedavg"]] + [methods_page]
    pattern = r"of (GCN, [\w, ]+ and \w+) (?:that of )?the second"
    told = [one for text in texts for one in re.findall(pattern, text)]
    assert len(told) > 1
    closed = {
        name for name in FAMILIES
        if name != "sfgnn" and closed_hops(ModelSpec(name, 3, 2), "hidden") == {0}
    }  # fmt: skip
    for one in told:
        assert {name.lower() for name in re.split(", | and ", one)} == closed


def test_every_method_is_in_the_list(methods_page: str, hooks: ModuleType) -> None:
    for name in METHODS:
        assert f"| [`{name}`](#{name}) |" in methods_page
    assert "<!--" not in methods_page
    with pytest.raises(UserError, match="no-such-method"):
        hooks.fill_tables("<!-- settings: no-such-method -->")


def test_settings_are_those_of_the_class(hooks: ModuleType) -> None:
    table = hooks.settings_table("fedavg")
    assert "| `normalize_features` | `unit` | unit: scale the features of each node to" in table
    assert (
        "number of codes (encoded architectures) in the population, \\|P\\|"
        in hooks.settings_table("fl-agcns")
    )


def test_the_site_uses_the_hook() -> None:
    assert "hooks: [docs/hooks.py, docs/notebooks.py]" in (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_pages_name_exist(path: Path) -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text()):
        folders = (ROOT, ROOT / "src" / "autofgl", ROOT / "tests")
        assert "yours" in name or any((folder / name).is_file() for folder in folders), name


def test_the_reference_has_every_public_name() -> None:
    import autofgl

    listed = re.findall(r"^::: autofgl\.([\w.]+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    names = {path.rpartition(".")[2] for path in listed}
    assert set(autofgl.__all__) <= names
