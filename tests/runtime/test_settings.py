"""Settings: protocols, old names, descriptions."""

from typing import Any

import pytest
from pydantic import ValidationError

from autofgl.methods.catalog import METHODS, settings_of
from autofgl.runtime.federated_settings import FederatedSettings


def test_the_plain_protocol_regularizes_nothing() -> None:
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
    "sfgnn": {"normalize_features": True},
    "asfgnn": {"normalize_features": True},
    "graphfl": {"normalize_features": False},
    "graphfl-ga": {"normalize_features": False, "lr": 3.0, "dropout": 0.0},
}


@pytest.mark.parametrize("name", METHODS)
def test_all_methods_train_under_the_same_protocol_unless_they_say_why(name: str) -> None:
    settings, usual = settings_of(name)(), FederatedSettings()
    for key in ("protocol", "hidden", "dropout", "lr", "weight_decay", "normalize_features"):
        expected = OWN.get(name, {}).get(key, getattr(usual, key))
        assert getattr(settings, key) == expected


@pytest.mark.parametrize(
    ("name", "old", "present"),
    [
        *((name, {"protocol": "regularised"}, {"protocol": "regularized"}) for name in METHODS),
        ("fl-agcns", {"optimisers": "clients"}, {"optimizers": "clients"}),
        ("graphfl", {"optimiser": "sgd"}, {"optimizer": "sgd"}),
        ("graphfl-ga", {"optimiser": "adam"}, {"optimizer": "adam"}),
        ("graphfl-ga", {"optimisers": "adam,sgd"}, {"optimizers": "adam,sgd"}),
    ],
)
def test_old_names_and_values_are_understood(
    name: str, old: dict[str, Any], present: dict[str, Any]
) -> None:
    kind = settings_of(name)
    assert kind(**old) == kind(**present)
    assert kind(**old).model_dump().items() >= present.items()


def test_an_old_name_is_no_name_where_it_never_was_one() -> None:
    with pytest.raises(ValidationError, match="optimiser"):
        FederatedSettings(optimiser="adam")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", METHODS)
def test_the_text_below_a_setting_is_its_description(name: str) -> None:
    for key, field in settings_of(name).model_fields.items():
        assert field.description, key
        lines = field.description.splitlines()
        assert len(set(lines)) == len(lines), f"{key} says something twice"
        assert not any(line.endswith("-") for line in lines), f"a word of {key} is cut in two"
    own = {
        "fedgraph": ("layers", "number K of graph convolutions"),
        "graphfl": ("lr", "rate of the outer step"),
        "graphfl-ga": ("lr", "rate of the outer step at first, of gradient descent's size"),
    }
    key, text = own.get(name, ("lr", "learning rate of Adam"))
    assert settings_of(name).model_fields[key].description == text


@pytest.mark.parametrize("name", METHODS)
def test_no_settings_are_more_than_three_classes_deep(name: str) -> None:
    def depth(kind: type) -> int:
        ours = [base for base in kind.__bases__ if base.__module__.startswith("autofgl.")]
        return 1 + max(map(depth, ours), default=0)

    assert depth(settings_of(name)) <= 3
