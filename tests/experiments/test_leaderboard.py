"""Leaderboards: cells, ranks, digests; and finished cells are not made twice."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autofgl import api
from autofgl.errors import Interrupted, UserError
from autofgl.experiments.charts import cut_charts
from autofgl.experiments.digests import SigningKey, is_signed, verify_rows
from autofgl.experiments.leaderboard import (
    LeaderboardPages,
    leaderboard_cells,
    mean_ranks,
)
from autofgl.experiments.plan import Leaderboard, Options, Setting, Variant, make_leaderboard
from autofgl.experiments.runner import run_experiment
from autofgl.experiments.summary import Summary

SETTINGS: dict[str, Any] = {"nodes": 120, "rounds": 2, "hidden": 8, "split": "openfgl"}


def board(*methods: str, **more: Any) -> Leaderboard:
    about = {"clients": 2, "settings": SETTINGS, **more}
    return make_leaderboard(methods, ["synthetic"], ["metis"], **about)


def run(made: Leaderboard, options: Options) -> str:
    said = io.StringIO()
    run_experiment(LeaderboardPages(made, options), Console(file=said, width=120))
    return said.getvalue()


def test_every_method_has_the_same_grid() -> None:
    made = board("separate", "fedavg:sharing=head", tune=["lr=0.1,0.2", "prox=0"])
    assert [one.settings.get("lr") for one in made.variants] == [0.1, 0.2, 0.1, 0.2]
    assert list(made.entries.values()) == ["separate"] * 2 + ["fedavg:sharing=head"] * 2
    assert len({one.name for one in made.variants}) == 4
    with pytest.raises(UserError, match="--tune takes key=value,value, not 'lr'"):
        board("fedavg", tune=["lr"])
    with pytest.raises(UserError, match="'fedavg' is there twice"):
        board("fedavg", "fedavg")


def test_cuts_may_have_settings_of_their_own() -> None:
    cuts = ["metis", "dirichlet:dirichlet_beta=0.1", "labels:clients=3"]
    made = make_leaderboard(["fedavg"], ["planetoid:cora"], cuts, settings=SETTINGS)
    assert [one.level for one in made.settings] == ["metis", "dirichlet 0.1", "labels 3"]
    assert [one.clients for one in made.settings] == [10, 10, 3]
    assert [one.shared for one in made.settings] == [{}, {"dirichlet_beta": 0.1}, {}]
    assert len({one.name for one in made.settings}) == 3
    with pytest.raises(UserError, match="'dirichlet_alpha'"):
        make_leaderboard(["fedavg"], ["cora"], ["dirichlet:dirichlet_alpha=1"], settings={})


def test_a_leaderboard_from_end_to_end(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped after two runs, goes on, and then has nothing left to do."""
    made = board("separate", "fedavg:compare_alone=true", tune=["lr=0.01,0.05"])
    options = Options(out, seeds=1)
    start, begun = api.start_run, []

    def stopping(*given: Any) -> Any:
        begun.append(given[2])
        if len(begun) == 3:
            raise KeyboardInterrupt
        return start(*given)

    monkeypatch.setattr(api, "start_run", stopping)
    with pytest.raises(Interrupted, match="run the same command again"):
        run(made, options)
    said = run(made, options)
    assert len(begun) == 1 + 2 * 2
    assert "mean rank" in said
    run(made, options)
    assert len(begun) == 5, "nothing is made twice"

    result = json.loads((out / "leaderboard.json").read_text())
    assert len(result["rows"]) == 2
    for row in result["rows"]:
        tried = [
            json.loads(path.read_text())
            for path in (out / row["folder"]).parent.parent.glob("*/seed-0/result.json")
            if json.loads(path.read_text())["method"] == row["method"].partition(":")[0]
        ]
        assert row["val_accuracy"] == max(one["val_accuracy"] for one in tried)
        assert row["wall_s"] == pytest.approx(sum(one["wall_s"] for one in tried))
        assert len(row["gains"]) == (2 if row["method"].startswith("fedavg") else 0)
    lines = (out / "leaderboard.csv").read_text().splitlines()
    assert lines[0].startswith("method,dataset,partition,seed,test_accuracy")
    assert len(lines) == 3
    clients = (out / "clients.csv").read_text().splitlines()
    assert clients[0].startswith("method,dataset,partition,seed,client,test,test_accuracy,alone")
    assert len(clients) == 1 + 2
    assert "clients that gain" in (out / "leaderboard.html").read_text()

    key = SigningKey.at(out.parent / "key.pem")
    run_experiment(LeaderboardPages(made, options, key), Console(file=io.StringIO()))
    assert verify_rows(out) == verify_rows(out, key.public)
    assert (verify_rows(out).rows, verify_rows(out).public_key) == (2, key.public)
    other = SigningKey.at(out.parent / "other.pem").public
    with pytest.raises(UserError, match=f"is not signed by {other}"):
        verify_rows(out, other)
    board_file = out / "leaderboard.json"
    text = board_file.read_text()
    for old, new, said in (
        ('"val_accuracy": ', '"val_accuracy": 1', "has other figures"),
        ('"wall_s": ', '"wall_s": 1', "is not signed"),
    ):
        board_file.write_text(text.replace(old, new))
        with pytest.raises(UserError, match=said):
            verify_rows(out)
    board_file.write_text(text)
    changed = out / result["rows"][0]["folder"] / "history.jsonl"
    changed.write_text(changed.read_text() + "\n")
    with pytest.raises(UserError, match=r"history.jsonl was damaged or changed"):
        verify_rows(out)


