"""Record the results of runs anew, after a change that is meant to change them.

From the checkout, `python tests/golden/renew.py` records all cases, and with names after it those
only; `--check` writes nothing. What differs from the stored records is printed first.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from golden_cases import CASES
from golden_digest import OURS, STORED, differences, fingerprint, record


def main(words: list[str]) -> None:
    if not OURS:
        sys.exit("this would run another checkout's autofgl: set PYTHONPATH to this one's src")
    torch.set_num_threads(1)
    empty: dict[str, Any] = {"arithmetic": "", "runs": {}}
    stored = json.loads(STORED.read_text()) if STORED.exists() else empty
    names = [word for word in words if word != "--check"]
    here = fingerprint()
    same = here == stored["arithmetic"]
    if names and not same and "--check" not in words:
        sys.exit("this machine computes otherwise than the one of the records: renew all cases")
    for name in names or CASES:
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found = record(name, Path(folder))
        told = differences(name, stored["runs"].get(name, {}), found, same)
        print(
            f"{name}: {time.process_time() - begin:.1f} s, {len(told) or 'no'} differences",
            flush=True,
        )
        print("".join(f"    {line}\n" for line in told), end="")
        stored["runs"][name] = found
    runs = {name: stored["runs"][name] for name in CASES if name in stored["runs"]}
    if "--check" not in words:
        STORED.write_text(json.dumps({"arithmetic": here, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
