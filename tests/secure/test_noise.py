"""Noise in secure sums: how much there is, whoever is lost, and that none of it comes twice."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork, names

from autofgl.errors import UserError
from autofgl.secure import SumRefused, make_client
from autofgl.secure.accountant import PrivacyPlan, Releases, mu_of
from autofgl.secure.noise import (
    NoiseRecord,
    NoisyClient,
    RowNoise,
    brought_to,
    gaussian,
    row_noise,
)

SIZE = 40_000
PLAN = PrivacyPlan(4.0, 1e-5, Releases(10, 2))


def noisy(inner: Any, record: NoiseRecord | None = None, **settings: Any) -> NoisyClient:
    chosen = {"clip": 1.0, "fewest": inner.fewest, "colluders": 0, **settings}
    return NoisyClient(inner, PLAN, record or NoiseRecord(), **chosen)


def zeros(size: int = SIZE) -> dict[str, Any]:
    return {"w": np.zeros(size)}


class TestGaussian:
    def test_is_standard_normal(self) -> None:
        numbers = gaussian(bytes(32), 200_001)
        assert len(numbers) == 200_001
        assert abs(numbers.mean()) < 0.01
        assert numbers.std() == pytest.approx(1, abs=0.01)
        for bound, share in ((1, 0.3173), (2, 0.0455), (3, 0.0027)):
            assert (np.abs(numbers) > bound).mean() == pytest.approx(share, abs=0.004)

    def test_halves_of_a_pair_are_independent(self) -> None:
        numbers = gaussian(bytes(32), 100_000)
        assert abs(np.corrcoef(numbers[:50_000], numbers[50_000:])[0, 1]) < 0.02

    def test_another_key_gives_other_numbers(self) -> None:
        assert not np.isclose(gaussian(bytes(32), 100), gaussian(b"1" * 32, 100)).any()


class TestBound:
    @pytest.mark.parametrize("scale", [1e-9, 0.1, 1.0, 1e9])
    def test_every_update_has_the_norm(self, scale: float) -> None:
        own = {"a": scale * np.arange(3.0), "b": scale * np.ones((2, 2))}
        values = brought_to(0.5, own)
        norm = math.sqrt(sum(float((value**2).sum()) for value in values.values()))
        assert norm == pytest.approx(0.5)
        assert values["a"][1] * 2 == pytest.approx(values["a"][2])

    def test_nothing_stays_nothing(self) -> None:
        assert not brought_to(1.0, {"a": np.zeros(3)})["a"].any()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_what_is_not_finite_becomes_nothing(self, bad: float) -> None:
        assert not brought_to(1.0, {"a": np.array([1.0, bad])})["a"].any()

    def test_one_client_moves_a_sum_by_the_bound_at_most(self) -> None:
        """Neighboring sums: whatever a client has against zeros, without the noise of either."""
        rng = np.random.default_rng(0)
        for own in (rng.normal(size=50), 1e12 * rng.normal(size=50), np.full(50, 1e-12)):
            record = NoiseRecord()
            client = noisy(make_client("none", name="a", parties=["a", "b"]), record, clip=0.5)
            sent = client.release("t", update={"w": own}, weight=0.1)["values"]
            values, scale = client._update({"w": own})
            noise = scale["w"] * record.noise("u", "t", values)["w"]
            assert np.linalg.norm(sent - 0.1 * noise) == pytest.approx(0.1 * 0.5)
            assert scale["w"] == pytest.approx(0.5 * PLAN.update_noise)  # fewest is 1 here

    def test_figures_are_cut_off_at_their_bounds(self) -> None:
        client = noisy(make_client("none", name="a", parties=["a", "b"]))
        values, scale = client._figures(
            {"m": np.array([7.0, -3.0, np.nan, 2.0])}, {"m": np.array([4.0, 1.0, 1.0, 0.0])}
        )
        assert values["m"].tolist() == [4.0, 0.0, 0.0, 2.0]
        assert scale["m"][3] == 0
        norm = np.linalg.norm(values["m"][:3] / [4, 1, 1])
        assert norm <= math.sqrt(3)
        assert scale["m"][0] == pytest.approx(4 * PLAN.figure_noise * math.sqrt(3))


class TestSum:
    """Sums of masked parties with noise, over the real protocol."""

    @pytest.mark.parametrize("mode", ["shares", "ckks", "shares-additive"])
    def test_the_variance_is_that_of_the_shares(self, mode: str) -> None:
        network = SumNetwork(mode, 5).ready()
        fewest = network.clients["p00"].fewest
        sent = {
            name: noisy(client, colluders=1).release("t", update=zeros())
            for name, client in network.clients.items()
        }
        total = network.server.total("t", sent, network.ask).vectors["w"]
        wanted = PLAN.update_noise * math.sqrt(5 / (fewest - 1))
        assert total.std() == pytest.approx(wanted, rel=0.02)

    def test_noise_is_there_exactly_once_whoever_is_lost(self) -> None:
        """Down to the fewest clients the sum has the noise that is accounted for: no less, and no
        noise of the lost.
        """
        fewest = make_client("shares", name="a", parties=list("abcde")).fewest
        for left in range(fewest, 6):
            network = SumNetwork("shares", 5).ready()
            names = network.parties
            records = {name: NoiseRecord() for name in names}
            sent = {
                name: noisy(client, records[name]).release("t", update=zeros())
                for name, client in network.clients.items()
            }
            kept = {name: sent[name] for name in names[:left]}
            total = network.server.total("t", kept, network.ask).vectors["w"]
            scale = PLAN.update_noise / math.sqrt(fewest)
            by_hand = sum(scale * records[name].noise("u", "t", zeros())["w"] for name in kept)
            assert np.allclose(total, by_hand, atol=1e-9)
            assert total.std() >= PLAN.update_noise * 0.98
            if left == fewest:
                assert total.std() == pytest.approx(PLAN.update_noise, rel=0.02)

    def test_colluders_that_tell_their_noise_leave_enough(self) -> None:
        client = make_client("shares", name="a", parties=["a", "b", "c"], threshold=3)
        scale = noisy(client, colluders=2)._update(zeros(1))[1]["w"]
        assert scale == pytest.approx(PLAN.update_noise)  # one that does not tell is enough
        with pytest.raises(UserError, match="leave no noise"):
            noisy(client, colluders=3)

    def test_masks_change_nothing(self) -> None:
        """Masked and plain sums with the same noise are the same numbers."""
        parties = names(4)
        states = {name: NoiseRecord().state() for name in parties}
        rng = np.random.default_rng(0)
        vectors = {name: {"w": rng.normal(size=500)} for name in parties}
        totals = []
        for mode in ("shares", "none"):
            network = SumNetwork(mode, 4).ready()
            sent = {}
            for name, client in network.clients.items():
                record = NoiseRecord()
                record.load_state(states[name])
                one = noisy(client, record, fewest=3)
                sent[name] = one.release("t", update=vectors[name], weight=0.25)
            totals.append(network.server.total("t", sent, network.ask).vectors["w"])
        assert np.allclose(totals[0], totals[1], rtol=0, atol=4 * 2.0**-40)


class TestRecord:
    def test_the_same_release_again_is_no_other(self, tmp_path: Path) -> None:
        record = NoiseRecord(tmp_path / "noise")
        plain = make_client("none", name="a", parties=["a", "b"])
        first = noisy(plain, record).release("t", update={"w": np.ones(5)})
        again = NoiseRecord(tmp_path / "noise")  # after a restart
        plain = make_client("none", name="a", parties=["a", "b"])
        second = noisy(plain, again).release("t", update={"w": np.ones(5)})
        assert np.array_equal(first["values"], second["values"])
        assert again.made == Releases(1, 0)

    @pytest.mark.parametrize(("tag", "value"), [("t", 2.0), ("u", 1.0)])
    def test_another_release_has_other_noise_and_counts(self, tag: str, value: float) -> None:
        record = NoiseRecord()
        client = noisy(make_client("none", name="a", parties=["a", "b"]), record)
        one = client.release("t", update={"w": np.ones(5)})["values"]
        other = client.release(tag, update={"w": np.array([value, 1, 1, 1, 1])})["values"]
        assert not np.isclose(one, other).any()
        assert record.made == Releases(2, 0)

    def test_a_restart_does_not_give_the_budget_back(self, tmp_path: Path) -> None:
        for at in range(PLAN.planned.updates):
            record = NoiseRecord(tmp_path / "noise")
            client = noisy(make_client("none", name="a", parties=["a", "b"]), record)
            client.release(f"round-{at}", update=zeros(3))
        record = NoiseRecord(tmp_path / "noise")
        client = noisy(make_client("none", name="a", parties=["a", "b"]), record)
        with pytest.raises(SumRefused, match="budget of epsilon=4 is spent"):
            client.release("one more", update=zeros(3))
        client.release("round-0", update=zeros(3))  # the same again says nothing new
        assert record.made == Releases(10, 0)

    def test_a_release_is_on_record_before_it_is_made(self, tmp_path: Path) -> None:
        class Crashes:
            fewest = 2
            handle = open = wrap = unwrap = None

            def protect(self, *_: Any, **__: Any) -> Any:
                raise RuntimeError

        with pytest.raises(RuntimeError):
            noisy(Crashes(), NoiseRecord(tmp_path / "noise")).release("t", update=zeros(3))
        assert NoiseRecord(tmp_path / "noise").made == Releases(1, 0)

    def test_a_checkpoint_never_takes_releases_back(self, tmp_path: Path) -> None:
        record = NoiseRecord(tmp_path / "noise")
        client = noisy(make_client("none", name="a", parties=["a", "b"]), record)
        client.release("1", update=zeros(3))
        older = record.state()
        client.release("2", update=zeros(3))
        record.load_state(older)
        assert record.made == Releases(2, 0)

    def test_the_file_is_the_owners_and_tells_no_values(self, tmp_path: Path) -> None:
        record = NoiseRecord(tmp_path / "noise")
        client = noisy(make_client("none", name="a", parties=["a", "b"]), record)
        client.release("t", update={"w": np.full(4, 0.12345)})
        assert (tmp_path / "noise").stat().st_mode & 0o077 == 0
        assert len((tmp_path / "noise").read_text().splitlines()) == 2
        other = NoiseRecord()
        noisy(make_client("none", name="a", parties=["a", "b"]), other).release(
            "t", update={"w": np.full(4, 0.12345)}
        )
        assert set(record.state()["made"]).isdisjoint(other.state()["made"])

    def test_a_damaged_file_ends_in_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "noise").write_text("zz\n")
        with pytest.raises(UserError, match="damaged"):
            NoiseRecord(tmp_path / "noise")


def test_nothing_is_summed_without_noise() -> None:
    client = noisy(make_client("none", name="a", parties=["a", "b"]))
    with pytest.raises(SumRefused, match="without noise"):
        client.protect("t", {"w": np.ones(3)})


class TestRows:
    def test_rows_are_bounded_and_covered(self) -> None:
        noise = RowNoise(4.0, 1e-5, clip=0.5, most=9, record=NoiseRecord())
        rows = np.full((20_000, 4), 100.0, np.float32)
        covered = noise.cover("pass-1/rows-2", rows)
        z = row_noise(4.0, 1e-5, 9)
        assert z == pytest.approx(3 / mu_of(4.0, 1e-5))
        assert covered.mean() == pytest.approx(0.25, abs=5 * 0.5 * z / math.sqrt(80_000))
        assert covered.std() == pytest.approx(0.5 * z, rel=0.02)

    def test_short_rows_stay_as_they_are(self) -> None:
        noise = RowNoise(1e9, 1e-5, clip=1.0, most=1, record=NoiseRecord())
        rows = np.array([[0.3, 0.4], [3.0, 4.0], [0.0, 0.0]], np.float32)
        assert np.allclose(noise.cover("t", rows), [[0.3, 0.4], [0.6, 0.8], [0, 0]], atol=1e-3)

    def test_the_same_rows_have_the_same_noise_and_no_more_are_shown(self) -> None:
        record = NoiseRecord()
        noise = RowNoise(4.0, 1e-5, clip=1.0, most=2, record=record)
        rows = np.ones((3, 2), np.float32)
        first = noise.cover("a", rows)
        again = NoiseRecord()
        again.load_state(record.state())  # after a resume
        assert np.array_equal(
            first, RowNoise(4.0, 1e-5, clip=1.0, most=2, record=again).cover("a", rows)
        )
        noise.cover("a", 0.1 * rows)  # others under the same name count
        with pytest.raises(SumRefused, match="were all shown"):
            noise.cover("b", rows)
        assert record.made == Releases()  # rows are no sums
