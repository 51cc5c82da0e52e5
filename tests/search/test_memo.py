import numpy as np

from autofgl.search import Codes, Losses, Memo, Population


def test_every_network_is_evaluated_once() -> None:
    calls: list[int] = []

    def evaluate(population: Population) -> Losses:
        calls.append(len(population))
        return np.where(population[:, 0] == 2, np.nan, population[:, 0])

    memo = Memo(Codes((3, 9), lambda code: code[:1]), evaluate)
    population = np.array([[0, 1], [2, 2], [0, 7], [1, 1]])
    assert memo(population).tolist() == [0, np.inf, 0, 1]
    assert memo(population[::-1]).tolist() == [1, 0, np.inf, 0]
    assert memo(population[:0]).shape == (0,)
    assert calls == [3]
    memo.clear()
    memo(population[:1])
    assert calls == [3, 1]
    assert memo.evaluated == 4
