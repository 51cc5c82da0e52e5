"""A tiny figure, run in full; its numbers against those of the run folders."""

import csv
import io
import json
import os
import re
import shutil
import signal
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from checker import check_page

from autofgl.errors import AutoFGLError, Interrupted, UserError
from autofgl.experiments import curves
from autofgl.experiments.curves import common_target, first_reaching, training_curve
from autofgl.experiments.figures import FigurePages
from autofgl.experiments.plan import ChartKind, Figure, Options, Setting, Variant
from autofgl.experiments.runner import run_experiment
from autofgl.federation.engines.inprocess import InProcess
from autofgl.runs.folder import read_history

SETTINGS = {"nodes": 120, "features": 30, "hidden": 4, "batch": 10, "evaluate_every": 2}
POLICY = Variant(
    "policy",
    "Learning",
    "fedgraph",
    {"sampler": "ddpg", "profile_rounds": 2, "episodes": 2, "episode_rounds": 2, "rounds": 0},
)
PANEL = Setting("toy-cut", "Toy", "synthetic", 3, "random", SETTINGS, "toy", "cut")
TINY = Figure(
    name="tiny",
    title="A tiny figure",
    source="Nobody, Fig. 0",
    claim="Nothing (section 0).",
    chart="accuracy",
    settings=(PANEL,),
    variants=(
        Variant("ddpg", "Sampled", "fedgraph", {"sampler": "ddpg"}, uses=POLICY),
        Variant("full", "Whole", "fedgraph", {"sampler": "full"}),
    ),
    rounds=5,
    seeds=2,
    notes=("Nothing here is real.",),
)
SEEDS = range(2)


def run(out: Path, figure: Figure = TINY, **options: Any) -> str:
    said = io.StringIO()
    run_experiment(FigurePages(figure, Options(out, **options)), Console(file=said, width=80))
    return said.getvalue()


