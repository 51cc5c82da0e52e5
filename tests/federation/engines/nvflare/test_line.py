"""Messages between processes: their form, and what is refused."""

import pytest

from autofgl.errors import PayloadError
from autofgl.federation.engines.nvflare.line import pack_message, unpack_message


@pytest.mark.parametrize(
    "message", [b"", b"\0", b"\xff\xff\xff\xff", b"\4\0\0\0abcd", b"\0\0\0\0", "text"]
)
def test_damaged_frames_are_rejected(message: bytes) -> None:
    with pytest.raises(PayloadError):
        unpack_message(message)


def test_frames_round_trip() -> None:
    assert unpack_message(pack_message({"kind": "ok"}, b"body")) == ({"kind": "ok"}, b"body")
    assert unpack_message(pack_message({})) == ({}, b"")
