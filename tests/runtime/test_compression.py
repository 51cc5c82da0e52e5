"""Updates in few bytes: what a client sends, what it keeps, and that all of them agree."""

from typing import Any

import numpy as np
import pytest

from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings
from autofgl.runtime.bounds import (
    plausible_gradient,
    raised_vote,
    scale_vote,
    share_form,
    sum_fault,
)
from autofgl.runtime.compression import HEADROOM, UpdateCoder
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.summing import weighted
from autofgl.secure import StepGrid, SumNotOpened, make_client
from federations import make, parties, rounds

PARTIES = ["a", "b", "c"]
SIZE = 400


def coder(compress: str, name: str = "a") -> UpdateCoder:
    return UpdateCoder(make_client("none", name=name, parties=PARTIES), compress, True, 0, name)


def update(seed: int = 0, scale: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "w": (scale * rng.normal(size=SIZE)).astype(np.float32),
        "bias": rng.normal(size=7).astype(np.float32),
        "share": np.array(0.5, np.float32),
    }


def test_nothing_is_rounded_before_a_sum_was_seen_nor_if_it_is_short() -> None:
    one = coder("int8")
    sent, grid = one.encode("t", update())
    assert grid is None
    assert all(np.array_equal(sent[name], value) for name, value in update().items())
    one.observe(update())
    sent, grid = one.encode("u", update(1))
    assert grid is not None
    assert grid.steps.keys() == {"w"}
    assert np.array_equal(sent["bias"], update(1)["bias"])


@pytest.mark.parametrize("compress", ["none", "half", "int8"])
def test_values_are_multiples_within_the_grid(compress: str) -> None:
    one = coder(compress)
    one.observe(update())
    sent, grid = one.encode("t", update(1, scale=1000.0))  # far beyond what the grid covers
    assert grid is not None
    multiples = sent["w"] / grid.steps["w"]
    assert np.allclose(multiples, np.rint(multiples), atol=1e-6)
    largest = float(np.abs(update()["w"]).max())
    assert np.abs(sent["w"]).max() == pytest.approx(HEADROOM[compress] * largest)


def test_full_precision_is_as_good_as_float32() -> None:
    one = coder("none")
    one.observe(update())
    sent, _ = one.encode("t", update(1))
    assert np.abs(sent["w"] - update(1)["w"]).max() < 1e-5


@pytest.mark.parametrize("compress", ["half", "int8"])
def test_what_is_rounded_or_cut_off_is_sent_later(compress: str) -> None:
    one = coder(compress)
    one.observe(update())
    values = [update(seed, scale=3.0 if seed == 2 else 1.0) for seed in range(1, 30)]
    sent = [one.encode(f"t{at}", value)[0]["w"] for at, value in enumerate(values)]
    meant = np.sum([value["w"] for value in values], axis=0, dtype=np.float64)
    left = one.state()["left"]["w"]
    assert np.allclose(np.sum(sent, axis=0) + left, meant, atol=1e-4)
    step = HEADROOM[compress] * float(np.abs(update()["w"]).max()) / 20
    assert np.abs(left).max() < 3 * step


def test_rounding_is_right_on_average_and_repeatable() -> None:
    value = {"w": np.full(4000, 0.0123), "share": np.array(0.0)}  # idle: nothing is kept
    found = []
    for _ in range(2):
        one = coder("int8")
        one.observe({"w": np.ones(4000)})
        found.append(one.encode("t", value)[0]["w"])
    assert np.array_equal(*found)
    assert found[0].mean() == pytest.approx(0.0123, rel=0.2)
    assert "w" not in one.state()["left"]
    other = coder("int8", "b")
    other.observe({"w": np.ones(4000)})
    assert not np.array_equal(other.encode("t", value)[0]["w"], found[0])


def test_a_client_that_joins_takes_the_steps_and_no_remainder() -> None:
    one, late = coder("int8"), coder("int8", "b")
    one.observe(update())
    one.encode("t", update(1))
    late.load_state(one.common_state())
    assert late.encode("u", update(2))[1] == one.encode("u", update(2))[1]


def test_vectors_of_zeros_stay_at_full_precision() -> None:
    one = coder("int8")
    one.observe({"w": np.zeros(SIZE)})
    assert one.encode("t", update())[1] is None


def weights(method: Any) -> dict[str, Any]:
    found: dict[str, Any] = method.finish().models["model"]
    return found