@pytest.fixture(scope="module", autouse=True)
def _no_run_lags_behind() -> Iterator[None]:
    """Runs of a few rounds lie far apart; here all of them count for the target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "LAG", 1.0)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole figure; tests only read it."""
    out = tmp_path_factory.mktemp("figure") / "made"
    (out.parent / "said.txt").write_text(run(out))
    return out


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """The whole figure in another place, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def history(out: Path, line: str, seed: int) -> list[dict[str, Any]]:
    return read_history(out / "toy-cut" / line / f"seed-{seed}" / "history.jsonl")


def read_csv(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((out / "figure.csv").read_text().splitlines()))


def times(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}


def test_every_line_is_made_of_ordinary_runs(made: Path) -> None:
    places = {path.parent.relative_to(made).as_posix() for path in made.rglob("result.json")}
    assert places == {
        "toy-cut/policy/seed-0", "toy-cut/ddpg/seed-0", "toy-cut/ddpg/seed-1",
        "toy-cut/full/seed-0", "toy-cut/full/seed-1",
    }  # fmt: skip
    said = (made.parent / "said.txt").read_text()
    assert "tiny: 5 runs, 0 of them finished before" in said
    assert re.search(r"\[1/5\] Toy, Learning, seed 0\n  policy learned in", said)
    assert re.search(r"\[5/5\] Toy, Whole, seed 1\n  test accuracy", said)
    assert (made / "summary.md").read_text() in said


def test_the_policy_is_learned_once_and_used_by_all_seeds(made: Path) -> None:
    assert [row["phase"] for row in history(made, "policy", 0)] == ["profile"] * 2 + ["episode"] * 4
    for seed in SEEDS:
        folder = made / f"toy-cut/ddpg/seed-{seed}"
        policy = yaml.safe_load((folder / "config.yaml").read_text())["settings"]["policy"]
        assert policy == str(made / "toy-cut/policy/seed-0/policy.afp")
        assert [row["phase"] for row in history(made, "ddpg", seed)] == ["train"] * 5
        learned = Path(policy).read_bytes()
        assert (folder / "policy.afp").read_bytes() == learned, "and learns no more"


def test_the_csv_holds_what_the_histories_say(made: Path) -> None:
    rows = iter(read_csv(made))
    for line in ("ddpg", "full"):
        for seed in SEEDS:
            past = history(made, line, seed)
            for end in (2, 4, 5):  # every second round, and the last
                row = next(rows)
                assert (row["panel"], row["line"], row["seed"]) == ("toy-cut", line, str(seed))
                assert int(row["round"]) == end
                seconds = sum(entry["train_s"] for entry in past[:end])
                assert float(row["x"]) == float(row["seconds"]) == pytest.approx(seconds)
                assert float(row["cost"]) == pytest.approx(sum(e["cost"] for e in past[:end]))
                assert float(row["y"]) == past[end - 1]["test_accuracy"]
                assert float(row["val_accuracy"]) == past[end - 1]["val_accuracy"]
    assert next(rows, None) is None


def test_the_summary_by_hand(made: Path) -> None:
    text = (made / "summary.md").read_text()
    assert "**The paper's claim:** Nothing (section 0)." in text
    assert "Paper: Nobody, Fig. 0." in text
    assert "- Nothing here is real." in text
    curves = {
        (line, seed): training_curve(history(made, line, seed))
        for line in ("ddpg", "full")
        for seed in SEEDS
    }
    target = common_target(curves.values())
    assert target is not None
    assert f"Target accuracy {100 * target:.1f} %." in text
    costs = {}
    for line in ("ddpg", "full"):
        points = [first_reaching(curves[line, seed], target) for seed in SEEDS]
        costs[line] = statistics.mean(point.cost for point in points if point)
    results = [
        json.loads((made / f"toy-cut/full/seed-{seed}/result.json").read_text()) for seed in SEEDS
    ]
    accuracies = [100 * result["test_accuracy"] for result in results]
    cells = next(row for row in text.splitlines() if row.startswith("| Whole")).split(" | ")
    assert cells[1] == f"{statistics.mean(accuracies):.1f} ± {statistics.stdev(accuracies):.1f}"
    assert cells[2] == "2"
    assert cells[5] == f"{costs['full'] / 1e6:.2f}"
    assert cells[6] == f"{costs['full'] / costs['ddpg']:.2f}"
    learning = history(made, "policy", 0)
    seconds = sum(row["train_s"] for row in learning)
    cost = sum(row["cost"] for row in learning) / 1e6
    wall = json.loads((made / "toy-cut/policy/seed-0/result.json").read_text())["wall_s"]
    assert f"learned in 6 rounds, {seconds:.2f} s of training ({wall:.2f} s in all)" in text
    assert f"cost {cost:.2f};" in text
    whole = json.loads((made / "figure.json").read_text())
    assert (whole["figure"], whole["rounds"], len(whole["lines"])) == ("tiny", 5, 2)
    assert whole["lines"][1]["mean"]["target_cost"] == pytest.approx(costs["full"])


def test_the_drawings_have_labels_and_a_legend(made: Path) -> None:
    for name, x in (("figure.svg", "seconds of training"), ("figure-cost.svg", "cost (sampled")):
        words = " ".join(ElementTree.parse(made / name).getroot().itertext())
        for word in ("Toy", "Sampled", "Whole", "test accuracy", x):
            assert word in words


def test_finished_runs_are_left_alone(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another place, where the policy is not where it was."""
    before = times(copy)
    pages = {name: (copy / name).read_bytes() for name in ("figure.csv", "summary.md")}
    monkeypatch.setattr(InProcess, "call", None)
    assert "5 runs, 5 of them finished before" in run(copy)
    assert times(copy) == before
    assert all((copy / name).read_bytes() == page for name, page in pages.items())
    assert "2 runs, 2 of them" in run(copy, rows=("full",))


def test_only_what_is_missing_is_run(copy: Path) -> None:
    shutil.rmtree(copy / "toy-cut/full/seed-1")
    before = times(copy)
    said = run(copy)
    assert "5 runs, 4 of them finished before" in said
    assert said.count("\n[") == 1
    assert {path: time for path, time in times(copy).items() if path in before} == before
    assert len(read_csv(copy)) == 12


