"""Makes a page of each notebook in ``examples/notebooks`` when the site is built.

``mkdocs.yml`` registers this file. Nothing is run here: pages show the outputs that the notebooks
have, and a test runs the notebooks.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
#: Where the notebooks can be read and downloaded, below the page.
_NOTE = "*This page is the notebook `examples/notebooks/{name}.ipynb`, with its outputs.*"


def on_files(files: Any, config: Any) -> Any:
    """MkDocs' hook: the files of the site."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        content = page_of(json.loads(path.read_text()), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files


def page_of(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown."""
    blocks = [block for cell in notebook["cells"] for block in _blocks(cell)]
    title, _, rest = blocks[0].partition("\n")
    return "\n\n".join([title, _NOTE.format(name=name), rest.strip(), *blocks[1:]]) + "\n"


def _blocks(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "text/markdown" in data:
            yield "".join(data["text/markdown"])
        elif text := "".join(output.get("text") or data.get("text/plain", ())):
            yield f'```text title="Output"\n{text.rstrip()}\n```'
