import hashlib
import importlib.util
import io
import ssl
import subprocess
import sys
import urllib.error
from importlib import resources
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import autofgl
from autofgl.config import check_config, sort_settings
from autofgl.errors import GraphError, UserError
from autofgl.graphs import datasets, downloads
from autofgl.graphs.catalog import DATASETS, DRAWN, SPLITS, DataSettings
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.graphs.datasets import (
    by_fraction,
    load,
    per_class,
    public,
    smooth_features,
    split_nodes,
    supervised,
)
from autofgl.graphs.raw_files import PLANETOID_PARTS as PARTS
from autofgl.runtime.client_data import masks_of

HERE = Path(__file__)
PUBLIC = sorted(set(DATASETS) - {"cora", *DRAWN})


@pytest.fixture(autouse=True)
def _no_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AUTOFGL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def neighbour(name: str) -> ModuleType:
    """Another file of this repository as a module."""
    path = HERE.parents[2] / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


raw = neighbour("tests/graphs/test_raw_files.py")


def write_root(root: Path) -> Path:
    """A data root with a small graph for each public dataset."""
    for folder in ("planetoid", "coauthor", "corafull", "reddit", "amazon", "dblp"):
        (root / folder).mkdir(parents=True)
    for name in ("cora", "citeseer", "pubmed"):
        raw.write_planetoid(root / "planetoid", name)
    attributed = ("coauthor/ms_academic_cs", "coauthor/ms_academic_phy", "corafull/cora_full")
    amazon = (f"amazon/amazon_electronics_{part}" for part in ("photo", "computers"))
    for file in (*attributed, *amazon, "dblp/dblp"):
        np.savez(root / f"{file}.npz", **raw.attributed())
    raw.write_reddit(root / "reddit")
    for name in datasets.HETEROPHILOUS:
        raw.write_heterophilous(root / "heterophilous", name)
    raw.write_arxiv(root / "ogbn-arxiv")
    return root


def snapshot(root: Path) -> dict[str, Any]:
    paths = sorted(root.rglob("*"))
    return {
        str(path): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in paths
    }


def sizes(graph: ClientGraph) -> list[int]:
    return [int(mask.sum()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask)]