def test_a_stopped_learning_goes_on_where_it_was(
    out: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []
    original = InProcess.call

    def interrupting(self: InProcess, op: str, *args: Any, **kwargs: Any) -> Any:
        rounds.extend([op] * (op == "begin" and args[0]["purpose"] == "train"))
        if len(rounds) == 4:
            rounds.append("done")
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, op, *args, **kwargs)

    monkeypatch.setattr(InProcess, "call", interrupting)
    with pytest.raises(Interrupted, match="run the same command"):
        run(out, rows=("ddpg",), seeds=1)
    monkeypatch.setattr(InProcess, "call", original)
    assert len(history(out, "policy", 0)) == 4
    assert "Policy: not learned yet" not in (out / "summary.md").read_text(), "nothing to show yet"
    run(out, rows=("ddpg",), seeds=1)
    policies = [path / "toy-cut/policy/seed-0/policy.afp" for path in (made, out)]
    assert policies[0].read_bytes() == policies[1].read_bytes()
    assert "| Sampled |" in (out / "summary.md").read_text()


def test_without_a_policy_the_other_lines_go_on(out: Path) -> None:
    lost = replace(POLICY, settings={**POLICY.settings, "episodes": 0})
    variants = (replace(TINY.variants[0], uses=lost), TINY.variants[1])
    figure = replace(TINY, variants=variants)
    with pytest.raises(AutoFGLError, match="2 of 3 runs failed"):
        run(out, figure, seeds=1)
    text = (out / "summary.md").read_text()
    assert "Policy: failed: setting episodes=0" in text
    assert "| Sampled | failed: cannot read the policy" in text
    assert (out / "toy-cut/full/seed-0/result.json").exists()
    run(out, seeds=1)
    assert "failed" not in (out / "summary.md").read_text()


