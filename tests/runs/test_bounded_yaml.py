from pathlib import Path

import pytest

from autofgl.errors import UserError
from autofgl.runs.bounded_yaml import MAX_CHARACTERS, parse_yaml
from autofgl.runs.folder import read_config_file

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS, "[" * 50_000, "{a: " * 5_000, "- " * 5_000 + "x", "x: " + "9" * 5_000,
        "d: 2024-99-99", "x: !!python/object/apply:os.system [id]", "a: b: c", "\x00", "x: *nobody",
        "a" * (MAX_CHARACTERS + 1), "? [a]\n: b",
    ],
)  # fmt: skip
def test_what_would_explode_is_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^here is [^\n]*$"):
        parse_yaml(text, "here")
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"^[^\n]*config\.yaml is [^\n]*$"):
        read_config_file(path)


def test_a_configuration_is_read() -> None:
    assert parse_yaml("a: 1\nb: {c: [1, 2.5, x]}", "here") == {"a": 1, "b": {"c": [1, 2.5, "x"]}}