def test_keys_that_sign(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "mine.pem"
    key = SigningKey.at(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.at(path).public == key.public
    assert key.public in repr(key)
    row = {"method": "fedavg", "seed": 0, "test_accuracy": 0.1 + 0.2, "gains": [0.5]}
    signed = json.loads(json.dumps(key.signed(row)))
    assert is_signed(signed, key.public)
    assert not is_signed({**signed, "seed": 1}, key.public)
    assert not is_signed(row, key.public)
    assert not is_signed({**signed, "signature": "no"}, key.public)
    with pytest.raises(UserError, match="no Ed25519 key of 64"):
        is_signed(signed, "abc")
    path.chmod(0o644)
    with pytest.raises(UserError, match="other users may read this key"):
        SigningKey.at(path)
    path.chmod(0o600)
    path.write_text("nonsense")
    with pytest.raises(UserError, match="is no private key in PEM form"):
        SigningKey.at(path)


def test_several_cuts_are_drawn() -> None:
    made = make_leaderboard(["separate", "fedavg"], ["cora"], ["metis", "random"], settings={})
    columns = {
        cut.name: [
            Summary(cut, one, {0: {"test_accuracy": 0.5 + at / 10}}, {}, 1)
            for at, one in enumerate(made.variants)
        ]
        for cut in made.settings
    }
    (chart,) = cut_charts(made, columns)
    assert [[point.y for point in one.points] for one in chart.series] == [[0.5, 0.5], [0.6, 0.6]]
    assert [chart.x_format(point.x) for point in chart.series[0].points] == ["metis", "random"]
    single = make_leaderboard(["fedavg"], ["cora"], ["metis"], settings={})
    assert cut_charts(single, {}) == []


def column(name: str, *means: float) -> list[Summary]:
    """One setting with a method for each mean."""
    return [
        Summary(
            Setting(name, name, name),
            Variant(f"m{at}", f"m{at}", "fedavg"),
            {0: {"test_accuracy": mean}},
            {},
            1,
        )
        for at, mean in enumerate(means)
    ]


def test_ranks_and_the_critical_difference_by_hand() -> None:
    columns = [column("a", 0.9, 0.8, 0.7), column("b", 0.5, 0.6, 0.5), column("c", 0.3, 0.2, 0.1)]
    ranks = mean_ranks(columns)
    assert ranks.mean == pytest.approx({"m0": 4.5 / 3, "m1": 5 / 3, "m2": 8.5 / 3})
    # Demšar, 2006, Table 5: q of 0.05 for three methods is 2.343.
    assert ranks.critical == pytest.approx(2.343 * (3 * 4 / (6 * 3)) ** 0.5, abs=2e-3)
    assert ranks.p is not None
    assert mean_ranks(columns[:1]).critical is None
    assert mean_ranks([]).mean == {}


def test_cells_without_a_run_have_no_rank(out: Path) -> None:
    made = board("separate", "fedavg")
    cells = leaderboard_cells(made, Options(out, seeds=1))
    assert not any(cell.runs for column in cells.values() for cell in column)
    assert mean_ranks(list(cells.values())).mean == {}