@pytest.mark.parametrize(
    ("figure", "options", "message"),
    [
        (TINY, {"rounds": 6}, r"ddpg/seed-0 was made with rounds 5 \(now 6\)"),
        (TINY, {"secure": "shares"}, r"secure none \(now shares\)"),
        (replace(TINY, name="tinier"), {}, "not a folder of tinier"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    made: Path, figure: Figure, options: dict[str, Any], message: str
) -> None:
    before = times(made)
    with pytest.raises(UserError, match=message + ".*choose another --out"):
        run(made, figure, **options)
    assert times(made) == before


def test_a_policy_that_was_copied_from_another_figure_is_used(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "other"
    shutil.copytree(made / "toy-cut/policy", out / "toy-cut/policy")
    said = run(out, replace(TINY, name="other"), seeds=1, rows=("ddpg",))
    assert "2 runs, 1 of them finished before" in said
    assert (out / "toy-cut/ddpg/seed-0/result.json").exists()


def test_all_files_are_made_anew(copy: Path) -> None:
    for path in copy.glob("*.*"):
        if path.name != "figure.json":
            path.unlink()
    run(copy)
    names = {path.name for path in copy.iterdir()}
    charts = {"figure.html", "figure.svg", "figure-cost.svg"}
    assert names == {"toy-cut", "figure.json", "figure.csv", "summary.md"} | charts


@pytest.mark.parametrize(
    ("chart", "y", "word"),
    [
        ("target", "target_seconds", "seconds to the target"),
        ("final", "test_accuracy", "test accuracy"),
    ],
)
def test_bars_have_one_point_for_each_run(copy: Path, chart: ChartKind, y: str, word: str) -> None:
    run(copy, replace(TINY, chart=chart))
    rows = read_csv(copy)
    assert [(row["line"], row["seed"], row["x"]) for row in rows] == [
        (line, seed, "cut") for line in ("ddpg", "full") for seed in "01"
    ]
    lines = json.loads((copy / "figure.json").read_text())["lines"]
    expected = [run[y] for line in lines for run in line["runs"].values()]
    assert [float(row["y"]) for row in rows] == expected
    words = " ".join(ElementTree.parse(copy / "figure.svg").getroot().itertext())
    assert word in words
    assert "cut" in words
    page = check_page((copy / "figure.html").read_text())
    assert any(f"toy: {word} over level: Sampled" in label for label in page.labels)


def test_a_target_of_bars_is_common_to_the_dataset(copy: Path) -> None:
    """Two panels of one dataset, the second with half the accuracy."""
    shutil.copytree(copy / "toy-cut", copy / "toy-other")
    for path in (copy / "toy-other").rglob("history.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["test_accuracy"] = row["test_accuracy"] and row["test_accuracy"] / 2
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        path.with_name("run.json").unlink()  # its digests would give the change away
    panels = (PANEL, replace(PANEL, name="toy-other", label="Other", level="other"))

    def targets(chart: ChartKind) -> dict[str, float]:
        run(copy, replace(TINY, settings=panels, chart=chart))
        lines = json.loads((copy / "figure.json").read_text())["lines"]
        return {line["panel"]: line["target"] for line in lines}

    alone, common = targets("accuracy"), targets("target")
    assert alone["toy-other"] + 0.01 == pytest.approx((alone["toy-cut"] + 0.01) / 2)
    assert common == {panel.name: alone["toy-other"] for panel in panels}


def test_returns_of_a_learning(copy: Path) -> None:
    """The same policy's folder is a line of its own here."""
    figure = replace(TINY, chart="returns", variants=(POLICY,), seeds=1)
    for line in ("ddpg", "full"):
        shutil.rmtree(copy / "toy-cut" / line)
    assert "1 runs, 1 of them finished before" in run(copy, figure)
    past = history(copy, "policy", 0)
    rows = read_csv(copy)
    assert [(row["line"], row["x"]) for row in rows] == [("policy", "1"), ("policy", "2")]
    assert [float(row["y"]) for row in rows] == [past[3]["return"], past[5]["return"]]
    assert float(rows[1]["cost"]) == pytest.approx(sum(row["cost"] for row in past))
    mean = (past[3]["return"] + past[5]["return"]) / 2
    text = (copy / "summary.md").read_text()
    assert f"| Learning | 1 | 2 | {mean:.2f} | {mean:.2f} |" in text
    words = " ".join(ElementTree.parse(copy / "figure.svg").getroot().itertext())
    assert "discounted return" in words
    page = check_page((copy / "figure.html").read_text())
    assert any("discounted return over episode" in label for label in page.labels)


def test_a_figure_over_levels(out: Path) -> None:
    data = {"nodes": 90, "classes": 3, "features": 12}
    panels = [
        Setting(f"a-{alpha}", alpha, "synthetic", 2, "labels",
                {**data, "label_alpha": float(alpha)}, "tiny", alpha)
        for alpha in ("0.6", "1.0")
    ]  # fmt: skip
    variants = (
        Variant("sfgnn", "SFGNN", "sfgnn", {"hidden": 8}),
        Variant("sp", "SP", "separate", {"hidden": 8, "model": "sfgnn"}),
    )
    figure = Figure(
        "tiny-fig", "Tiny", panels, variants, seeds=1, rounds=3, chart="levels", axis="α"
    )
    run(out, figure)
    text = (out / "summary.md").read_text()
    assert "| α | SFGNN (seeds) | SP (seeds) |" in text
    assert text.count("(1) |") == 4
    rows = (out / "figure.csv").read_text().splitlines()
    assert rows[0] == "panel,line,seed,x,y,val_accuracy,wall_s"
    assert [row.split(",")[3] for row in rows[1:]] == ["0.6", "0.6", "1.0", "1.0"]
    assert (out / "figure.svg").exists()
    assert "α" in (out / "figure.svg").read_text()


def test_a_figure_of_generations(out: Path) -> None:
    space = {"generations": 3, "warmup": 1, "population": 4, "layers": 1, "types": "gcn,sgc"}
    small = {**space, "hidden": 4, "weight_steps": 1, "trials": 0, "finalists": 1, "known": False}
    panel = Setting("tiny", "Tiny", "synthetic", 2, "random", {"nodes": 90, "features": 12})
    variants = [
        Variant(way, way, "fl-agcns", {**small, "optimizers": way}) for way in ("both", "clients")
    ]
    figure = Figure("tiny-fig", "Tiny", [panel], variants, seeds=1, rounds=2, chart="losses")
    run(out, figure)
    rows = read_csv(out)
    assert [(row["line"], row["x"]) for row in rows] == [
        (way, str(generation)) for way in ("both", "clients") for generation in (1, 2, 3)
    ]
    history = read_history(out / "tiny" / "clients" / "seed-0" / "history.jsonl")
    assert float(rows[-1]["y"]) == history[2]["best_fll"]
    assert float(rows[-1]["median_loss"]) == history[2]["median_fll"]
    text = (out / "summary.md").read_text()
    assert f"| clients | 1 | 3 | {history[2]['best_fll']:.3f} |" in text
    assert "median federated loss" in (out / "figure-median.svg").read_text()
