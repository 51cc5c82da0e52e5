"""Sites find the ids that they have in common and the edges between them, and nothing else."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.cli import main
from autofgl.errors import GraphError, UserError
from autofgl.federation.party import Context, Refused
from autofgl.federation.payload import encode
from autofgl.graphs.files import load_graphs
from autofgl.graphs.origin import read_origin
from autofgl.matching.client import Matcher
from autofgl.matching.intersection import Question, answer
from autofgl.matching.links import Links, unite
from autofgl.matching.server import match_files
from autofgl.tables.draft import draft_schema
from autofgl.tables.intake import import_tables
from autofgl.tables.table import read_table

pytest.importorskip("private_set_intersection.python")

Tables = dict[str, tuple[list[str], list[tuple[str, str, float]]]]

#: Accounts, and payments with amounts; c is at both banks, and x9 is at none.
TABLES: Tables = {
    "north": (["a", "b", "c"], [("a", "b", 1), ("a", "p", 5), ("b", "q", 2), ("x9", "b", 1)]),
    "south": (["p", "q", "c"], [("p", "q", 1), ("a", "p", 4), ("q", "b", 3), ("q", "z", 1)]),
    "west": (["r", "z"], [("r", "z", 1), ("r", "x9", 1), ("z", "a", 7)]),
}


def write(folder: Path, tables: Tables = TABLES, **columns: Any) -> list[Path]:
    sites = {}
    for name, (ids, edges) in tables.items():
        nodes = {"id": ids, "v": list(range(len(ids))), "y": [i % 2 for i in range(len(ids))]}
        source, target, weight = zip(*edges, strict=True)
        sites[name] = nodes, {"src": list(source), "dst": list(target), "w": list(weight)}
    first = [read_table(table) for table in next(iter(sites.values()))]
    said = {"label": "y", "external": True, "kinds": {"v": "number"}, **columns}
    schema = draft_schema(*first, **said)
    paths = []
    for name, pair in sites.items():
        paths += import_tables(*pair, name=name, schema=schema).save(folder / f"{name}.npz")
    return paths


def match(paths: Sequence[Path], **more: Any) -> list[str]:
    lines: list[str] = []
    match_files(paths, lambda name, line: lines.append(f"{name}: {line}"), **more)
    return lines


def boundary(path: Path) -> set[tuple[str, str, str, int]]:
    """Own id, other site, id there and its degree, for each row."""
    graph = autofgl.as_graph(path)
    names = read_origin(path).names
    edges = graph.boundary
    rows = zip(edges.local, edges.owner, edges.remote, edges.degree, strict=True)
    return {
        (names[local], owner := edges.owners[who],
         read_origin(path.with_name(f"{owner}.npz")).names[remote], int(degree))
        for local, who, remote, degree in rows
    }  # fmt: skip


def test_edges_between_sites_by_hand(tmp_path: Path) -> None:
    paths = write(tmp_path)
    lines = match(paths)
    assert boundary(paths[0]) == {
        ("a", "south", "p", 2), ("b", "south", "q", 3), ("c", "south", "c", 1),
        ("a", "west", "z", 3),
    }  # fmt: skip
    assert boundary(paths[1]) == {
        ("p", "north", "a", 3), ("q", "north", "b", 2), ("c", "north", "c", 1),
        ("q", "west", "z", 3),
    }  # fmt: skip
    assert boundary(paths[2]) == {("z", "north", "a", 3), ("z", "south", "q", 3)}
    assert "north: 1 of 3 ids that edges lead to are at no other site" in lines
    assert "north: south has asked for 3 ids: 2 of them are here" in lines
    assert "north: south: 3 edges, 1 ids at both" in lines
    clients = load_graphs(paths)
    for client in clients:  # every client tells the degrees that the others have of it
        for other in clients:
            edges = other.boundary
            here = np.array(edges.owners, np.str_)[edges.owner] == client.name
            assert np.array_equal(client.degree[edges.remote[here]], edges.degree[here])
    before = [path.read_bytes() for path in paths]
    match(paths)
    assert [path.read_bytes() for path in paths] == before, "a second time changes nothing"


def test_weights_and_directions(tmp_path: Path) -> None:
    paths = write(tmp_path, weight="w")
    match(paths)
    north = autofgl.as_graph(paths[0]).boundary
    assert north.weight is not None
    assert sorted(north.weight.tolist()) == [1, 3, 5, 7], "the larger of what two sites say"
    for path in write(tmp_path, directed=True):
        assert autofgl.as_graph(path).directed
    match(paths)
    assert {row[:3] for row in boundary(paths[0])} == {
        ("b", "south", "q"), ("c", "south", "c"), ("a", "west", "z"),
    }, "edges that lead here"  # fmt: skip
    assert {row[:3] for row in boundary(paths[2])} == {("z", "south", "q")}


def test_both_sites_put_together_the_same_list() -> None:
    rng = np.random.default_rng(0)

    def some(count: int) -> Links:
        return Links(rng.integers(0, 5, count), rng.integers(0, 5, count),
                     rng.random(count) < 0.5, rng.random(count, np.float32))  # fmt: skip

    mine, others = some(30), some(30)
    for directed in (False, True):
        one = unite(mine, others, True, directed)
        two = unite(others.turned(), mine.turned(), False, directed)
        assert np.array_equal(one.own, two.theirs)
        assert np.array_equal(one.theirs, two.own)
        assert np.array_equal(one.weight, two.weight)
        pairs = set(zip(one.own.tolist(), one.theirs.tolist(), one.out.tolist(), strict=True))
        assert len(pairs) == len(one)


def test_no_id_crosses_in_the_clear(tmp_path: Path) -> None:
    tables: Tables = {
        name: ([f"{name}-account-{i}" for i in range(9)],
               [(f"{name}-account-1", f"{other}-account-2", 1.0),
                (f"{name}-account-1", "secret-account-of-nobody", 1.0)])
        for name, other in (("north", "south"), ("south", "north"))
    }  # fmt: skip
    seen: list[bytes] = []
    match(write(tmp_path, tables), observer=lambda *message: seen.append(encode(message[3])))
    assert len(seen) > 20
    assert not any(b"account" in message for message in seen), "neither common ids nor others"


def test_a_question_shows_common_ids_only() -> None:
    asked = Question(["a", "secret", "b"])
    assert b"secret" not in asked.request
    setup, response = answer(asked.request, ["b", "hidden"])
    assert b"hidden" not in setup + response
    assert asked.read(setup, response) == ("b",)
    again = Question(["a", "secret", "b"])
    assert again.request != asked.request, "questions cannot be compared"
    assert Question([]).read(*answer(b"", ["b"])) == ()
    for data in (b"\xff" * 40, asked.request[:-7]):
        with pytest.raises(Refused, match="cannot be read"):
            answer(data, ["b"])


class _Tampering(Matcher):
    """A site that changes what it tells another."""

    change: Callable[[str, dict[str, Any]], None]

    def _send(self, stage: str, told: Any) -> Any:
        changed = {peer: dict(message) for peer, message in told.items()}
        for message in changed.values():
            type(self).change(stage, message)
        return super()._send(stage, changed)


@pytest.mark.parametrize(
    ("stage", "key", "value", "reason"),
    [
        ("ask", "directed", True, "edges are directed at north only"),
        ("ask", "external", b"\0", "cannot be read"),
        ("respond", "shared_setup", 3, "is no message"),
        ("claim", "external", ["r"], "names ids that are not at"),
        ("claim", "shared", ["c", "c", "c", "c"], "names"),
        ("place", "external", np.zeros(7, np.int64), "does not place all ids"),
        ("link", "theirs", np.zeros(1, np.int64), "tells of edges that cannot be"),
        ("count", "degree", np.zeros(9, np.int64), "does not tell the neighbors"),
    ],
)
def test_a_site_that_cheats_is_refused_and_nothing_is_written(
    stage: str, key: str, value: Any, reason: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    paths = write(tmp_path)
    before = [path.read_bytes() for path in paths]

    def change(at: str, message: dict[str, Any]) -> None:
        if at == stage:
            message[key] = value

    monkeypatch.setattr(_Tampering, "change", staticmethod(change), raising=False)

    def make(path: Path, context: Context, tell: Any) -> Matcher:
        return (_Tampering if path.stem == "north" else Matcher)(path, context, tell)

    monkeypatch.setattr("autofgl.matching.client.Matcher", make)
    with pytest.raises(UserError, match=reason):
        match(paths)
    assert [path.read_bytes() for path in paths] == before


def test_files_that_cannot_be_matched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write(tmp_path)
    with pytest.raises(UserError, match="two graph files or more"):
        match(paths[:1])
    autofgl.save_graph(tmp_path / "east.npz", autofgl.as_graph(paths[0]))
    with pytest.raises(GraphError, match="no names of its nodes"):
        match([paths[0], tmp_path / "east.npz"])
    with pytest.raises(SystemExit) as stopped:
        main(["match", *map(str, paths)])
    assert not stopped.value.code
    assert "north.npz, 4 edges to other sites" in capsys.readouterr().out


def test_external_ends_are_kept_apart(tmp_path: Path) -> None:
    path = write(tmp_path)[0]
    graph, external = autofgl.as_graph(path), read_origin(path).external
    assert graph.num_links == 1
    assert external.name == ("p", "q", "x9")
    assert external.local.tolist() == [0, 1, 1]
    assert external.out.tolist() == [True, True, False]
    nodes = {"id": ["a", "b"], "v": [1, 2]}
    for edges, reason in (
        ({"src": ["p"], "dst": ["q"]}, "'src' is 'p', which is no id among the nodes"),
        ({"src": ["a"], "dst": [""]}, "'dst' is empty"),
        ({"src": ["a"], "dst": ["x" * 300]}, "'dst' is 'xxx"),
    ):
        with pytest.raises(GraphError, match=reason):
            import_tables(nodes, edges, external=True, kinds={"v": "number"})