def test_cora_is_pinned() -> None:
    graph = load("cora")
    assert (graph.num_nodes, graph.num_edges) == (2708, 2 * 5278)
    assert (graph.num_features, graph.classes) == (1433, 7)
    assert isinstance(graph.x, sp.csr_array)
    assert graph.x.nnz == graph.x.sum() == 49216
    assert np.bincount(graph.y).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert sizes(graph) == [140, 500, 1000]
    assert np.bincount(graph.y[graph.train_mask]).tolist() == [20] * 7
    row, col = graph.edge_index
    assert (graph.y[row] == graph.y[col]).mean() == pytest.approx(0.81, abs=0.001)
    assert graph.degree.min() == 1
    # Edges within the two groups of classes that ASFGNN's table counts.
    group = np.isin(graph.y, [0, 1, 2, 4])
    assert (int(group.sum()), int((group[row] & group[col]).sum()) // 2) == (1412, 2657)
    assert (int((~group).sum()), int((~group[row] & ~group[col]).sum()) // 2) == (1296, 1961)


def test_cora_file_is_the_documented_one() -> None:
    folder = resources.files("autofgl.graphs") / "data"
    digest = hashlib.sha256((folder / "cora.npz").read_bytes()).hexdigest()
    assert f"| cora.npz | {digest} |" in (folder / "PROVENANCE.md").read_text("utf-8")


def test_cora_is_the_planetoid_graph_in_another_order() -> None:
    if not (raw.DATA / "planetoid" / "ind.cora.x").is_file():
        pytest.skip("needs the raw Planetoid files below $AUTOFGL_DATA")
    ours, theirs = load("cora"), load("planetoid:cora", data_root=raw.DATA)

    def profile(graph: ClientGraph) -> list[tuple[Any, ...]]:
        words = to_dense(graph.x)
        heard = sp.csr_array((np.ones(graph.num_edges), graph.edge_index)) @ words.sum(1)
        rows = (row.tobytes() for row in words.astype(np.uint8))
        return sorted(zip(rows, graph.y, graph.degree, heard, strict=True))

    assert profile(ours) == profile(theirs)


def test_builder_gives_the_same_bytes(tmp_path: Path) -> None:
    builder, graph = neighbour("tools/build_cora.py"), load("cora")
    rows = [
        f"p{node} {' '.join(map(str, words))} {builder.CLASSES[label]}\n"
        for node, (words, label) in enumerate(
            zip(to_dense(graph.x).astype(int).tolist(), graph.y, strict=True)
        )
    ]
    (tmp_path / "cora.content").write_text("".join(rows))
    pairs = graph.edge_index.T.tolist()[::-1]  # every edge twice, in another order
    (tmp_path / "cora.cites").write_text("p7 p7\n" + "".join(f"p{a} p{b}\n" for a, b in pairs))
    embedded = resources.files("autofgl.graphs") / "data" / "cora.npz"
    assert builder.build(tmp_path) == embedded.read_bytes()


@pytest.mark.parametrize("name", ["cora", "synthetic"])
def test_the_seed_decides(name: str) -> None:
    first, again, other = load(name, seed=1), load(name, seed=1), load(name, seed=2)
    assert (first.train_mask == again.train_mask).all()
    assert (first.edge_index == again.edge_index).all()
    assert (first.train_mask != other.train_mask).any()


def test_synthetic_takes_its_knobs_and_splits_by_fraction() -> None:
    graph = load("synthetic", settings=DataSettings(nodes=300, classes=3, val_fraction=0.1))
    assert (graph.name, graph.num_nodes, graph.classes) == ("synthetic", 300, 3)
    assert sizes(graph) == [210, 30, 60]


def test_a_graph_like_reddit_has_its_proportions_at_any_size() -> None:
    graph = load("reddit-like", settings=DataSettings(nodes=3000))
    assert (graph.name, graph.num_nodes) == ("reddit-like", 3000)
    assert (graph.num_features, graph.classes) == (600, 41)
    assert 2 * graph.num_links / graph.num_nodes == pytest.approx(50, rel=0.1)
    config = check_config({"method": "fedavg", "dataset": "reddit-like", "settings": {"nodes": 90}})
    data = sort_settings(config).data  # what config.yaml has, and a resumed run loads
    assert (data.nodes, data.classes, data.degree) == (90, 41, 50)


def test_split_argument_comes_before_the_setting() -> None:
    settings = DataSettings(split="supervised", val_nodes=100, test_nodes=200)
    assert sizes(load("cora", settings=settings)) == [2408, 100, 200]
    assert sizes(load("cora", split="per-class", settings=settings)) == [140, 100, 200]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_datasets_are_read_in_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_root(tmp_path / "root")
    before = snapshot(root)
    graph = load(name, data_root=root)
    assert graph.name == name
    assert graph.train_mask.any()
    assert snapshot(root) == before
    assert not datasets.cache_folder().exists()
    monkeypatch.setenv("AUTOFGL_DATA", str(root))
    assert (load(name).edge_index == graph.edge_index).all()


def test_default_splits(tmp_path: Path) -> None:
    root = write_root(tmp_path / "root")
    assert sizes(load("planetoid:cora", data_root=root)) == [6, 500, 18]
    assert sizes(load("reddit", data_root=root)) == [2, 1, 1]
    assert sizes(load("coauthor:cs", data_root=root)) == [3, 0, 1]
    with pytest.raises(GraphError, match="coauthor:cs: has no split of its own"):
        load("coauthor:cs", data_root=root, split="public")


def test_corafull_is_known_by_two_file_names(tmp_path: Path) -> None:
    root = write_root(tmp_path / "root")
    (root / "corafull" / "cora_full.npz").rename(root / "corafull" / "cora.npz")
    assert load("corafull", data_root=root).num_nodes == 4


@pytest.mark.parametrize("name", PUBLIC)
def test_missing_files_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"no such file; --data-root or AUTOFGL_DATA") as caught:
        load(name, data_root=tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(caught.value)
    assert name in str(caught.value)


PLANETOID = [name for name in PUBLIC if name.startswith("planetoid:")]


class Web:
    """What `urlopen` gives, from files of a folder; how it was asked is noted."""

    def __init__(self, root: Path, spoil: str = "") -> None:
        self.root = root
        self.spoil = spoil
        self.asked: list[tuple[str, ssl.SSLContext]] = []

    def __call__(self, url: str, timeout: float, context: ssl.SSLContext) -> io.BytesIO:
        self.asked.append((url, context))
        (source,) = self.root.rglob(url.rpartition("/")[2])
        data = source.read_bytes()
        return io.BytesIO(data + b"!" if self.spoil and source.name.endswith(self.spoil) else data)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Web:
    """Small files that are published, and their digests."""
    root = write_root(tmp_path / "web")
    web = Web(root / "planetoid")
    files = list((root / "planetoid").iterdir())
    known = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    monkeypatch.setattr(downloads, "DIGESTS", known)
    monkeypatch.setattr(downloads, "urlopen", web)
    return web


def cached() -> list[str]:
    return sorted(path.name for path in datasets.cache_folder().rglob("*") if path.is_file())


@pytest.mark.parametrize("name", PLANETOID)
def test_without_network_one_sentence_helps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no\nnetwork")

    monkeypatch.setattr(downloads, "urlopen", offline)
    with pytest.raises(UserError) as caught:
        load(name)
    message = str(caught.value)
    for part in (name, str(datasets.cache_folder()), "no network", "--data-root", "AUTOFGL_DATA"):
        assert part in message
    assert "\n" not in message
    assert not cached()


@pytest.mark.parametrize("name", PLANETOID)
def test_downloads_are_checked_kept_and_read(name: str, web: Web) -> None:
    first, again = load(name), load(name)
    assert len(web.asked) == 8, "once"
    for url, context in web.asked:
        assert url.startswith("https://")
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    assert (first.edge_index == again.edge_index).all()
    assert (first.edge_index == load(name, data_root=web.root.parent).edge_index).all()
    assert len(cached()) == 8


@pytest.mark.parametrize("part", ["x", "graph", "test.index"])
def test_a_file_with_another_digest_is_refused(part: str, web: Web) -> None:
    web.spoil = f".{part}"
    with pytest.raises(UserError, match=r"not the file that was published: its SHA-256 is") as got:
        load("planetoid:cora")
    assert "\n" not in str(got.value)
    assert f"ind.cora.{part}" not in cached()
    web.spoil = ""
    assert load("planetoid:cora").num_nodes == 540, "the rest is there already"


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in PLANETOID])
def test_what_has_no_digest_is_not_downloaded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is fetched")

    monkeypatch.setattr(downloads, "urlopen", never)
    with pytest.raises(UserError, match=r"no digest of .* is known .*: download it from https://"):
        load(name)
    assert not cached()


