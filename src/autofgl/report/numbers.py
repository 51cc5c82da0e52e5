"""Numbers as a person reads them."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

#: Turns a number into its label.
Format: TypeAlias = Callable[[float], str]

#: Stands where there is no value.
NOTHING = "–"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number; a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(value: float) -> str:
    """Up to four significant digits, thousands apart."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e9 or size < 1e-4:
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 3 - math.floor(math.log10(size)))
    return _without_zeros(f"{value:.{digits}f}")


def percent(value: float) -> str:
    """A share of 1 in percent, with one decimal where it needs one."""
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def bytes_(value: float) -> str:
    """Bytes in decimal units."""
    return _scaled(value, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")), "B")


def seconds(value: float) -> str:
    """A time, from microseconds to hours."""
    if value and abs(value) < 1:
        return _scaled(value * 1e6, ((1e3, "ms"),), "µs")
    if abs(value) < 120:
        return f"{_short(value)} s"
    if abs(value) < 7200:
        return f"{_short(round(value / 60, 1))} min"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def count(value: float) -> str:
    """A number of things, shortened where it is large."""
    if abs(value) < 10_000:
        return f"{value:,.0f}" if float(value).is_integer() else plain(value)
    return _scaled(value, ((1e9, "G"), (1e6, "M"), (1e3, "k")), "")


def text(value: Any) -> str:
    """Any value of a JSON file as a short text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_number(value):
        return plain(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value)) or NOTHING
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(one)}" for key, one in value.items()) or NOTHING
    return str(value)


def _scaled(value: float, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    for size, unit in units:
        if abs(value) >= size:
            return f"{_short(value / size)} {unit}"
    return f"{_short(value)} {smallest}".rstrip()


def _short(value: float) -> str:
    """About three significant digits, without trailing zeros."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return _without_zeros(f"{value:.{digits}f}")


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
