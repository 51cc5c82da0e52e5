"""A sum is exact or refused, and a server that cheats reads one sum of enough parties or none."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import hostile
from schedules import Outcome, Schedules

from autofgl.secure.shares import client, server
from autofgl.secure.shares.views import SumView


def first_violation(most: int, what: str = "") -> str:
    schedules = Schedules()
    found = (schedules.run(number).violation for number in range(most))
    return next((violation for violation in found if violation and what in violation), "")


def outcomes(first: int, count: int) -> list[Outcome]:
    schedules = Schedules()
    return [schedules.run(number) for number in range(first, first + count)]


def test_some_schedules() -> None:
    seen = outcomes(0, 400)
    assert [outcome.violation for outcome in seen if outcome.violation] == []
    for kind in ("network", "server"):
        for opened in (True, False):
            share = [(outcome.kind, outcome.opened) for outcome in seen].count((kind, opened))
            assert share >= 20, f"{kind}: {opened} happens too rarely to mean anything"


@pytest.mark.slow
def test_many_schedules() -> None:
    assert [outcome.violation for outcome in outcomes(10**6, 10_000) if outcome.violation] == []


def test_the_reader_would_see_what_split_views_give_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without confirmations, and masks put aside for any sum, the schedules read too much.

    Confirmations alone are not what keeps it from that: what is put aside opens in one story only.
    """
    monkeypatch.setattr(client, "confirmed_by", lambda view, ring, peers, codes: set(peers))
    assert "for two stories" in first_violation(500)
    monkeypatch.setattr(client, "cover_tag", lambda tag, lost: tag)
    monkeypatch.setattr(hostile, "cover_tag", lambda tag, lost: tag)
    monkeypatch.setattr(hostile, "ANY_COVER", True)
    assert first_violation(1500, "sum of too few")


def test_the_reader_would_see_what_two_views_of_one_client_give_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the lock on one view for ever the same schedules read what they must not."""
    monkeypatch.setattr(client.SharesClient, "_note_view", lambda self, view: None)
    assert first_violation(500)


def test_the_reader_would_see_a_sum_of_one_and_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "IDLE", client.ACTIVE)
    assert "a sum of too few" in first_violation(1000)


def test_the_schedules_would_see_a_wrong_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that leaves the masks with lost parties on."""
    monkeypatch.setattr(server.Opening, "_uncover", lambda self, name, secret, cover: [])
    monkeypatch.setattr(server, "zip", lambda *lists, **_: zip(*lists, strict=False), raising=False)
    assert first_violation(500) == "the sum is wrong"


def test_views_are_told_apart() -> None:
    views = [
        SumView("t", b"h", ("a", "b")),
        SumView("t", b"h", ("ab",)),
        SumView("t", b"g", ("a", "b")),
        SumView("t", b"h", ("a", "b", "c")),
    ]
    assert len({view.digest for view in views}) == len(views)
    assert hostile.SumView is SumView
