"""Clients with names that are somebody else's: they are refused wherever names come in.

A client called `server` wrote its state over the server's part of every checkpoint.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import event, given
from hypothesis import strategies as st

import autofgl
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.kits import make_kits
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import load_graphs, save_graph
from autofgl.identity import check_names

#: Each is refused, with a reason.
BAD = {
    "server": "reserved",
    "Server": "reserved",
    "SERVER": "reserved",
    "ｓｅｒｖｅｒ": "reserved",
    " server": "reserved",
    "coordinator": "reserved",
    "admin": "reserved",
    "": "empty",
    "  ": "empty",
    ".": "must not begin",
    "..": "must not begin",
    ".hidden": "must not begin",
    "@ALL": "must not begin",
    "-rf": "must not begin",
    "a/b": "must not have",
    "..\\x": "must not",
    "a\x00b": "must not have",
    "a\nb": "must not have",
    "a\x1b[31m": "must not have",
    "c:": "must not have",
    "end.": "nor end",
    "x" * 101: "longer",
}


def called(clients: list[ClientGraph], *names: str) -> list[ClientGraph]:
    return [
        replace(client, name=name, boundary=replace(client.boundary, owners=names))
        for client, name in zip(clients, names, strict=True)
    ]


@pytest.mark.parametrize(("name", "reason"), BAD.items())
def test_bad_names_are_refused_in_one_line(name: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        check_names(["north", name])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("pair", [("a", "a"), ("A", "a"), ("é", "é"), ("ß", "SS"), ("x", "x ")])
def test_names_that_a_disk_takes_for_one_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=r"give each its own name|no name for"):
        check_names(pair)


@pytest.mark.parametrize("name", ["north", "client-0", "St. Mary's", "Köln", "bank_2", "v1.2"])
def test_ordinary_names_are_fine(name: str) -> None:
    check_names([name, "other"])


@given(st.lists(st.text(max_size=120), max_size=4))
def test_what_passes_is_safe_in_a_path(names: list[str]) -> None:
    try:
        check_names(names)
    except UserError as error:
        event("refused")
        if not str(error).isprintable():
            raise AssertionError("a name is shown as it is") from error
        return
    for name in names:
        file = Path("folder") / f"{name}.afp"
        assert file.parent == Path("folder")
        assert file.name != "server.afp"
    assert len({f"{name}.afp".casefold() for name in names}) == len(names)


@pytest.mark.parametrize("name", ["server", "Server", "../up", "@ALL"])
def test_a_run_refuses_them(small_clients: list[ClientGraph], tmp_path: Path, name: str) -> None:
    clients = called(small_clients, "a", name, "c")
    with pytest.raises(UserError, match="no name for a client"):
        autofgl.run("fedavg", clients, out=tmp_path / "run", rounds=2)
    assert not (tmp_path / "run").exists()


def test_a_run_refuses_two_that_are_one(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'bank' and 'Bank' differ in case or form only"):
        autofgl.run("fedavg", called(small_clients, "bank", "Bank", "c"), out=tmp_path / "run")


def test_graph_files_are_names_too(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.npz" for name in ("a", "server", "c")]
    for path, client in zip(paths, called(small_clients, "a", "server", "c"), strict=True):
        save_graph(path, client)
    with pytest.raises(UserError, match="'server' is no name for a client"):
        load_graphs(paths)


@pytest.mark.parametrize("names", [["server"], ["a", "A"], ["admin"], ["coordinator"], ["a", "a"]])
def test_kits_refuse_them(tmp_path: Path, names: list[str]) -> None:
    pytest.importorskip("nvflare")
    from autofgl.sites.provisioning import provision_kits

    with pytest.raises(UserError, match=r"reserved|give each its own name"):
        make_kits(tmp_path / "kits", "localhost", 8002, names)
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump({"server": "localhost", "sites": names}))
    with pytest.raises(UserError, match=r"reserved|give each its own name"):
        provision_kits(file, tmp_path / "kits")
    assert not list(tmp_path.rglob("*.key"))