def test_the_digests_are_those_of_the_published_files() -> None:
    if not (raw.DATA / "planetoid" / "ind.cora.x").is_file():
        pytest.skip("needs the raw Planetoid files below $AUTOFGL_DATA")
    for file, digest in downloads.DIGESTS.items():
        data = (raw.DATA / "planetoid" / file).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest
    names = (f"ind.{name.partition(':')[2]}.{part}" for name in PLANETOID for part in PARTS)
    assert set(names) == set(downloads.DIGESTS)


def test_an_endless_or_interrupted_download_leaves_nothing(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CutOff(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise TimeoutError("timed out")

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return bytes(size or 1)

    for answer, reason in ((CutOff(), "timed out"), (Endless(), "larger than")):
        monkeypatch.setattr(downloads, "urlopen", lambda *_, answer=answer, **__: answer)
        with pytest.raises(UserError, match=reason):
            load("planetoid:cora")
        assert not cached()


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="unknown dataset 'planetoid:kora': did you mean planetoid"):
        load("planetoid:kora")
    with pytest.raises(UserError, match="unknown split 'publik': did you mean public"):
        load("cora", split="publik")
    with pytest.raises(UserError, match="unknown split 'publik'"):
        DataSettings(split="publik")
    with pytest.raises(UserError, match="setting train_per_class=0: it should"):
        DataSettings(train_per_class=0)
    with pytest.raises(UserError, match="unknown setting 'val_node': did you mean val_nodes"):
        DataSettings(**{"val_node": 3})


def test_settings_describe_themselves_and_are_frozen() -> None:
    assert all(field.description for field in DataSettings.model_fields.values())
    settings = DataSettings(nodes="700", homophily="0.5")  # type: ignore[arg-type]
    assert (settings.nodes, settings.homophily) == (700, 0.5)
    with pytest.raises(ValueError, match="frozen"):
        settings.nodes = 3  # type: ignore[misc]
    assert DataSettings.model_validate(settings.model_dump()) == settings


def test_names_are_the_documented_ones() -> None:
    assert set(DATASETS) == {
        "cora",
        "synthetic",
        "reddit-like",
        "planetoid:cora",
        "planetoid:citeseer",
        "planetoid:pubmed",
        "coauthor:physics",
        "coauthor:cs",
        "corafull",
        "reddit",
        "amazon:photo",
        "amazon:computers",
        "dblp",
        "ogbn-arxiv",
        *datasets.HETEROPHILOUS,
    }
    assert all(entry.description and entry.size for entry in DATASETS.values())


def test_offline_datasets_do_without_pyg() -> None:
    code = "from autofgl.graphs import datasets as d; d.load('cora'); d.load('synthetic')"
    check = "import sys; assert 'torch_geometric' not in sys.modules"
    subprocess.run([sys.executable, "-c", f"{code}; {check}"], check=True, timeout=60)


@pytest.mark.parametrize("hops", [1, 2])
def test_features_are_averaged_as_in_sgc(small_graph: ClientGraph, hops: int) -> None:
    n = small_graph.num_nodes
    a = np.eye(n)
    a[small_graph.edge_index[1], small_graph.edge_index[0]] = 1
    scale = a.sum(1) ** -0.5
    expected = to_dense(small_graph.x).astype("f8")
    for _ in range(hops):
        expected = (scale[:, None] * a * scale) @ expected
    np.testing.assert_allclose(to_dense(smooth_features(small_graph, hops)), expected, atol=1e-6)


def test_smoothing_is_a_setting_of_the_data() -> None:
    plain = load("cora", seed=0)
    ours = load("cora", seed=0, settings=DataSettings(whole_graph_hops=1))
    np.testing.assert_allclose(to_dense(ours.x), to_dense(smooth_features(plain, 1)), atol=1e-6)
    assert np.array_equal(ours.train_mask, plain.train_mask)
    assert np.array_equal(ours.edge_index, plain.edge_index)
    with pytest.raises((UserError, ValueError)):
        DataSettings(whole_graph_hops=-1)


def graph_of(y: list[int]) -> ClientGraph:
    n = len(y)
    labels = np.array(y, np.int64).reshape(n)
    none = np.zeros(n, np.bool_)
    return ClientGraph(
        name="g",
        x=sp.csr_array((n, 3), dtype=np.float32),
        edge_index=np.zeros((2, 0), np.int64),
        y=labels,
        train_mask=none,
        val_mask=none.copy(),
        test_mask=none.copy(),
        classes=int(labels.max(initial=-1)) + 1,
        node_id=np.arange(n),
    )


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def masks(graph: ClientGraph) -> np.ndarray:
    return np.stack([graph.train_mask, graph.val_mask, graph.test_mask])


def assert_sound(graph: ClientGraph) -> None:
    assert masks(graph).sum(0).max(initial=0) <= 1
    assert not (masks(graph) & (graph.y < 0)).any()


LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=80).filter(lambda y: max(y) >= 0)


