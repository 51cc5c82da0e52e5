"""Finding 8: an active server has a client decrypt something else than the sum it contributed to.

Before ciphertexts were bound to their sums, each of these gave the server a vector, to 1e-9: a
vector that was for the clients only, sent under the name of a sum for the server; one client's
ciphertext in place of a sum; two clients asked for sums of one name with different contributors.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenseal.sealapi as sealapi

sys.path.insert(0, str(Path(__file__).parents[1] / "secure"))
from sum_network import SumNetwork, carry, draw

from autofgl.federation.payload import Payload
from autofgl.secure import SecureSumError, SumRefused, ckks
from autofgl.secure.ckks import FRACTION_BITS, cipher
from autofgl.secure.ckks.cipher import Adder

SIZE = 5000  # two ciphertexts


class CheatingServer:
    """Three clients' contributions to sums for either reader, and a hand on what they are asked."""

    def __init__(self, count: int = 3, **settings: Any) -> None:
        self.network = SumNetwork("ckks", count, **settings).ready()
        self.names = self.network.parties
        self.clients = self.network.clients
        self.hidden = draw(self.names, (SIZE,), seed=1)
        self.open = draw(self.names, (SIZE,), seed=2)
        self.for_parties = self.network.contribute("gradients", self.hidden, "parties")
        self.for_server = self.network.contribute("metrics", self.open)

    def add(self, *rows: list[bytes]) -> list[bytes]:
        return Adder(len(self.names)).add(rows, SIZE + 3)

    def confirmed(self, contributors: list[str], asked: list[str] | None = None) -> dict[str, Any]:
        """What the clients that are asked confirm of the sum for the server."""
        question = {**self.for_server[self.names[0]], "contributors": contributors}
        return self.network.ask("confirm", dict.fromkeys(asked or self.names, question))

    def decrypted(
        self, client: str, ciphertexts: list[bytes], contributors: list[str] | None = None
    ) -> Any:
        """What a client tells for ciphertexts that are said to be the sum for the server."""
        whose = contributors or self.names
        told = self.confirmed(whose)
        codes = {name: answer["confirmations"].get(client, b"") for name, answer in told.items()}
        message: Payload = {
            **self.for_server[client],
            "contributors": whose,
            "ciphertexts": ciphertexts,
            "confirmations": codes,
        }
        return (
            self.clients[client].handle("decrypt", carry(message))["integers"] * 2.0**-FRACTION_BITS
        )


def test_the_honest_sum_is_read() -> None:
    server = CheatingServer()
    rows = [server.for_server[name]["ciphertexts"] for name in server.names]
    total = sum(own["w"].astype(float) for own in server.open.values())
    error = np.abs(server.decrypted("p00", server.add(*rows)) - total).max()
    assert error <= ckks.error_bound(3)


@pytest.mark.parametrize("whose", ["one", "sum"])
def test_a_vector_for_the_clients_is_not_read_under_another_name(whose: str) -> None:
    server = CheatingServer()
    for client, victim in zip(server.names, server.names[1:] + server.names[:1], strict=True):
        chosen = [victim] if whose == "one" else server.names
        rows = [server.for_parties[name]["ciphertexts"] for name in chosen]
        with pytest.raises(SecureSumError, match="is not the sum of these contributors"):
            server.decrypted(client, server.add(*rows))


def test_a_single_vector_is_not_read_as_a_sum() -> None:
    """Nor is any other combination: twice, without, or one subtracted from the rest."""
    server = CheatingServer()
    rows = {name: sent["ciphertexts"] for name, sent in server.for_server.items()}
    for chosen in (["p01"], ["p01", "p02"], ["p00", "p01", "p01"], ["p01", "p01", "p01"]):
        with pytest.raises(SecureSumError, match="is not the sum"):
            server.decrypted("p00", server.add(*(rows[name] for name in chosen)))
        server.clients["p00"]._decrypted.clear()  # type: ignore[attr-defined]


def test_contributors_that_are_left_out_do_not_come_back_negated() -> None:
    """Telling a and b contributed, sending minus c: masks must not cancel around the circle."""
    server = CheatingServer(4, threshold=3)
    victim = [_negated(data) for data in server.for_server["p03"]["ciphertexts"]]
    with pytest.raises(SecureSumError, match="is not the sum"):
        server.decrypted("p00", victim, contributors=server.names[:3])


def _negated(data: bytes) -> bytes:
    with cipher._Scratch() as scratch:
        loaded = cipher._load(data, float(ckks.grid_step(4)), scratch)
        sealapi.Evaluator(cipher._context()).negate_inplace(loaded)
        loaded.save(scratch.path)
        return cipher._with_digest(scratch.read())


def test_one_ciphertext_of_another_sum_among_right_ones_is_noticed() -> None:
    server = CheatingServer()
    right = server.add(*(server.for_server[name]["ciphertexts"] for name in server.names))
    for place in range(2):
        mixed = list(right)
        mixed[place] = server.add(server.for_parties["p01"]["ciphertexts"])[place]
        with pytest.raises(SecureSumError, match="is not the sum"):
            server.decrypted("p00", mixed)
        server.clients["p00"]._decrypted.clear()  # type: ignore[attr-defined]


def test_what_is_refused_is_noise() -> None:
    """Even if a client told what it decrypted, there would be nothing to read in it."""
    server = CheatingServer()
    client: Any = server.clients["p00"]
    sent = server.for_parties["p01"]
    masks = client._masks(client._server_header(server.for_server["p00"]))
    sums = client._ready().decrypt(sent["ciphertexts"], SIZE + 3)
    left = masks._centered(sums.view(np.uint64))[:SIZE]
    spread = 2.0 ** ckks.mask_bits(3) / 12**0.5
    assert abs(left.std() / spread - 1) < 0.05
    assert abs(np.corrcoef(left, server.hidden["p01"]["w"])[0, 1]) < 0.06


