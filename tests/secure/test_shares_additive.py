"""Additive sharing needs every party, and gives nothing away before all have answered."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork, carry, draw

from autofgl.federation.payload import Payload, encode
from autofgl.secure import SecureSumError, SumRefused


@pytest.mark.parametrize("phase", ["protect", "add"])
def test_a_lost_party_loses_the_sum(phase: str) -> None:
    network = SumNetwork("shares-additive", 3).ready()
    network.lost_at = {"p01": phase}
    with pytest.raises(SecureSumError, match=r"is lost with p01|needs contributions of 3"):
        network.sum("t", draw(network.parties))


@pytest.mark.parametrize("phase", ["keys", "roster", "lead", "group"])
def test_keys_need_every_party(phase: str) -> None:
    network = SumNetwork("shares-additive", 3)
    network.lost_at = {"p00": phase}
    with pytest.raises(SecureSumError, match="needs 3 parties"):
        network.ready()


def test_contributions_are_small_and_vectors_travel_once() -> None:
    network = SumNetwork("shares-additive", 3).ready()
    vectors = draw(network.parties, (10_000,))
    contributions = network.contribute("t", vectors)
    assert all(len(encode(sent)) < 1000 for sent in contributions.values())
    before = len(network.server_view)
    network.server.total("t", contributions, network.ask)
    assert sum(len(encode(seen)) for seen in network.server_view[before:]) < 3 * 81_000


def messages_for(network: SumNetwork, tag: str) -> dict[str, Payload]:
    sent = network.contribute(tag, draw(network.parties))
    return {
        name: {"tag": tag, "boxes": {p: s["shares"][name] for p, s in sent.items() if p != name}}
        for name in network.parties
    }


def test_bad_requests_are_refused() -> None:
    network = SumNetwork("shares-additive", 3).ready()
    old, new = messages_for(network, "old")["p00"], messages_for(network, "new")["p00"]
    client = network.clients["p00"]
    one_less = {**new, "boxes": {"p01": new["boxes"]["p01"]}}
    with pytest.raises(SumRefused, match="of all parties only"):
        client.handle("add", one_less)
    replayed = {**new, "boxes": {**new["boxes"], "p02": old["boxes"]["p02"]}}
    with pytest.raises(SecureSumError, match="refuses a message of 'p02'"):
        client.handle("add", carry(replayed))
    tampered = {**new, "boxes": {**new["boxes"], "p01": bytes(60)}}
    with pytest.raises(SecureSumError, match="refuses a message of 'p01'"):
        client.handle("add", carry(tampered))
    assert client.handle("add", carry(new))["words"].size == 40
    with pytest.raises(SumRefused, match="gave it before"):
        client.handle("add", carry(new))


def test_abandoned_sums_do_not_fill_the_memory() -> None:
    network = SumNetwork("shares-additive", 2).ready()
    first = messages_for(network, "first")["p00"]
    for step in range(8):
        network.contribute(f"abandoned-{step}", draw(network.parties))
    with pytest.raises(SumRefused, match="has no share of 'first'"):
        network.clients["p00"].handle("add", first)


def test_sealed_sums_of_other_keys_are_refused() -> None:
    network = SumNetwork("shares-additive", 2).ready()
    sent = network.contribute("t", draw(network.parties), "parties")
    sealed = network.server.seal("t", sent, network.ask)
    assert np.isfinite(network.clients["p00"].open(sealed)["w"]).all()
    with pytest.raises(SecureSumError, match="other keys"):
        network.clients["p00"].open({**sealed, "session": b""})
    network.contribute("u", draw(network.parties))
    with pytest.raises(SumRefused, match="for the server"):
        network.clients["p00"].open({**sealed, "tag": "u"})
