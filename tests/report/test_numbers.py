"""Numbers as a person reads them."""

import pytest

from autofgl.report import numbers


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (numbers.percent, 0.818, "81.8 %"),
        (numbers.percent, 0.5, "50 %"),
        (numbers.bytes_, 44_689_816, "44.7 MB"),
        (numbers.bytes_, 0, "0 B"),
        (numbers.seconds, 0.00035, "350 µs"),
        (numbers.seconds, 0, "0 s"),
        (numbers.seconds, 11.706, "11.7 s"),
        (numbers.seconds, 600, "10 min"),
        (numbers.seconds, 580, "9.7 min"),
        (numbers.seconds, 3600 * 26.5, "26 h 30 min"),
        (numbers.count, 92_231, "92.2 k"),
        (numbers.count, 8101, "8,101"),
        (numbers.plain, 1.9457542, "1.946"),
        (numbers.plain, 12_345.6, "12,346"),
        (numbers.plain, 0.00001, "1e-05"),
        (numbers.text, [1, None, True], "1, –, yes"),
    ],
)
def test_numbers_as_a_person_reads_them(form: numbers.Format, value: float, expected: str) -> None:
    assert form(value) == expected
