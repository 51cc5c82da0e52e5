"""Families of cases that take one path through the code."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def family(cases: Iterable[Any], fast: Container[Any]) -> list[Any]:
    """Parameter sets of which the fast tests take some; `make test-all` takes the others too."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in fast else pytest.mark.slow,
        )
        for case in cases
    ]
