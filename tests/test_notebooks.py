"""The notebooks run as they are written, and the site shows them with their outputs."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def pages() -> Any:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["compare-methods", "own-tables", "write-a-method"]
    config = (ROOT / "mkdocs.yml").read_text()
    for path in NOTEBOOKS:
        assert f"notebooks/{path.stem}.md" in config


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_whole_and_clean(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    book = read(path)
    nbformat.validate(book)
    numbers = [cell["execution_count"] for cell in book["cells"] if cell["cell_type"] == "code"]
    assert numbers == list(range(1, len(numbers) + 1)), "run from its beginning to its end"
    for cell in book["cells"]:
        for output in cell.get("outputs", ()):
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", output
        text = json.dumps(cell)
        assert not re.search(r"/(?:home|work|tmp|root)/", text), "no path of a machine"
        if cell["cell_type"] == "code":
            code = "".join(line for line in cell["source"] if not line.startswith("%%writefile"))
            compile(code, path.name, "exec")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_has_text_code_and_outputs(path: Path) -> None:
    page = pages().page_of(read(path), path.stem)
    assert page.startswith("# ")
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    assert page.count("```python\n") == len(cells)
    assert '```text title="Output"' in page
    links = re.findall(r"\]\(\.\./([\w/-]+\.md)", page)
    assert links
    for link in links:
        assert (ROOT / "docs" / link).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    book = nbformat.reads(path.read_text(), as_version=4)
    before = [outputs(cell) for cell in book.cells]
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=600, resources=resources).execute()
    after = [outputs(cell) for cell in book.cells]
    assert [bool(text) for text in before] == [bool(text) for text in after]
    if path.stem == "write-a-method":
        assert "the same weights: True" in after[-2]


def outputs(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", ()))
