"""Who is at least as good as alone, and within one standard error."""

from autofgl.experiments.gains import GainCounts, gain_counts, gain_lines, within_error


def line(gain: float, error: float, over: float = 0.0) -> dict[str, float]:
    ends = {"gain_low": gain - 1.96 * error, "gain_high": gain + 1.96 * error}
    common = {"over_common_low": over - 1.96 * 0.01, "over_common_high": over + 1.96 * 0.01}
    return {"gain": gain, **ends, "over_common": over, **common}


def test_a_loss_within_one_standard_error_counts_as_none() -> None:
    assert within_error(line(-0.009, 0.01), "gain")
    assert not within_error(line(-0.011, 0.01), "gain")
    assert within_error(line(0.02, 0.0), "gain")


def test_standings_are_of_all_rivals_at_once() -> None:
    lines = [line(0.1, 0.01), line(-0.005, 0.01), line(0.1, 0.01, -0.02), line(-0.5, 0.01)]
    assert gain_counts(lines, "gain") == GainCounts(4, 2, 3)
    assert gain_counts(lines, "gain", "over_common") == GainCounts(4, 1, 2)
    assert (
        gain_counts([{"gain": 1.0, "gain_low": 0.5, "gain_high": 1.0}], "over_common").clients == 0
    )


def test_only_clients_that_were_compared_have_a_line() -> None:
    compared = {"name": "a", "test_accuracy": 0.5, "gain": 0.1, "nodes": 7}
    assert gain_lines({"per_client": [compared, {"name": "b"}]}) == [
        {"client": "a", "test_accuracy": 0.5, "gain": 0.1}
    ]
