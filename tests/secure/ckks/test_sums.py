"""Sums under CKKS: what the parties decrypt, and for whom."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from sum_network import SumNetwork, carry, draw

from autofgl.federation.payload import Payload, encode
from autofgl.secure import SecureSumError, SumRefused, ckks, make_server


def test_revealed_sums_carry_no_noise() -> None:
    """Noisy decryptions would let the server solve for the key."""
    network = SumNetwork("ckks", 3).ready()
    sums = network.sum("t", draw(network.parties, (5000,)))
    steps = sums["w"] * 2.0**ckks.FRACTION_BITS
    assert np.array_equal(steps, np.rint(steps))


def test_when_the_decrypting_party_is_lost_the_next_one_decrypts() -> None:
    network = SumNetwork("ckks", 3).ready()
    network.lost_at = {"p00": "decrypt", "p01": "decrypt"}
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == ("p00", "p01", "p02")
    network.lost_at["p02"] = "decrypt"
    with pytest.raises(SecureSumError, match=r"needs contributions|no party decrypted"):
        network.sum("u", vectors)


@pytest.mark.parametrize("phase", ["keys", "roster", "group", "protect"])
def test_a_lost_party_is_left_out(phase: str) -> None:
    network = SumNetwork("ckks", 3, threshold=2)
    network.lost_at = {"p00": phase}
    network.ready()
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == ("p01", "p02")
    plain = vectors["p01"]["w"].astype(float) + vectors["p02"]["w"]
    assert np.abs(total.vectors["w"] - plain).max() <= ckks.error_bound(2)


class Request:
    """What the server would send for decryption."""

    def __init__(self, reveal: str = "server", **settings: Any) -> None:
        self.network = SumNetwork("ckks", 3, **settings).ready()
        self.client = self.network.clients["p00"]
        sent = self.network.contribute("t", draw(self.network.parties), reveal)  # type: ignore[arg-type]
        self.message: Payload = self.network.server._add("t", reveal, sent)[1]  # type: ignore[attr-defined]
        self.message["confirmations"] = {}
        if reveal == "server":
            told = self.network.ask("confirm", dict.fromkeys(self.network.parties, self.message))
            codes = {name: answer["confirmations"].get("p00", b"") for name, answer in told.items()}
            self.message["confirmations"] = codes

    def decrypt(self, **changed: object) -> Payload:
        return self.client.handle("decrypt", carry({**self.message, **changed}))


def test_a_party_decrypts_a_sum_once() -> None:
    request = Request()
    request.decrypt()
    with pytest.raises(SumRefused, match="read 't' before"):
        request.decrypt()


def test_a_party_decrypts_only_what_was_for_the_server() -> None:
    with pytest.raises(SumRefused, match="for the server to read"):
        Request("parties").decrypt()
    with pytest.raises(SumRefused, match="for the server to read"):
        Request().decrypt(tag="another")
    with pytest.raises(SumRefused, match="a sum of 3 or more"):
        Request().decrypt(contributors=["p00"])
    with pytest.raises(SecureSumError, match="other keys"):
        Request().decrypt(session=b"other")
    request = Request()
    with pytest.raises(SumRefused, match="for the server"):
        request.client.open(request.message)


def test_the_server_needs_keys_to_be_set_up() -> None:
    network = SumNetwork("ckks", 2).ready()
    sent = network.contribute("t", draw(network.parties))
    with pytest.raises(SecureSumError):
        make_server("ckks", parties=network.parties).total("t", sent, network.ask)


def test_a_decryption_of_another_size_is_refused() -> None:
    network = SumNetwork("ckks", 2).ready()
    sent = network.contribute("t", draw(network.parties))
    for nonsense in ({"integers": np.ones(3)}, {"integers": 3}, {}, {"confirmations": [1]}):
        with pytest.raises(SecureSumError, match="none of them decrypted it"):
            network.server.total("t", sent, lambda phase, messages: {"p00": nonsense})  # noqa: B023
        assert network.server.wrong == ("p00",)


def test_keys_do_not_show() -> None:
    network = SumNetwork("ckks", 2).ready()
    network.sum("t", draw(network.parties))
    key = network.clients["p00"]._ring.group_key("ckks", size=64)  # type: ignore[attr-defined]
    assert all(key not in encode(message) for message in network.server_view)


@pytest.mark.parametrize("count", [2, 3, 50])
def test_the_largest_values_are_exact_however_they_lie(count: int) -> None:
    """Masks spread every vector over all coefficients, one that is the same everywhere too."""
    network = SumNetwork("ckks", count).ready()
    steps = ckks.capacity(count) // count
    signs = np.random.default_rng(count).choice([-1, 1], 9000)
    for tag, values in {"same": np.ones(9000), "signs": signs}.items():
        value = values * steps * 2.0**-ckks.FRACTION_BITS
        assert np.array_equal(
            network.sum(tag, {key: {"w": value} for key in network.parties})["w"], count * value
        )


def test_a_party_decrypts_what_enough_parties_confirm() -> None:
    request = Request()
    for given in ({}, {"p01": bytes(16), "p02": request.message["confirmations"]["p02"]}):
        with pytest.raises(SumRefused, match="when 3 parties confirm"):
            request.decrypt(confirmations=given)
    request.decrypt()


def test_a_party_that_does_not_confirm_is_not_needed_above_the_threshold() -> None:
    network = SumNetwork("ckks", 4).ready()
    network.lost_at = {"p00": "confirm"}
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == tuple(network.parties), "its vector is in the sum"
    network.lost_at |= {"p01": "confirm"}
    with pytest.raises(SecureSumError, match="2 of 3 contributors confirmed it"):
        network.sum("u", vectors)


def test_zeros_count_as_nobody() -> None:
    network = SumNetwork("ckks", 3).ready()
    for reveal in ("server", "parties"):
        sent = {
            name: carry(
                client.protect(reveal, {"w": np.ones(4)}, reveal=reveal, active=name != "p01")
            )
            for name, client in network.clients.items()
        }
        if reveal == "server":
            with pytest.raises(SecureSumError, match="none of them decrypted"):
                network.server.total(reveal, sent, network.ask)
            assert "more than zeros, 'server' has 2" in network.refusals[0]
        else:
            sealed = network.server.seal(reveal, sent, network.ask)
            with pytest.raises(SumRefused, match="more than zeros, 'parties' has 2"):
                network.clients["p00"].open(carry(sealed))


def test_a_contribution_of_another_kind_is_left_out() -> None:
    network = SumNetwork("ckks", 4).ready()
    vectors = draw(network.parties)
    vectors["p02"] = {"other": np.ones(3)}
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == ("p00", "p01", "p03")
    assert total.wrong == ("p02",)


@pytest.mark.parametrize("idle", [(), ("p03",), ("p00",)])
@pytest.mark.parametrize("odd", ["", "p01", "p03", "p00"])
def test_parties_must_have_been_told_the_same_unless_they_contribute_zeros(
    idle: tuple[str, ...], odd: str
) -> None:
    network = SumNetwork("ckks", 4, threshold=3).ready()

    def sent(reveal: Any) -> dict[str, Payload]:
        return {
            name: carry(
                client.protect(
                    reveal,
                    {"w": np.ones(4)},
                    reveal=reveal,
                    active=name not in idle,
                    broadcast=b"lie" if name == odd else b"truth",
                )
            )
            for name, client in network.clients.items()
        }

    sealed = network.server.seal("parties", sent("parties"), network.ask)
    if not odd or odd in idle:
        assert network.server.total("server", sent("server"), network.ask).vectors["w"][0] == 4
        assert network.clients["p02"].open(carry(sealed))["w"][0] == 4
    else:
        with pytest.raises(SecureSumError, match="none of them decrypted"):
            network.server.total("server", sent("server"), network.ask)
        assert any("sent the parties different things" in why for why in network.refusals)
        with pytest.raises(SumRefused, match="sent the parties different things"):
            network.clients["p02"].open(carry(sealed))
