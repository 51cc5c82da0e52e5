"""Classes stay shallow, constructors call no hooks, and a public name stands for one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import autofgl

SOURCE = Path(autofgl.__file__).parent
DEEPEST = 3


TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
NODES = [node for tree in TREES.values() for node in ast.walk(tree)]
CLASSES = {node.name: node for node in NODES if isinstance(node, ast.ClassDef)}


def bases(name: str) -> list[str]:
    """Our classes that a class derives from at once; ``Base[T]`` counts as ``Base``."""
    roots = (
        base.value if isinstance(base, ast.Subscript) else base for base in CLASSES[name].bases
    )
    return [base.id for base in roots if isinstance(base, ast.Name) and base.id in CLASSES]


def ancestors(name: str) -> set[str]:
    return {above for base in bases(name) if base != name for above in {base, *ancestors(base)}}


def height(name: str) -> int:
    return 1 + max((height(base) for base in bases(name) if base != name), default=0)


def methods(name: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}


def test_no_class_is_deep() -> None:
    assert {name: height(name) for name in CLASSES if height(name) > DEEPEST} == {}


def test_constructors_call_nothing_that_a_class_below_overrides() -> None:
    below = defaultdict(set)
    for name in CLASSES:
        for above in ancestors(name):
            below[above] |= methods(name).keys()
    hooks = [
        f"{name}.__init__ uses {node.attr}"
        for name in CLASSES
        if "__init__" in methods(name)
        for node in ast.walk(methods(name)["__init__"])
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and isinstance(node.ctx, ast.Load)
        if node.attr in below[name] & methods(name).keys()
    ]
    assert hooks == []


def test_a_public_name_stands_once() -> None:
    places = defaultdict(set)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].add(path)
    assert {name for name, paths in places.items() if len(paths) > 1} == set()
