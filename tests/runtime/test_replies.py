"""Forms of replies: what fits, what does not, and that every call of a method names one."""

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.runtime.replies import (
    EXPORT,
    METRICS,
    OWN,
    SECONDS_SUM,
    Array,
    Box,
    Form,
    Named,
    Network,
    Number,
    Record,
    Scalar,
    Truth,
)

GCN = {"family": "gcn", "in_features": 4, "classes": 2}
FLOATS = np.zeros((2, 3), np.float32)
SUMS = np.array([1.5, 2, 3, 0, 0, 0, 9.0, 1, 1])
OWN_NETWORK = {"family": "own", "home": "net.py:Net", "in_features": 4, "classes": 2}
OWN_LAYER = {
    "family": "found", "genotype": "relu | myconv<0 | relu", "in_features": 4, "classes": 2,
    "own_layers": {"myconv": "layers.py:MyConv"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Number(), -1.5),
        (Number(0, 5, whole=True), 5),
        (Truth(), False),
        (Scalar(), "gcn"),
        (Scalar(), 0.5),
        (Box(), b""),
        (Array((2, None)), FLOATS),
        (Array((), kinds="iu"), np.array(3)),
        (Array((0,)), np.zeros(0)),
        (Named(Array()), {"a": FLOATS}),
        (Record({"a": Truth(), "b": Truth()}, frozenset({"b"})), {"a": True}),
        (OWN, {}),
        (OWN, {"nodes": 3, "edges": 0, "metrics": SUMS}),
        (Network(), GCN),
        (Network(frozenset({"net.py:Net"})), OWN_NETWORK),
        (Network(), {"family": "found", "genotype": "relu | gcn<0 | identity", **{
            "in_features": 4, "classes": 2}}),
        (EXPORT, {"weights": {"w": FLOATS}, "spec": GCN}),
        (SECONDS_SUM, np.array([0.5, 3.0])),
    ],
)  # fmt: skip
def test_what_fits(form: Form, value: Any) -> None:
    assert form.fault(value) == ""


@pytest.mark.parametrize(
    ("form", "value", "why"),
    [
        (Number(), math.nan, "finite"),
        (Number(), math.inf, "finite"),
        (Number(), True, "finite"),
        (Number(), "1", "finite"),
        (Number(whole=True), 1.0, "whole"),
        (Number(0, 5), 6, "out of bounds"),
        (Truth(), 1, "true or false"),
        (Scalar(), "\x1b[31m", "short word"),
        (Scalar(), "x" * 101, "short word"),
        (Scalar(), None, "finite"),
        (Box(), "bytes", "bytes"),
        (Array(), [1.0], "array"),
        (Array(), np.array(["a"]), "array"),
        (Array(), np.zeros(2, np.int64), "array"),
        (Array((2, 2)), FLOATS, "shape"),
        (Array((None,)), FLOATS, "shape"),
        (Array(), np.array([np.nan]), "NaN"),
        (Array(low=0), np.array([-1.0]), "out of bounds"),
        (Named(Array()), [FLOATS], "by name"),
        (Named(Array(), frozenset({"a"})), {"b": FLOATS}, "other names"),
        (Named(Array()), {"a": None}, "array"),
        (Record({"a": Truth()}), {}, "lacks 'a'"),
        (Record({"a": Truth()}), {"a": True, "b": 1}, "nobody asked for"),
        (Record({"a": Truth()}), {"a": 1}, "'a' should be true or false"),
        (Record({"a": Truth()}), None, "record"),
        (Record({"a": Record({"b": Truth()})}), {"a": {"b": 0}}, "'b' should be true"),
        (METRICS, np.array([1.0, 4, 3, 0, 0, 0, 0, 0, 0]), "out of bounds"),
        (METRICS, np.array([-1.0, 1, 3, 0, 0, 0, 0, 0, 0]), "out of bounds"),
        (METRICS, np.array([1.0, 0.5, 3, 0, 0, 0, 0, 0, 0]), "whole"),
        (METRICS, np.zeros(8), "shape"),
        (Network(), {"family": "gcn"}, "describe a network"),
        (Network(), OWN_NETWORK, "another network than was asked for"),
        (Network(frozenset({"a.py:A"})), OWN_NETWORK, "another network than was asked for"),
        (Network(), OWN_LAYER, "another network than was asked for"),
        (Network(), {**OWN_NETWORK, "options": {"hidden": []}}, "describe a network"),
        (Network(), {**OWN_NETWORK, "home": 3}, "describe a network"),
        (Network(), [], "describe a network"),
        (Network(), {**GCN, "hidden": 2**40}, "too large"),
        (Network(), {**GCN, "layers": 10**6}, "too large"),
        (Network(), {**GCN, "family": {}}, "describe a network"),
        (SECONDS_SUM, np.zeros(2), "out of bounds"),
    ],
)
def test_what_does_not(form: Form, value: Any, why: str) -> None:
    assert why in form.fault(value)


def test_more_fields() -> None:
    base = Record({"a": Truth()})
    assert "lacks 'b'" in base.having(b=Truth()).fault({"a": True})
    assert base.perhaps({"b": Truth()}).fault({"a": True}) == ""
    assert base.perhaps({"b": Truth()}).fault({"a": True, "b": 3})


def test_every_call_names_the_form_of_its_answers() -> None:
    """Nothing that a client says reaches a method unchecked."""
    calls = 0
    source = Path(autofgl.__file__).parent
    for folder in ("runtime", "sharing", "methods"):
        for path in (source / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                owner, name = ast.unparse(node.func.value), node.func.attr
                if owner.endswith("clients") and name in ("call", "first"):
                    calls += 1
                    named = {keyword.arg for keyword in node.keywords}
                    formed = "reply" in named or (name == "first" and len(node.args) == 2)
                    assert formed, f"{path}:{node.lineno}"
    assert calls >= 15
