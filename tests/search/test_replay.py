import numpy as np
import pytest

from autofgl.federation.payload import decode, encode
from autofgl.search import SearchError
from autofgl.search.replay import Replay


def filled(capacity: int, count: int) -> Replay:
    """A buffer that was given ``count`` transitions; the t-th has the reward t."""
    replay = Replay(capacity, 2, 1)
    for t in range(count):
        state, then = (np.array([at, -at], np.float32) for at in (t, t + 1))
        replay.add(state, np.array([t / 100], np.float32), t, then, t % 3 == 2)
    return replay


def everything(replay: Replay) -> list[float]:
    return sorted(replay.sample(len(replay), np.random.default_rng(0)).rewards.tolist())


def test_transitions_come_back_whole() -> None:
    batch = filled(20, 9).sample(9, np.random.default_rng(0))
    t = batch.rewards
    assert sorted(t.tolist()) == list(range(9))
    assert np.array_equal(batch.states, np.stack([t, -t], 1))
    assert np.array_equal(batch.next_states, np.stack([t + 1, -t - 1], 1))
    assert batch.actions[:, 0] == pytest.approx(t / 100)
    assert np.array_equal(batch.done, t % 3 == 2)
    assert {array.dtype for array in batch} == {np.dtype(np.float32)}


@pytest.mark.parametrize("count", [3, 5, 6, 13])
def test_the_oldest_are_discarded(count: int) -> None:
    replay = filled(5, count)
    assert len(replay) == min(count, 5)
    assert everything(replay) == list(range(count))[-5:]
    assert replay.state()["rows"][:, 3].tolist() == list(range(count))[-5:]


def test_all_transitions_are_equally_likely() -> None:
    replay, rng = filled(8, 20), np.random.default_rng(0)
    drawn = np.concatenate([replay.sample(4, rng).rewards for _ in range(2000)])
    counts = np.unique(drawn, return_counts=True)[1]
    assert counts.sum() == 8000
    assert counts == pytest.approx([1000] * 8, abs=100)


@pytest.mark.parametrize("count", [0, 4, 5, 12])
def test_a_loaded_buffer_draws_the_same(count: int) -> None:
    first, second = filled(5, count), filled(5, 7)
    data = encode(first.state())
    second.load_state(decode(data))
    assert encode(second.state()) == data
    for replay in (first, second):
        replay.add(np.ones(2, np.float32), np.ones(1, np.float32), 99, np.ones(2, np.float32), True)
    one, other = (replay.sample(len(first), np.random.default_rng(1)) for replay in (first, second))
    for mine, yours in zip(one, other, strict=True):
        assert np.array_equal(mine, yours)


def test_a_smaller_buffer_takes_the_latest() -> None:
    replay = Replay(3, 2, 1)
    replay.load_state(filled(5, 12).state())
    assert everything(replay) == [9, 10, 11]


def test_a_state_does_not_change_afterwards() -> None:
    replay = filled(5, 9)
    state = replay.state()
    data = encode(state)
    replay.load_state(filled(5, 3).state())
    assert encode(state) == data


def test_what_does_not_fit_is_refused() -> None:
    replay = filled(5, 4)
    with pytest.raises(SearchError, match="cannot draw 5 of 4"):
        replay.sample(5, np.random.default_rng(0))
    with pytest.raises(SearchError, match="shape"):
        replay.load_state(Replay(5, 3, 1).state())
    assert everything(replay) == [0, 1, 2, 3]
