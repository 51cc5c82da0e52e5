import pytest

from autofgl.methods.catalog import METHODS
from autofgl.methods.settings import FederatedSettings


def test_the_plain_protocol_regularises_nothing() -> None:
    plain = FederatedSettings(protocol="plain")
    assert (plain.dropout, plain.weight_decay, plain.normalize_features) == (0, 0, False)


def test_what_is_set_wins_over_the_protocol() -> None:
    settings = FederatedSettings(protocol="plain", dropout=0.3)
    assert (settings.dropout, settings.weight_decay) == (0.3, 0)


def test_a_dumped_protocol_is_read_back() -> None:
    settings = FederatedSettings(protocol="plain", weight_decay=1e-3)
    assert FederatedSettings(**settings.model_dump(mode="json")) == settings


#: What a paper's own setting is, or what its method needs; each says why in its description.
OWN = {
    "fedgraph": {"hidden": 16, "weight_decay": 0.0, "normalize_features": False},
    "graphfl": {"normalize_features": False},
    "graphfl-ga": {"normalize_features": False, "lr": 1.0},
}


@pytest.mark.parametrize("name", METHODS)
def test_all_methods_train_under_the_same_protocol_unless_told_otherwise(name: str) -> None:
    settings, usual = METHODS[name].Settings(), FederatedSettings()
    for key in ("protocol", "hidden", "dropout", "lr", "weight_decay", "normalize_features"):
        expected = OWN.get(name, {}).get(key, getattr(usual, key))
        assert getattr(settings, key) == expected