def test_per_class_sizes_on_a_large_graph() -> None:
    graph = per_class(graph_of(list(range(5)) * 100), rng(), train=20, val=150, test=200)
    assert sizes(graph) == [100, 150, 200]
    assert np.bincount(graph.y[graph.train_mask]).tolist() == [20] * 5


@given(LABELS, st.integers(1, 30), st.integers(0, 60), st.integers(0, 60), st.integers(0, 99))
def test_per_class_properties(y: list[int], train: int, val: int, test: int, seed: int) -> None:
    graph = per_class(graph_of(y), rng(seed), train, val, test)
    assert_sound(graph)
    count = np.bincount(graph.y[graph.y >= 0])
    taken = np.bincount(graph.y[graph.train_mask], minlength=len(count))
    assert taken.tolist() == np.minimum(train, (count + 1) // 2).tolist()
    left = int(count.sum() - taken.sum())
    assert sum(sizes(graph)[1:]) == min(val + test, left)
    if val + test > left >= 2 and val and test:
        assert abs(sizes(graph)[1] - left * val / (val + test)) <= 1
        assert min(sizes(graph)[1:]) >= 1


@given(LABELS, st.floats(0, 0.49), st.floats(0, 0.49), st.integers(0, 99))
def test_fraction_properties(y: list[int], val: float, test: float, seed: int) -> None:
    graph = by_fraction(graph_of(y), rng(seed), None, val, test)
    assert_sound(graph)
    labelled = sum(label >= 0 for label in y)
    exact = np.array([1 - val - test, val, test]) * labelled
    assert np.abs(np.array(sizes(graph)) - exact).max() <= 1 + 1e-9
    assert sum(sizes(graph)) == labelled
    assert graph.train_mask.any()


def test_fraction_may_leave_nodes_out() -> None:
    assert sizes(by_fraction(graph_of([0, 1] * 50), rng(), 0.1, 0.2, 0.3)) == [10, 20, 30]


@given(LABELS)
def test_supervised_trains_on_all_the_rest(y: list[int]) -> None:
    before = per_class(graph_of(y), rng(), 2, 5, 5)
    after = supervised(before)
    assert_sound(after)
    assert (after.val_mask == before.val_mask).all()
    assert (after.test_mask == before.test_mask).all()
    assert (masks(after).any(0) == (after.y >= 0)).all()


def test_unlabelled_nodes_leave_given_masks() -> None:
    graph = graph_of([0, -1, 1, -1, 0, -1])
    pair = np.arange(6) // 2
    given_masks = graph.with_masks(pair == 0, pair == 1, pair == 2)
    assert sizes(public(given_masks)) == [1, 1, 1]
    assert sizes(supervised(given_masks)) == [1, 1, 1]


@pytest.mark.parametrize("kind", SPLITS)
def test_every_kind_is_seeded(kind: str) -> None:
    start = per_class(graph_of([0, 1, 2, -1] * 50), rng(5), 5, 20, 20)
    first, again, other = (
        split_nodes(start, kind, rng(seed), DataSettings()) for seed in (1, 1, 2)
    )
    assert (masks(first) == masks(again)).all()
    if kind in ("public", "supervised"):
        assert (masks(first) == masks(other)).all()
    else:
        assert (masks(first) != masks(other)).any()


def test_split_passes_the_sizes_on() -> None:
    graph = graph_of([0, 1] * 100)
    sized = {"train_per_class": 3, "val_nodes": 7, "test_nodes": 11}
    assert sizes(split_nodes(graph, "per-class", rng(), DataSettings(**sized))) == [6, 7, 11]
    assert sizes(split_nodes(graph, "supervised", rng(), DataSettings(**sized))) == [182, 7, 11]
    shares = {"train_fraction": 0.1, "val_fraction": 0.05, "test_fraction": 0.5}
    assert sizes(split_nodes(graph, "fraction", rng(), DataSettings(**shares))) == [20, 10, 100]


def test_small_graphs_shrink_step_by_step() -> None:
    totals = [sum(sizes(per_class(graph_of([0] * n), rng()))) for n in range(1, 60)]
    assert all(before < after for before, after in pairwise(totals))


def test_openfgl_takes_shares_of_each_class_in_each_client() -> None:
    graph = load("cora", split="openfgl")
    clients = autofgl.partition(graph, 3, "random", seed=4, split="openfgl")
    for client in clients:
        for label in range(client.classes):
            of_class = client.y == label
            counts = [int((mask & of_class).sum()) for mask in masks_of(client)]
            n = int(of_class.sum())
            first, second = n // 5, 3 * n // 5
            assert counts == [first, second - first, n - second]
        assert sum(mask.astype(int) for mask in masks_of(client)).max() == 1
    again = autofgl.partition(graph, 3, "random", seed=4, split="openfgl")
    assert all((a.train_mask == b.train_mask).all() for a, b in zip(clients, again, strict=True))
    other = autofgl.partition(graph, 3, "random", seed=5, split="openfgl")
    assert (
        clients[0].num_nodes != other[0].num_nodes
        or (clients[0].train_mask != other[0].train_mask).any()
    )
    with pytest.raises(UserError, match="one would train on what another tests on"):
        autofgl.partition(graph, 3, "overlap", split="openfgl")


def test_mistakes_in_splits_are_named() -> None:
    graph = graph_of([0, 1, 2])
    with pytest.raises(UserError, match=r"unknown split 'per_class': did you mean per-class"):
        split_nodes(graph, "per_class", rng(), DataSettings())
    with pytest.raises(GraphError, match="g: has no split of its own; choose from per-class"):
        split_nodes(graph, "public", rng(), DataSettings())
    for kind in ("per-class", "fraction", "supervised"):
        with pytest.raises(GraphError, match="g: no node has a label"):
            split_nodes(graph_of([-1, -1]), kind, rng(), DataSettings())
    with pytest.raises(UserError, match="not 0 / 1 / 1"):
        per_class(graph, rng(), 0, 1, 1)
    for shares in ((None, 0.5, 0.5), (0.9, 0.2, 0.2), (None, -0.1, 0.2), (0.0, 0.1, 0.1)):
        with pytest.raises(UserError, match="fractions of a split"):
            by_fraction(graph, rng(), *shares)
