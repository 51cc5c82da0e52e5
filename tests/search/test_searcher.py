import numpy as np
import pytest

from autofgl.search.searcher import SearchError, as_losses


def test_losses_that_are_not_finite_are_worst() -> None:
    given = np.array([1.0, np.nan, np.inf, -np.inf, -2.0])
    assert as_losses(given, 5).tolist() == [1.0, np.inf, np.inf, np.inf, -2.0]
    assert np.isnan(given[1])
    with pytest.raises(SearchError, match="expected"):
        as_losses(given, 4)
