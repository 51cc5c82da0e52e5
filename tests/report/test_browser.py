"""Pages in a real browser: nothing on its console, no request to anywhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from run_folders import small_settings, write_run

import autofgl
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS
from autofgl.report.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or ""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BROWSER, reason="needs Chromium"),
]


def opened(page: Path, tmp_path: Path, width: int) -> tuple[str, str]:
    """The page's DOM after loading, and what the browser logged."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    flags += [f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}"]
    # Whatever the page asked of the network would go to a closed port and be logged.
    flags += ["--proxy-server=127.0.0.1:9", "--dump-dom"]
    done = subprocess.run(
        [BROWSER, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("method", METHODS)
def test_reports_in_a_browser(
    method: str, small_clients: list[ClientGraph], out: Path, tmp_path: Path
) -> None:
    autofgl.run(method, small_clients, out=out, **small_settings(method))
    report = out / "report.html"
    assert report.stat().st_size < 3_000_000
    for width in (1200, 390):
        dom, log = opened(report, tmp_path, width)
        assert "CONSOLE" not in log, log
        assert not re.findall(r"Refused|violates|ERR_", log), log
        assert "Who learns what" in dom


def test_the_browser_would_tell_of_a_request(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    page = write_report(run)
    hole = '<img src="http://127.0.0.1:9/x.png"></body>'
    page.write_text(page.read_text().replace("</body>", hole))
    _, log = opened(page, tmp_path, 1200)
    assert "Content Security Policy" in log
