"""Numbers as a person reads them, and the ticks of an axis."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

#: Turns a number into its label.
Format: TypeAlias = Callable[[float], str]

#: What stands where there is nothing.
NOTHING = "–"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


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
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float) -> str:
    """A share of 1 in percent, with a digit behind the point where it needs one."""
    text = f"{100 * value:.1f}"
    return f"{text.removesuffix('.0')} %"


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


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Round numbers from the last one not above ``low`` to the first one not below ``high``.

    Args:
        low: Least value.
        high: Largest value; if it is the same, room is made around it.
        most: How many there may be, at least 3.
        whole: Whether only integers make sense.
    """
    if high <= low:
        room = abs(low) * 0.1 or 1.0
        low, high = (low, low + 1) if whole else (low - room, high + room)
    rough = max((high - low) / (most - 1), 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 2.5, 5, 10, 20, 25, 50):
        step = factor * power
        if whole and (step < 1 or step != round(step)):
            continue
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            break
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(index * step, digits) for index in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Powers of ten between two positive numbers; where they are few, also their 2 and 5 fold."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for folds in ((1, 2, 5), (1,)):
        found = [fold * 10.0**power for power in range(first, last + 1) for fold in folds]
        inside = [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
        if len(inside) <= most:
            break
    return inside[:: -(-len(inside) // most)] if inside else [low]


def _scaled(value: float, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    for size, unit in units:
        if abs(value) >= size:
            return f"{_short(value / size)} {unit}"
    return f"{_short(value)} {smallest}".rstrip()


def _short(value: float) -> str:
    """About three significant digits, without useless zeros."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
