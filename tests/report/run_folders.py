"""Run folders made by hand, and their reports."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from checker import Page, check_page

from autofgl.report.report import write_report

_SEARCH = {"generations": 3, "population": 6, "layers": 2, "warmup": 1, "weight_steps": 2}
_SEARCH |= {"trials": 4, "trial_rounds": 1, "finalists": 2}
_CANDIDATES = {"candidates": 3, "candidate_rounds": 2, "layers": 2, "finalists": 2}
_META = {"inner_steps": 1, "adapt_steps": 1, "participation": 0.5, "new_clients": 1}
_TUNED = {"trials": 2, "trial_rounds": 2, "startup": 1, "tune_hidden": "8", "tune_dropout": ""}
#: Settings with which a method is done in a moment.
SMALL: dict[str, dict[str, Any]] = {
    "fl-agcns": _SEARCH,
    "fl-random": _CANDIDATES,
    "fl-rl": _CANDIDATES,
    "fl-darts": {
        "generations": 3, "layers": 2, "weight_steps": 2, "hidden": 8, "trials": 2,
        "trial_rounds": 3, "tune": 2,
    },
    "fedgraph": {"sampler": "ddpg", "profile_rounds": 3, "episodes": 2, "episode_rounds": 2},
    "graphfl": _META,
    "graphfl-ga": {**_META, "population": 3, "iterations": 2, "hidden": 4, "structure_after": 2},
    "sfgnn": {"collect_models": True, "chosen_by": "client"},
    "asfgnn": {**_TUNED, "collect_models": True, "joint": False},
    "auto": {"recipes": 4, "trial_rounds": 2, "tune": 2, "trials": 2, "finalists": 2},
}  # fmt: skip


def write_run(folder: Path, history: list[dict[str, Any]] | str = "", **result: Any) -> Path:
    """A run folder made by hand."""
    folder.mkdir()
    config = {"method": "fedavg", "dataset": "cora", "clients": 3, "secure": "none", "seed": 0}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    lines = history if isinstance(history, str) else "\n".join(map(json.dumps, history))
    (folder / "history.jsonl").write_text(lines)
    if result:
        (folder / "result.json").write_text(json.dumps(result))
    return folder


def small_settings(method: str) -> dict[str, Any]:
    """Few rounds, and a small search."""
    return {"rounds": 3, **SMALL.get(method, {})}


def page_of(folder: Path) -> Page:
    return check_page(write_report(folder).read_text())
