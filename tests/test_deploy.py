"""The files for containers say what the command line understands."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from autofgl.cli import app
from autofgl.sites.provisioning import Project
from autofgl.version import __version__

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
#: Keys of a service, as the Compose specification has them.
KEYS = {
    "build", "command", "depends_on", "healthcheck", "image", "ports", "read_only", "restart",
    "tmpfs", "volumes",
}  # fmt: skip


def understood(words: list[str]) -> None:
    """Fail unless the command line takes these words."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("autofgl", list(words))


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_runs_a_command_that_there_is(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service.keys() <= KEYS
    assert service["image"] == "autofgl"
    understood(service["command"])
    check = service["healthcheck"]
    assert check.keys() == {"test", "interval", "timeout", "start_period", "retries"}
    kind, program, *words = check["test"]
    assert kind == "CMD"
    if program == "autofgl":
        understood(words)
    else:
        compile(words[-1], "healthcheck", "exec")
    targets = [volume.split(":")[1] for volume in service["volumes"]]
    paths = [word for word in service["command"] if word.startswith("/")]
    assert all(any(path.startswith(target) for target in targets) for path in paths)
    for volume in service["volumes"]:
        assert volume.startswith("./")


def test_the_services_are_the_machines_of_the_kits() -> None:
    project = Project.model_validate(yaml.safe_load((DEPLOY / "sites.yaml").read_text()))
    assert [project.server, *project.sites] == list(COMPOSE["services"])
    assert COMPOSE["services"]["server"]["ports"] == [f"{project.port}:{project.port}"]
    for site in project.sites:
        kit, graph = COMPOSE["services"][site]["volumes"]
        assert kit == f"./kits/sites/{site}:/kit"
        assert graph.endswith(":ro")


def test_the_image_has_no_root_and_no_keys() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in words} <= known
    order = [word for word, _ in words]
    assert order.index("USER") < order.index("ENTRYPOINT")
    copied = [rest.split()[:-1] for word, rest in words if word == "COPY" and "--from" not in rest]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {name for names in copied for name in names} == {line[1:] for line in ignored[1:]}
    for name in ignored[1:]:
        assert (ROOT / name[1:]).exists()


def test_the_commands_of_the_page_are_understood() -> None:
    blocks = re.findall(r"```bash\n(.*?)```", (DEPLOY / "README.md").read_text(), flags=re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    ours = [line[line.index("autofgl") + 1 :] for line in lines if "autofgl" in line]
    assert len(ours) == 4
    for words in ours:
        understood(words)


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["cff-version"] == "1.2.0"
    assert {"title", "authors", "message", "license"} <= citation.keys()


VALUES = {name: DEPLOY / "kubernetes" / f"{name}.yaml" for name in ("site", "server")}


@pytest.mark.parametrize("name", VALUES)
def test_a_pod_runs_a_command_that_there_is(name: str) -> None:
    values = yaml.safe_load(VALUES[name].read_text())
    shell, option, script = values["command"]
    assert (shell, option) == ("sh", "-c")
    assert len(values["args"]) == 1, "the shell's own name; a word behind it is dropped"
    assert script.startswith("exec autofgl ")
    understood(shlex.split(script)[2:])


@pytest.mark.slow
def test_nvflare_makes_charts_with_these_values_from_our_kits(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    from autofgl.sites.provisioning import provision_kits

    kits = provision_kits(DEPLOY / "sites.yaml", tmp_path / "kits")
    program = Path(sys.executable).with_name("nvflare")
    for name, kit in (("site", kits.sites["north"]), ("server", kits.server)):
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(kit, copy)
        local = copy / "local"
        shutil.copy(local / "resources.json", local / "resources.json.default")
        out = tmp_path / f"prepared-{name}"
        config = DEPLOY / "kubernetes" / "runtime.yaml"
        command = [program, "deploy", "prepare", copy, "--config", config, "--output", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        chart = yaml.safe_load((out / "helm_chart" / "values.yaml").read_text())
        ours = yaml.safe_load(VALUES[name].read_text())
        assert ours.keys() <= chart.keys()
        for key in ("rbac", "serviceAccount"):
            assert ours[key].keys() <= chart[key].keys()
        workspace = chart["persistence"]["workspace"]
        assert (workspace["claimName"], workspace["mountPath"]) == ("autofgl-kit", "/kit")
        (deployment,) = (out / "helm_chart" / "templates").glob("*deployment.yaml")
        assert "toYaml .Values.command" in deployment.read_text()
