"""A sample of :mod:`hostile_replies`; the whole of it runs by hand."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from hostile_replies import fuzz


def test_a_sample_of_hostile_replies() -> None:
    """No traceback, no impossible figure, no broken checkpoint."""
    ends, replies = fuzz(24)
    assert sum(replies.values()) >= 24
    assert any("finished" in end for end in ends)
