"""What is built can be installed anywhere, beside other things, and works there."""

import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, str]:
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in lines)
    return {name.lower().replace("_", "-"): version for name, version in
            (line.split("==") for line in lines)}  # fmt: skip


def requirements() -> list[Requirement]:
    extras = project()["optional-dependencies"].values()
    texts = [*project()["dependencies"], *(text for extra in extras for text in extra)]
    return [one for one in map(Requirement, texts) if one.name != "autofgl"]


@pytest.mark.parametrize("wanted", requirements(), ids=lambda wanted: wanted.name)
def test_ci_has_an_exact_version_in_the_range_of_each_dependency(wanted: Requirement) -> None:
    version = pins()[wanted.name.lower().replace("_", "-")]
    assert wanted.specifier.contains(version)


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d{2}-\d{2}\)$", text, re.M)
    assert versions == [project()["version"], "0.1.0"]


def test_the_package_asks_for_a_range_of_torch() -> None:
    torch = next(one for one in requirements() if one.name == "torch")
    assert all(torch.specifier.contains(version) for version in ("2.6.0", "2.13.0", "2.15.0"))
    assert not torch.specifier.contains("2.5.1")  # reads hostile .pt files


def test_all_is_all_extras_for_users() -> None:
    extras = project()["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == set(extras) - {"all", "docs", "dev", "mlflow"}


def test_make_hands_the_versions_to_every_pip() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "CONSTRAINTS ?= constraints.txt" in makefile
    assert "export PIP_CONSTRAINT := $(abspath $(CONSTRAINTS))" in makefile
    assert "$(INSTALLED): pyproject.toml constraints.txt" in makefile


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Below 0.3 s of CPU, Python's own start included; the modules say why."""
    code = """
import resource, sys, autofgl
heavy = {"torch", "numpy", "scipy", "pydantic", "typer", "rich"} & set(sys.modules)
used = resource.getrusage(resource.RUSAGE_SELF)
print(*heavy, used.ru_utime + used.ru_stime)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    (seconds,) = done.stdout.split()
    assert float(seconds) < 0.3


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]
    run(command, cwd=out, timeout=240)
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, without extras, and nothing else."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(folder, with_pip=True)
    (wheel,) = built.glob("*.whl")
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]
    run([*pip, str(wheel)], cwd=folder, timeout=1500)  # minutes, most of them for torch
    return folder / "bin"


def run(command: list[str], cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """A command that knows nothing of this checkout but the versions."""
    mine = {"PYTHONPATH", "VIRTUAL_ENV", "PIP_CONSTRAINT"}
    environment = {key: value for key, value in os.environ.items() if key not in mine}
    environment["PIP_CONSTRAINT"] = str(CONSTRAINTS)
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def files_of_the_package() -> set[str]:
    package = ROOT / "src"
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(package).as_posix() for path in files}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_wheel_and_sdist_have_every_file_of_the_package(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == files_of_the_package()
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in names} <= inside
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "constraints.txt"} <= inside


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_index_would_take_what_is_built(built: Path) -> None:
    files = sorted(map(str, built.iterdir()))
    run([sys.executable, "-m", "twine", "check", "--strict", *files], built, 120)
    run([str(Path(sys.executable).with_name("check-wheel-contents")), *files[:1]], built, 120)
    assert files[0].endswith(".whl")
    assert Path(files[0]).name.split("-")[1] == project()["version"]


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_with_all_extras_the_demo_runs_without_a_network(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine gives nobody a network of one's own")
    venv.create(tmp_path / "venv", with_pip=True)
    (wheel,) = built.glob("*.whl")
    python, begin = str(tmp_path / "venv" / "bin" / "python"), time.monotonic()
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]
    run([*pip, f"{wheel}[all]"], tmp_path, 1500)
    seconds = time.monotonic() - begin
    run([python, "-m", "pip", "check"], tmp_path, 120)
    size = sum(path.lstat().st_size for path in (tmp_path / "venv").rglob("*"))
    with capsys.disabled():
        print(f"\nautofgl[all]: {size / 1e6:.0f} MB, installed in {seconds:.0f} s")
    demo = re.search(r"^DEMO := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert demo
    words = [*demo[1].replace("100s", "30s").split(), "--out", "demo"]
    run([*alone, str(tmp_path / "venv" / "bin" / "autofgl"), "auto", *words], tmp_path, 400)
    assert (tmp_path / "demo" / "certificate.json").is_file()
    assert (tmp_path / "demo" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_the_wheel_works_in_an_empty_environment(installed: Path, tmp_path: Path) -> None:
    code = "import autofgl; print(autofgl.__file__, autofgl.__version__)"
    place = run([str(installed / "python"), "-c", code], tmp_path, 300).stdout
    assert place.startswith(str(installed.parent))
    command = [
        str(installed / "autofgl"),
        "run",
        "fedavg",
        "--dataset",
        "cora",
        "--set",
        "rounds=3",
    ]
    run([*command, "--out", "run"], tmp_path, 600)
    assert (tmp_path / "run" / "result.json").is_file()
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_what_needs_an_extra_says_so(installed: Path, tmp_path: Path) -> None:
    code = "import importlib.util as u; print(u.find_spec('nvflare'), u.find_spec('tensorboard'))"
    found = run([str(installed / "python"), "-c", code], tmp_path, 300).stdout
    assert found.split() == ["None", "None"]
    command = [str(installed / "autofgl"), "run", "fedavg", "--engine", "nvflare", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert "autofgl[nvflare]" in done.stderr
