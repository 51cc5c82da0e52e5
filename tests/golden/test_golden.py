"""Short runs of every method give what they gave when they were recorded.

`digests.json` holds figures and digests of weights, histories (without times), results, traffic and
settings of the runs in `golden_cases.py`. Only the command line and the files of a run folder are
used, so that everything behind them may be rebuilt and this shows that nothing was lost.

Processors differ in the last bits of a product. With the records is a fingerprint of the arithmetic
of the machine that made them: where it is the same, everything must be equal, to the bit; elsewhere
accuracies may differ by 0.05, traffic and norms of the weights by 1 %. Byte counts of encrypted
sums vary by themselves, and are held to 1 % everywhere.

A change that is meant to change results renews them: `python tests/golden/renew.py [CASE …]`.
"""

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from golden_cases import CASES, KEYS_ANEW, RESUMED, SLOW
from golden_digest import OURS, STORED, differences, fingerprint, record

pytestmark = pytest.mark.cores

RECORDS = json.loads(STORED.read_text())
EXACT = fingerprint() == RECORDS["arithmetic"]
SLOWLY = pytest.mark.slow


def check(name: str, folder: Path, stop_after: int = 0) -> None:
    told = differences(name, RECORDS["runs"][name], record(name, folder, stop_after), EXACT)
    if stop_after and name.startswith(KEYS_ANEW):
        told = [line for line in told if not re.search("bytes|traffic", line)]
    how = "to the bit" if EXACT else "roughly: this machine computes otherwise"
    assert not told, "\n".join([f"{name}, compared {how}:", *told])


def test_the_package_is_that_of_this_checkout() -> None:
    assert OURS, "set PYTHONPATH to this checkout's src"


def test_this_machine_computes_as_the_one_of_the_records() -> None:
    if not EXACT:
        pytest.skip("it does not: results are compared with tolerances")


def test_there_is_a_record_of_every_case() -> None:
    assert list(RECORDS["runs"]) == list(CASES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOWLY if name in SLOW else ()) for name in CASES]
)
def test_a_run_gives_what_it_gave(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "rounds"),
    [pytest.param(*case, marks=() if case[0] == "fedavg/none" else SLOWLY) for case in RESUMED],
)
def test_a_run_that_was_stopped_gives_it_too(name: str, rounds: int, tmp_path: Path) -> None:
    check(name, tmp_path, rounds)
