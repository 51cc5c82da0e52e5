"""Plug-ins: what installed packages register in entry points, and what a broken one does."""

import json
import sys
from pathlib import Path

import pytest

import autofgl
from autofgl import plugins
from autofgl.cli import main
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method

MODULE = """
import autofgl
from autofgl.graphs.catalog import DataSettings
from autofgl.methods.catalog import find_method
from torch_geometric.nn import GCN

class Mine(find_method("fedavg")):
    pass

def net(in_features, classes):
    return GCN(in_features, 8, 2, classes)

def graph(seed):
    return autofgl.load("synthetic", seed=seed, settings=DataSettings(nodes=90, classes=3))

def data(seed):
    made = graph(seed).to_pyg()
    return made

def nothing():
    raise OSError("the disk is\\nelsewhere")
"""

ENTRIES = """
[autofgl.methods]
mine = plugin_of_tests:Mine
broken = plugin_that_fails:Mine

[autofgl.models]
small-gcn = plugin_of_tests:net

[autofgl.datasets]
mine = plugin_of_tests:graph
as-data = plugin_of_tests:data
offline = plugin_of_tests:nothing
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as an installation leaves one, with a package that fails when it is imported."""
    folder = tmp_path / "site-packages"
    about = folder / "plugin_of_tests-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-tests\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    (folder / "plugin_of_tests.py").write_text(MODULE)
    (folder / "plugin_that_fails.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("plugin_of_tests", "plugin_that_fails"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    code = stopped.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.usefixtures("installed")
def test_a_run_of_plug_ins_alone(tmp_path: Path) -> None:
    words = ["run", "mine", "--dataset", "mine", "--model", "small-gcn", "--set", "rounds=2"]
    assert call(*words, "--out", str(tmp_path / "run")) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["method"], result["dataset"]) == ("mine", "mine")
    assert result["architecture"] == "small-gcn, 500 → 3"
    assert type(autofgl.load_model(tmp_path / "run")).__name__ == "GCN"


@pytest.mark.usefixtures("installed")
def test_lists_name_them_and_import_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("methods") == 0
    out = capsys.readouterr().out
    assert "mine" in out
    assert "broken" in out
    assert "plugin_that_fails" not in sys.modules
    assert "plugin_of_tests" not in sys.modules
    assert call("datasets") == 0
    assert "as-data" in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
def test_a_broken_one_is_one_line_and_hurts_nobody_else() -> None:
    with pytest.raises(UserError, match=r"method 'broken': plug-in .*not today"):
        find_method("broken")
    assert find_method("mine").__name__ == "Mine"
    with pytest.raises(UserError, match="dataset 'offline': OSError: the disk is elsewhere"):
        autofgl.load("offline")
    with pytest.raises(UserError, match="did you mean mine"):
        find_method("mime")


@pytest.mark.usefixtures("installed")
def test_a_dataset_may_be_pyg_data_or_in_a_file(installed: Path) -> None:
    ours, theirs = autofgl.load("mine", seed=3), autofgl.load("as-data", seed=3)
    assert isinstance(theirs, ClientGraph)
    assert ours.num_nodes == theirs.num_nodes == 90
    assert (ours.train_mask == theirs.train_mask).all()
    file = autofgl.load(f"{installed / 'plugin_of_tests.py'}:graph", seed=3)
    assert file.fingerprint() == ours.fingerprint()


def test_built_in_names_cost_no_look_at_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(kind: str) -> dict[str, object]:
        raise AssertionError(kind)

    monkeypatch.setattr(plugins, "entry_points", look)
    assert find_method("fedavg").__name__ == "FedAvg"
    assert autofgl.load("cora").num_nodes == 2708


@pytest.mark.parametrize("words", [["mine.py"], ["fedavg", "--dataset", "mine.py"]])
def test_a_file_alone_names_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *words) == 2
    assert "'mine.py' is a file: say what of it, as in mine.py:Name" in capsys.readouterr().err
