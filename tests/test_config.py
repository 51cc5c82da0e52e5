from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from autofgl.config import SECURE_MODES, check_config, parse_settings, sort_settings
from autofgl.errors import UserError
from autofgl.runs.folder import read_config_file
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.settings import ServerData
from autofgl.secure import MODES


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


def test_the_secure_modes_are_those_that_exist() -> None:
    assert SECURE_MODES == MODES


class Renamed(FederatedSettings):
    """Settings of which two have had another name, and one another choice."""

    renamed: ClassVar[dict[str, str]] = {"optimiser": "optimizer", "width": "hidden"}
    renamed_values: ClassVar[dict[str, dict[str, str]]] = {"optimizer": {"adamm": "adam"}}

    optimizer: Literal["adam", "sgd"] = "sgd"


def test_old_names_of_settings_are_accepted_with_a_notice() -> None:
    layers = sort_settings(config(settings={"optimiser": "adamm", "width": 8, "lr": 1}), Renamed)
    assert (layers.method.optimizer, layers.method.hidden, layers.method.lr) == ("adam", 8, 1)
    assert layers.notices == (
        "setting 'optimiser' is now called 'optimizer'",
        "setting optimizer: 'adamm' is now called 'adam'",
        "setting 'width' is now called 'hidden'",
    )
    again = config(settings=layers.dump(config()))
    assert sort_settings(again, Renamed) == replace(layers, notices=())


def test_a_setting_by_both_names_is_refused() -> None:
    with pytest.raises(UserError, match="'width' is now called 'hidden': give it once"):
        sort_settings(config(settings={"width": 8, "hidden": 9}), Renamed)


def test_present_names_come_without_a_notice() -> None:
    layers = sort_settings(config(settings={"optimizer": "adam"}), Renamed)
    assert layers.notices == ()


def test_the_server_has_data_only_where_a_method_says_so() -> None:
    assert sort_settings(config()).method.server_data == ServerData()
    asked = config(method="fedgraph", settings={"server_share": 0.1})
    assert sort_settings(asked).method.server_data == ServerData(share=0.1)
