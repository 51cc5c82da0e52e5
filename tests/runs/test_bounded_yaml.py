"""YAML that would take gigabytes, the whole stack or minutes is refused in one line, at once."""

import time
from pathlib import Path

import pytest

from autofgl.config import parse_settings
from autofgl.errors import UserError
from autofgl.runs.files import MAX_CHARACTERS, parse_yaml
from autofgl.runs.folder import read_config_file
from autofgl.sites.policy import Policy

LAUGHS = "a0: &a0 [1, 1]\n" + "".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 30)
)
HOSTILE = {
    "a bomb of aliases": LAUGHS,
    "a loop": "a: &a [*a]",
    "merged aliases": "a: &a {b: 1}\nc:\n  <<: *a\n",
    "brackets": "[" * 100_000,
    "braces": "{" * 100_000,
    "dashes": "- " * 50_000,
    "questions": "? " * 50_000,
    "indents": "".join(f"{' ' * at}k:\n" for at in range(500)),
    "too long": "# " + "x" * MAX_CHARACTERS,
    "an endless number": "a: " + "9" * 100_000,
    "no date": "a: 2026-99-99",
    "a tag": "a: !!python/object/apply:os.system [true]",
    "a key twice": "secure: [shares]\nsecure: [none]\n",
    "a zero": "a: \x00",
    "not closed": "a: 'b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    for read in (read_config_file, Policy.read):
        begin = time.process_time()
        with pytest.raises(UserError, match=r"file\.yaml") as caught:
            read(path)
        assert time.process_time() - begin < 5
        assert "\n" not in str(caught.value)


def test_a_file_that_never_ends_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="zero"):
        read_config_file(Path("/dev/zero"))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_settings_are_just_text(text: str) -> None:
    assert parse_settings([f"keep={text}"]) == {"keep": text}


def test_ordinary_files_are_read() -> None:
    text = "method: fedavg\nsettings: {lr: 1e-3, layers: 2}\nlist:\n- [1, [2, [3]]]\n"
    values = parse_yaml(text, "here")
    assert values["list"] == [[1, [2, [3]]]]
    assert values["settings"]["layers"] == 2