@pytest.mark.parametrize(("compress", "share"), [("half", 0.65), ("int8", 0.4)])
def test_a_run_learns_with_fewer_bytes(
    small_clients: list[ClientGraph], compress: str, share: float
) -> None:
    plain = make("fedavg", small_clients, rounds=25, lr=0.05)
    few = make("fedavg", small_clients, rounds=25, lr=0.05, compress=compress)
    rounds(plain, 25)
    rounds(few, 25)
    for way in ("up", "down"):
        sent = [method.federation.meter.total(way) for method in (plain, few)]
        assert sent[1] < share * sent[0]
    assert few.finish().val_accuracy >= plain.finish().val_accuracy - 0.05


def test_masked_sums_of_both_kinds_are_the_same_to_the_bit(
    small_clients: list[ClientGraph],
) -> None:
    found = []
    for secure in ("shares", "shares-additive"):
        method = make("fedavg", small_clients, secure=secure, rounds=5, compress="int8")
        rounds(method, 5)
        found.append(weights(method))
    assert all(np.array_equal(found[0][name], value) for name, value in found[1].items())


def test_clients_with_other_steps_open_nothing(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, secure="shares", rounds=5)
    rounds(method, 2)
    coder = parties(method)["client-1"].coder
    coder.observe(dict.fromkeys(coder.state()["largest"], np.full(SIZE, 99.0)))
    with pytest.raises(SumNotOpened, match="the server sent the parties different things"):
        method.step()


def test_searches_compress_unless_noise_or_weights_travel() -> None:
    assert FederatedSettings().compression == "none"
    assert FLAGCNSSettings().compression == "int8"
    assert FLAGCNSSettings(compress="none").compression == "none"
    assert FLAGCNSSettings(aggregate="parameters").compression == "none"
    assert FLAGCNSSettings(dp_epsilon=8.0, optimizers="controller").compression == "none"


def test_other_aggregates_have_no_use_for_it() -> None:
    with pytest.raises(UserError, match="compress=int8 is for aggregate=gradients"):
        FederatedSettings(aggregate="parameters", compress="int8")


def test_a_vote_is_on_what_is_sent() -> None:
    """Many tiny entries on a coarse grid are longer than they were, and so is an honest sum."""
    tiny = {"w": np.full(200_000, 2.5e-5, np.float32)}
    total: dict[str, dict[str, Any]] = {}
    for name in PARTIES:
        one = coder("int8", name)
        one.observe({"w": np.full(SIZE, 0.1, np.float32)})  # gradients were larger before
        given = weighted(tiny, 1 / 3) | scale_vote(tiny)
        sent, grid = one.encode("t", given)
        assert grid is not None
        votes = {"as it was": given["scale"], "as it is sent": given["scale"]}
        votes["as it is sent"] = raised_vote(given["scale"], {"w": 3 * sent["w"]})
        for kind, vote in votes.items():
            added = total.setdefault(kind, {"w": 0.0, "share": 0.0, "scale": 0.0})
            for key, value in (("w", sent["w"]), ("share", given["share"]), ("scale", vote)):
                added[key] = np.asarray(added[key] + np.asarray(value, np.float64))
    assert all(sum_fault(one, {"share": share_form()}) == "" for one in total.values())
    assert not plausible_gradient(total["as it was"])
    assert plausible_gradient(total["as it is sent"])
    nobody = np.zeros_like(scale_vote(tiny)["scale"])
    assert not raised_vote(nobody, tiny).any(), "who has no gradient has no vote"


def test_clients_vote_on_what_they_send(small_clients: list[ClientGraph]) -> None:
    method = make("fedavg", small_clients, secure="shares", rounds=3, hidden=8)
    rounds(method, 2)
    party = next(iter(parties(method).values()))
    gradient = {**party.sharing.local.no_gradient(), "convs.0.lin.weight": np.full((60, 8), 1e-3)}
    given = weighted(gradient, 0.5) | scale_vote(gradient)
    longer = {"convs.0.lin.weight": 100 * given["convs.0.lin.weight"]}
    sent: dict[str, Any] = {}
    party.contribute = lambda _tag, vectors, **_: sent.update(vectors)
    for vectors, expected in ((given, gradient), ({**given, **longer}, weighted(longer, 2.0))):
        grid = StepGrid(8, {"convs.0.lin.weight": 1.0})
        party.coder.encode = lambda _tag, _given, made=vectors, on=grid: (dict(made), on)
        party.contribute_for_clients("t", given, {})
        vote = scale_vote({"convs.0.lin.weight": expected["convs.0.lin.weight"]})["scale"]
        assert np.array_equal(sent["scale"], vote)
