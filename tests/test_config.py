from pathlib import Path
from typing import Any

import pytest
from autofgl.methods.settings import FederatedSettings

from autofgl.config import check_config, parse_settings, read_config_file, sort_settings
from autofgl.errors import UserError


def config(**values: Any) -> Any:
    return check_config({"method": "fedavg", "dataset": "cora", **values})


def test_settings_are_typed_by_their_reader() -> None:
    settings = parse_settings(["lr=1e-3", "model=gat", "hidden=32", "normalize_features=false"])
    method = sort_settings(config(settings=settings), FederatedSettings).method
    assert (method.lr, method.model, method.hidden) == (0.001, "gat", 32)
    assert method.normalize_features is False


@pytest.mark.parametrize("pair", ["lr", "=3", ""])
def test_settings_need_an_equals_sign(pair: str) -> None:
    with pytest.raises(UserError, match="key=value"):
        parse_settings([pair])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": {"nodes": 5}}, "needs --dataset synthetic"),
        ({"settings": {"lr": "fast"}}, "lr=fast"),
        ({"settings": {"dropout": 1.5}}, "dropout=1.5"),
        ({"settings": {"epochs": 5}}, "unknown setting of fedavg 'epochs'"),
        ({"settings": {"hiden": 5}}, "did you mean hidden"),
        ({"settings": {"split": "x"}}, "split"),
        ({"settings": {"label_alpha": 0.5}, "dataset": None, "graphs": ["a.npz", "b.npz"]},
         "nothing is partitioned"),
        ({"settings": {"split": "public"}, "dataset": None, "graphs": ["a.npz"]}, "own masks"),
        ({"secure": "rot13"}, "unknown secure mode"),
        ({"engine": "carrier-pigeon"}, "unknown engine"),
        ({"graphs": ["a.npz"]}, "either --dataset or --graphs"),
        ({"clients": 0}, "clients=0"),
        ({"clients": 3, "dataset": None, "graphs": ["a.npz", "b.npz"]}, "2 graph files"),
        ({"seed": -1}, "seed=-1"),
        ({"budget": "soon"}, "duration"),
        ({"budget": "90s cpu", "engine": "nvflare"}, "--budget 90s of wall time"),
        ({"sede": 1}, "did you mean seed"),
    ],
)  # fmt: skip
def test_mistakes_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        sort_settings(config(**values), FederatedSettings)


def test_all_settings_that_count_are_dumped() -> None:
    run = config(settings={"lr": 0.5}, dataset="synthetic")
    dumped = sort_settings(run, FederatedSettings).dump(run)
    assert dumped["lr"] == 0.5
    assert {"nodes", "label_alpha", "hidden"} <= set(dumped)
    again = config(settings=dumped, dataset="synthetic")
    assert sort_settings(again, FederatedSettings).dump(again) == dumped


def test_configuration_files(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("method: fedavg\nsettings: {lr: 0.1}\n")
    assert read_config_file(path) == {"method": "fedavg", "settings": {"lr": 0.1}}
    for text, message in (("- 1", "mapping"), ("a: [", "not YAML"), ("\x00", "YAML")):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_config_file(path)
    with pytest.raises(UserError, match="cannot read"):
        read_config_file(tmp_path / "absent.yaml")
