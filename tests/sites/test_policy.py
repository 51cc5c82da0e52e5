"""What a site's owner does: the command that asks, and the file that it leaves."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autofgl.cli import main
from autofgl.sites.policy import TEMPLATE, Policy


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    (tmp_path / "kit.yaml").write_text(yaml.safe_dump({"site": "north", "sites": ["north"]}))
    (tmp_path / "policy.yaml").write_text(TEMPLATE)
    return tmp_path


def init(kit: Path, *words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["site", "init", "--kit", str(kit), *words])
    return int(end.value.code or 0)


def test_without_a_terminal_and_words_the_policy_stays_closed(
    kit: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert init(kit) == 0
    assert (kit / "policy.yaml").read_text() == TEMPLATE
    assert "nothing runs here" in capsys.readouterr().out


def test_options_say_what_is_allowed(kit: Path) -> None:
    words = ["--methods", "fedavg, sfgnn", "--secure", "shares,ckks", "--min-parties", "4"]
    assert init(kit, *words, "--allow", "collect_models", "--max-rounds", "500") == 0
    policy = Policy.read(kit / "policy.yaml")
    assert policy == Policy(
        methods=("fedavg", "sfgnn"),
        secure=("shares", "ckks"),
        min_parties=4,
        allow=("collect_models",),
        max_rounds=500,
    )


def test_mistakes_leave_the_file_alone(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, reason in (
        (["--methods", "fedavgg"], "'fedavgg' is unknown"),
        (["--methods", "fedavg", "--secure", "rot13"], "'rot13' is unknown"),
        (["--methods", "fedavg", "--min-parties", "0"], "min_parties=0"),
    ):
        assert init(kit, *words) == 2
        assert reason in capsys.readouterr().err
    assert (kit / "policy.yaml").read_text() == TEMPLATE
    assert init(kit / "elsewhere", "--methods", "fedavg") == 2
    assert "is no kit" in capsys.readouterr().err


def test_a_policy_that_is_there_stays(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(kit, "--methods", "fedavg") == 0
    assert init(kit, "--methods", "sfgnn") == 2
    assert "--replace" in capsys.readouterr().err
    assert Policy.read(kit / "policy.yaml").methods == ("fedavg",)
    assert init(kit, "--methods", "sfgnn", "--replace") == 0
    assert Policy.read(kit / "policy.yaml").methods == ("sfgnn",)


def test_in_a_terminal_the_owner_is_asked(kit: Path) -> None:
    ours, theirs = pty.openpty()
    program = [sys.executable, "-c", "from autofgl.cli import main; main()"]
    process = subprocess.Popen(
        [*program, "site", "init", "--kit", str(kit)], stdin=theirs, stdout=subprocess.PIPE
    )
    os.close(theirs)
    os.write(ours, b"fedavg\n\n5\nshare=all\n\n\n")
    said, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    for question in (b"Methods that may run", b"Secure modes", b"Fewest sites", b"Most rounds"):
        assert question in said
    policy = Policy.read(kit / "policy.yaml")
    assert policy == Policy(methods=("fedavg",), min_parties=5, allow=("share=all",))


PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_the_page_on_operations_has_every_rule_and_a_policy_that_works() -> None:
    text = PAGE.read_text("utf-8")
    section = text.partition("### What a site allows")[2].partition("\n### ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    assert [row[1].strip(" `") for row in rows] == list(Policy.model_fields)
    written = {row[1].strip(" `"): row[3].strip().replace(",", "") for row in rows}
    for key in ("min_parties", "max_rounds", "max_parameters", "max_classes"):
        assert written[key] == str(getattr(Policy(), key))
    example = section.partition("```yaml\n")[2].partition("```")[0]
    policy = Policy.of(yaml.safe_load(example))
    assert not policy.closed
    assert policy.secure == ("shares",)
