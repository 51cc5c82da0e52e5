"""A model card: what a user of a trained network should know of it, as Markdown."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autofgl.errors import one_line
from autofgl.methods.privacy import WHO_LEARNS_WHAT
from autofgl.runs.export import read_description
from autofgl.runs.files import file_bytes, parse_json
from autofgl.runs.folder import RunFolder

CARD = "MODEL_CARD.md"
#: What a run may leave of its proof that no client is worse off; text is taken as it is.
CERTIFICATES = ("certificate.md", "certificate.json")
_SIZES = ("nodes", "edges", "train", "val", "test")


def model_card(folder: Path, files: Sequence[str] = ()) -> str:
    """The card of a finished run; ``files`` are what is handed on with it, a line each.

    Raises:
        UserError: The run is not finished, or a file of it is damaged.
    """
    figures = RunFolder.open(folder).read_result()
    method = str(figures["method"]).rpartition(":")[2]
    sections = {
        "Model": _model(folder, figures, files),
        "Data": _data(figures),
        "Figures": _figures(figures),
        "Who learns what": _privacy(figures),
        "Certificate": _certificate(folder),
        "How it was made": _making(figures),
    }
    lines = [f"# Model card: {one_line(method)}", ""]
    for title, body in sections.items():
        if body:
            lines += [f"## {title}", "", *body, ""]
    return "\n".join(lines)


def _model(folder: Path, figures: dict[str, Any], files: Sequence[str]) -> list[str]:
    description = read_description(folder)
    scaling = {"unit": "each row to length 1", True: "each row to sum 1"}
    scaled = scaling.get(description["normalize_features"], "none")
    network = description["network"]
    sizes = f"{network.get('in_features')} features, {network.get('classes')} classes"
    lines = [
        f"- Network: {_cell(figures['architecture'])}",
        f"- Input and output: {sizes}; scores, whose softmax are probabilities",
        f"- Parameters: {figures['parameters']:,}",
        f"- Scaling of features, inside the network: {scaled}",
    ]
    names = description["models"]
    if names != ["model"] and names:
        lines.append(f"- One network for each client: {', '.join(map(one_line, names))}")
    return [*lines, *(f"- {_cell(line)}" for line in files)]


def _data(figures: dict[str, Any]) -> list[str]:
    rows = [row for row in figures["per_client"] if "nodes" in row]
    lines = [f"{figures['clients']} clients, partition {figures['partition']}."]
    if figures.get("cut_share") is not None:
        lines[0] += f" {figures['cut_share']:.1%} of the edges run between clients."
    if not rows:
        return [*lines, "", "Sizes of single clients stayed with them."]
    total = {"name": "all", **{key: sum(row[key] for row in rows) for key in _SIZES}}
    table = [[str(row["name"]), *(f"{row[key]:,}" for key in _SIZES)] for row in (*rows, total)]
    return [*lines, "", *_table(("client", *_SIZES), table)]


def _figures(figures: dict[str, Any]) -> list[str]:
    parts = figures.get("metrics") or {}
    rows = []
    for part, name in (("val", "validation"), ("test", "test")):
        values = {"accuracy": figures[f"{part}_accuracy"], **parts.get(part, {})}
        plain = {k: v for k, v in values.items() if isinstance(v, int | float)}
        rows += [[name, key.replace("_", " "), f"{value:.4f}"] for key, value in plain.items()]
    lines = _table(("nodes", "figure", "value"), rows)
    by_client = [
        [str(row["name"]), f"{row['test_accuracy']:.4f}"]
        for row in figures["per_client"]
        if row.get("test") and row.get("test_accuracy") is not None
    ]
    if by_client:
        lines += ["", *_table(("client", "test accuracy"), by_client)]
    return [*lines, "", f"Chosen by {figures.get('objective', 'accuracy')} on validation nodes."]


def _privacy(figures: dict[str, Any]) -> list[str]:
    secure = figures["secure"] != "none"
    parties = WHO_LEARNS_WHAT.get(figures["method"], ())
    lines = [f"Sums were protected by: {figures['secure']}.", ""]
    lines += _table(("who", "learns"), [[one.who, one.with_mode(secure)] for one in parties])
    if "dp" in figures:
        spent = figures["dp"]
        lines += ["", f"Differential privacy of each client: epsilon {spent['epsilon']:.3g} at "
                  f"delta {spent['delta']:g}."]  # fmt: skip
    else:
        lines += ["", "No differential privacy: the weights may tell of the training data."]
    return lines


def _certificate(folder: Path) -> list[str]:
    for name in CERTIFICATES:
        path = folder / name
        if not path.is_file():
            continue
        if path.suffix == ".md":
            text = file_bytes(path).decode(errors="replace")
            return [line for line in text.splitlines() if not line.startswith("# ")]
        content = parse_json(path, file_bytes(path))
        plain = {k: v for k, v in content.items() if isinstance(v, str | int | float)}
        return _table(("what", "value"), [[key, str(value)] for key, value in plain.items()])
    return []


def _making(figures: dict[str, Any]) -> list[str]:
    settings = json.dumps(figures["hyperparameters"], ensure_ascii=False)
    versions = ", ".join(f"{name} {value}" for name, value in figures["versions"].items())
    return [
        f"- Method {_cell(figures['method'])}, seed {figures['seed']}, {figures['rounds']} rounds "
        f"in {figures['wall_s']:.1f} s",
        f"- Settings: `{one_line(settings.replace('`', ' '), 5000)}`",
        f"- Versions: {versions}",
    ]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(head)
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return lines + ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]


def _cell(text: object) -> str:
    """A value in a table, whoever wrote it."""
    return one_line(str(text), 1000).replace("|", "\\|").replace("<", "&lt;")
