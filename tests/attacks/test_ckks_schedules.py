"""Whatever an active server asks, and in whatever order: of a sum it reads one exact sum, or none.

The server tells every client a view of its own, relays confirmations as it likes, and sends any
combination of ciphertexts for decryption, of this sum and of one that is not for it.
"""

import itertools
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "secure"))
from sum_network import SumNetwork, carry, draw

from autofgl.secure import SecureSumError
from autofgl.secure.ckks import FRACTION_BITS
from autofgl.secure.ckks.cipher import Adder

#: Schedules; AUTOFGL_SCHEDULES asks for more.
SCHEDULES = int(os.environ.get("AUTOFGL_SCHEDULES", "40"))
COUNT, SIZE = 4, 5
NAMES = [f"p{index:02}" for index in range(COUNT)]

#: Often one of two that can both be confirmed, so that they compete.
views = st.one_of(st.just(NAMES), st.just(NAMES[:3]), st.sets(st.sampled_from(NAMES)).map(sorted))
#: A client, whose sum it is told this is, and how often each ciphertext is in it: those of the sum,
#: then those of the other one.
questions = st.tuples(
    st.sampled_from(NAMES),
    views,
    st.lists(st.integers(0, 2), min_size=2 * COUNT, max_size=2 * COUNT),
    st.booleans(),
)


@pytest.fixture(scope="module")
def network() -> SumNetwork:
    return SumNetwork("ckks", COUNT, threshold=3).ready()


tags = itertools.count()


@settings(max_examples=SCHEDULES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    confirmed=st.lists(st.tuples(st.sampled_from(NAMES), views), min_size=3, max_size=9),
    asked=st.lists(questions, min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_the_server_reads_one_exact_sum_or_none(
    network: SumNetwork, confirmed: list[Any], asked: list[Any], seed: int
) -> None:
    tag, vectors = f"t{next(tags)}", draw(NAMES, (SIZE,), seed)
    own = network.contribute(tag, vectors)
    other = network.contribute(f"{tag} for parties", draw(NAMES, (SIZE,), seed + 1), "parties")
    rows = [sent["ciphertexts"] for sent in (*own.values(), *other.values())]
    codes: dict[str, dict[str, bytes]] = {}
    for client, view in confirmed:
        question = {**own[client], "contributors": view}
        for answer in network.ask("confirm", {client: question}).values():
            codes[client] = answer["confirmations"]
    read = []
    for client, view, counts, honest in asked:
        if honest:  # what could succeed: the right ciphertexts
            counts = [int(name in view) for name in NAMES] + [0] * COUNT
        chosen = [row for row, count in zip(rows, counts, strict=True) for _ in range(count)]
        if not chosen:
            continue
        message = {
            **own[client],
            "contributors": view,
            "ciphertexts": Adder(COUNT).add(chosen, SIZE + 3),
            "confirmations": {name: sent.get(client, b"") for name, sent in codes.items()},
        }
        try:
            sums = network.clients[client].handle("decrypt", carry(message))["integers"]
        except SecureSumError:
            continue
        exact = sum(vectors[name]["w"].astype(float) for name in view)
        assert np.abs(sums * 2.0**-FRACTION_BITS - exact).max() < 1e-7, "a sum is exact or refused"
        assert len(view) >= 3
        read.append(tuple(view))
    event(f"{len(set(read))} sums read")
    assert len(set(read)) <= 1, "and there is one of a name"
