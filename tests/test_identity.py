"""Who a party is: a secret that a group shares, and the file that it is in."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.errors import UserError
from autofgl.identity import (
    CombinedIdentity,
    GroupSecret,
    join_parts,
    read_secret,
    split_parts,
)

SECRET = b"sixteen bytes and more"


def test_members_know_each_other_and_nobody_else() -> None:
    north, south = GroupSecret("north", SECRET), GroupSecret("south", SECRET)
    signed = south.sign(b"data")
    assert north.verify("south", b"data", signed)
    assert not north.verify("north", b"data", signed)
    assert not north.verify("south", b"other", signed)
    assert not north.verify("south", b"data", b"")
    stranger = GroupSecret("south", SECRET[::-1])
    assert not north.verify("south", b"data", stranger.sign(b"data"))


def test_names_and_data_are_told_apart() -> None:
    """A signature is for one name and one text, wherever the one ends and the other begins."""
    assert GroupSecret("ab", SECRET).sign(b"c") != GroupSecret("a", SECRET).sign(b"bc")


def test_all_of_several_identities_must_have_signed() -> None:
    first, second = GroupSecret("a", SECRET), GroupSecret("a", SECRET[::-1])
    both = CombinedIdentity((first, second))
    assert both.verify("a", b"data", both.sign(b"data"))
    for one in (first, second):
        signed = one.sign(b"data")
        assert not both.verify("a", b"data", signed)
        assert not both.verify("a", b"data", join_parts(signed, signed))
        assert not both.verify("a", b"data", join_parts(signed))
        assert not one.verify("a", b"data", both.sign(b"data"))


def test_secrets_do_not_show() -> None:
    own = GroupSecret("a", SECRET)
    assert "sixteen" not in repr(own) + str(own) + repr(CombinedIdentity((own,)))


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(UserError, match="needs 16 bytes or more, this one has 3: make one with"):
        GroupSecret("a", b"abc")


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_parts_come_back(parts: list[bytes]) -> None:
    assert split_parts(join_parts(*parts), len(parts)) == parts
    for wrong in (len(parts) + 1, len(parts) - 1):
        if wrong >= 0:
            with pytest.raises(ValueError, match="part"):
                split_parts(join_parts(*parts), wrong)


@given(st.binary(max_size=30), st.integers(0, 4))
def test_anything_splits_or_is_refused(data: bytes, count: int) -> None:
    with contextlib.suppress(ValueError):
        assert join_parts(*split_parts(data, count)) == data


def write(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_secret_is_read_without_its_last_line_end(tmp_path: Path) -> None:
    for end in (b"", b"\n", b"\r\n"):
        assert read_secret(write(tmp_path / "secret", SECRET + end)) == SECRET


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o666, 0o601])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "secret", SECRET, mode)
    with pytest.raises(UserError, match="other users may read this secret: chmod 600 ") as caught:
        read_secret(path)
    assert "sixteen" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"short", b"\n" * 40, bytes(1 << 17)])
def test_what_is_no_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UserError, match="a secret has 16 to 65536 bytes, this one"):
        read_secret(write(tmp_path / "secret", content))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(UserError, match=f"{path}: the secret cannot be read: "):
            read_secret(path)