def test_a_sum_for_the_server_cannot_be_relabeled() -> None:
    """Reader, session, names of arrays: all are part of the masks."""
    server = CheatingServer()
    rows = [server.for_parties[name]["ciphertexts"] for name in server.names]
    relabeled = {**server.for_parties["p00"], "reveal": "server", "contributors": server.names}
    message = {**relabeled, "ciphertexts": server.add(*rows), "confirmations": {}}
    for phase in ("confirm", "decrypt"):
        with pytest.raises(SumRefused, match="did not contribute to 'gradients' for the server"):
            server.clients["p00"].handle(phase, carry(message))
    sealed = {**server.for_parties["p00"], "contributors": server.names, "names": ["v"]}
    with pytest.raises(SecureSumError, match="is not the sum"):
        server.clients["p00"].open(carry({**sealed, "ciphertexts": server.add(*rows)}))


# Split views: the difference of two sums of one name would be somebody's vector.


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7, 9])
def test_two_clients_do_not_read_sums_of_different_contributors(count: int) -> None:
    """Any two sets of contributors, any way to tell the clients: at most one of them is read."""
    server = CheatingServer(count)
    everybody, fewer = server.names, server.names[:-1]
    half = count // 2
    told = {
        **server.confirmed(everybody, everybody[:half]),
        **(server.confirmed(fewer, everybody[half:]) if len(fewer) >= 2 * count // 3 + 1 else {}),
    }
    read = []
    for client, whose in itertools.product(server.names, (everybody, fewer)):
        rows = [server.for_server[name]["ciphertexts"] for name in whose]
        codes = {name: answer["confirmations"].get(client, b"") for name, answer in told.items()}
        message = {
            **server.for_server[client],
            "contributors": whose,
            "ciphertexts": server.add(*rows),
            "confirmations": codes,
        }
        try:
            server.clients[client].handle("decrypt", carry(message))
            read.append(tuple(whose))
        except SumRefused:
            pass
    assert len(set(read)) <= 1
    assert not read, "neither has enough confirmations: they are split in half"


def test_the_attack_on_split_views_gives_a_vector_where_nobody_confirms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the confirmations are for: without them the difference of two sums is a vector."""
    server = CheatingServer(4, threshold=3)
    rows = {name: sent["ciphertexts"] for name, sent in server.for_server.items()}
    read = {}
    for client, whose in (("p00", server.names), ("p01", server.names[:3])):
        own: Any = server.clients[client]
        monkeypatch.setattr(own, "_threshold", 1)
        message = {
            **server.for_server[client],
            "contributors": whose,
            "ciphertexts": server.add(*(rows[name] for name in whose)),
            "confirmations": {},
        }
        read[client] = own.handle("decrypt", carry(message))["integers"] * 2.0**-FRACTION_BITS
    assert np.abs(read["p00"] - read["p01"] - server.open["p03"]["w"]).max() < 1e-7


def test_a_client_confirms_one_view_of_a_sum_over_new_keys_and_restarts(tmp_path: Path) -> None:
    server = CheatingServer(4, folder=tmp_path, threshold=3)
    server.confirmed(server.names)
    again = SumNetwork("ckks", 4, folder=tmp_path, threshold=3).ready()
    sent = again.contribute("metrics", server.open)
    question = {**sent["p00"], "contributors": server.names[:3]}
    with pytest.raises(SumRefused, match="shown other contributors to 'metrics' before"):
        again.clients["p00"].handle("confirm", carry(question))
    with pytest.raises(SumRefused, match="for other values"):
        SumNetwork("ckks", 4, folder=tmp_path, threshold=3).ready().contribute(
            "metrics", server.hidden
        )
    total = sum(own["w"].astype(float) for own in server.open.values())
    read = again.server.total("metrics", sent, again.ask).vectors["w"]
    assert np.abs(read - total).max() <= ckks.error_bound(4), "the same sum can be made again"


def test_clients_open_one_sum_of_a_name() -> None:
    """A curious client that is sent two sums would learn their difference."""
    server = CheatingServer(4, threshold=3)
    rows = {name: sent["ciphertexts"] for name, sent in server.for_parties.items()}

    def sealed(whose: list[str]) -> Payload:
        summed = server.add(*(rows[name] for name in whose))
        return carry({**server.for_parties["p00"], "contributors": whose, "ciphertexts": summed})

    client = server.clients["p00"]
    client.open(sealed(server.names))
    with pytest.raises(SumRefused, match="shown other contributors"):
        client.open(sealed(server.names[:3]))
    with pytest.raises(SumRefused, match="a sum of 3 or more"):
        server.clients["p01"].open(sealed(server.names[:2]))


def test_a_colluding_client_reads_everything() -> None:
    """What ckks does not protect from, and docs/security.md says: use shares."""
    server = CheatingServer()
    colluder: Any = server.clients["p00"]
    header = colluder._sealed_header(server.for_parties["p01"])
    sums = colluder._ready().decrypt(server.for_parties["p01"]["ciphertexts"], SIZE + 3)
    vector = colluder._masks(header).unmask(sums, [1])[:SIZE] * 2.0**-ckks.FRACTION_BITS
    assert np.abs(vector - server.hidden["p01"]["w"]).max() < 1e-8
