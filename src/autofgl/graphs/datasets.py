"""Graphs by name: embedded, synthetic, or read from the raw files of public datasets.

Raw files are looked for below ``data_root`` or ``$AUTOFGL_DATA`` and are read in place; nothing
is ever written there. Without such a root they are downloaded once by PyG's dataset classes into
the user's cache folder. Parsing takes well under a second (Reddit aside), so that parsed graphs
are not cached.
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from pydantic import Field, field_validator

from autofgl.errors import GraphError, UserError, unknown_name
from autofgl.graphs import raw_files, splits, synthetic
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.smoothing import smoothed
from autofgl.seeding import numpy_generator


class DataSettings(synthetic.SyntheticSettings):
    """All settings of this layer: those of the split, and the knobs of ``synthetic``."""

    split: str | None = Field(
        default=None,
        description=f"kind of split ({', '.join(splits.KINDS)}); else the dataset's own",
    )
    train_per_class: int = Field(
        default=20, ge=1, description="per-class split: training nodes per class"
    )
    val_nodes: int = Field(default=500, ge=0, description="per-class split: validation nodes")
    test_nodes: int = Field(default=1000, ge=0, description="per-class split: test nodes")
    train_fraction: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="split by fraction: share that trains; else all that is left",
    )
    val_fraction: float = Field(
        default=0.2, ge=0, lt=1, description="split by fraction: share for validation"
    )
    test_fraction: float = Field(
        default=0.2, ge=0, lt=1, description="split by fraction: share for testing"
    )
    whole_graph_hops: int = Field(
        default=0,
        ge=0,
        description="not private, to compare with GraphFL's public code: average the features over "
        "so many hops of the whole graph before it is cut",
    )

    @field_validator("split")
    @classmethod
    def _known_split(cls, kind: str | None) -> str | None:
        if kind is not None and kind not in splits.KINDS:
            raise unknown_name("split", kind, splits.KINDS)
        return kind

    def split_sizes(self) -> dict[str, Any]:
        """The keyword arguments of :func:`autofgl.graphs.splits.split`."""
        keys = ("train_per_class", "val_nodes", "test_nodes")
        shares = ("train_fraction", "val_fraction", "test_fraction")
        return {key: getattr(self, key) for key in keys + shares}


class Request(NamedTuple):
    """What a reader is told."""

    name: str
    seed: int
    data_root: Path | None
    settings: DataSettings


class Dataset(NamedTuple):
    """What a name stands for.

    Attributes:
        read: Reads or draws the graph; the split comes later.
        description: One line.
        size: Nodes, undirected edges, features and classes, in words.
        split: Kind of split unless the user names one.
    """

    read: Callable[[Request], ClientGraph]
    description: str
    size: str
    split: str


class Source(NamedTuple):
    """Where the raw files of a public dataset are, and who downloads them.

    Attributes:
        folder: Folder below the data root.
        files: Names of the files there.
        loader: Class of ``torch_geometric.datasets``.
        arguments: What it wants to know apart from its root.
    """

    folder: str
    files: Sequence[str]
    loader: str
    arguments: tuple[str, ...] = ()


def load(
    name: str,
    *,
    seed: int = 0,
    data_root: Path | str | None = None,
    split: str | None = None,
    settings: DataSettings | None = None,
) -> ClientGraph:
    """Load a dataset and split it.

    Args:
        name: A key of :data:`DATASETS`.
        seed: Seed of the run; decides on a drawn split and on a synthetic graph.
        data_root: Folder with the raw files of public datasets, else ``$AUTOFGL_DATA``.
        split: Kind of split; comes before ``settings.split``.
        settings: Sizes of the split and knobs of ``synthetic``.

    Raises:
        UserError: The name is unknown, or the dataset can be neither found nor downloaded.
        GraphError: A file is missing in ``data_root``, or damaged.
    """
    if name not in DATASETS:
        raise unknown_name("dataset", name, DATASETS)
    settings = settings or DataSettings()
    kind = split or settings.split or DATASETS[name].split
    if kind not in splits.KINDS:
        raise unknown_name("split", kind, splits.KINDS)
    root = Path(data_root) if data_root else None
    graph = DATASETS[name].read(Request(name, seed, root, settings))
    if settings.whole_graph_hops:
        graph = replace(graph, x=smoothed(graph, settings.whole_graph_hops))
    rng = numpy_generator(seed, "split", name)
    return splits.split(graph, kind, rng, **settings.split_sizes())


def _cora(_: Request) -> ClientGraph:
    """Cora from within the package (see PROVENANCE.md beside the file)."""
    file = resources.files("autofgl.graphs") / "data" / "cora.npz"
    with file.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
        low, high = arrays["edges"]
        y = arrays["y"].astype(np.int64)
        words = arrays["words"].astype(np.int32)
        ends = np.append(0, np.cumsum(arrays["words_per_node"], dtype=np.int32))
        shape = (len(y), int(arrays["vocabulary"][0]))
        classes = len(arrays["classes"])
    x = sp.csr_array((np.ones(len(words), np.float32), words, ends), shape)
    edges = raw_files.symmetric_edges(low, high, len(y))
    none = np.zeros(len(y), np.bool_)
    masks = (none, none.copy(), none.copy())
    return ClientGraph("cora", x, edges, y, *masks, classes, np.arange(len(y)))


def _synthetic(request: Request) -> ClientGraph:
    return synthetic.generate(request.settings, numpy_generator(request.seed, "synthetic"))


def _planetoid(request: Request) -> ClientGraph:
    name = request.name.partition(":")[2]
    files = [f"ind.{name}.{part}" for part in raw_files.PLANETOID_PARTS]
    folder = _folder(request, Source("planetoid", files, "Planetoid", (name,)))
    return raw_files.read_planetoid(folder, name)


def _coauthor(request: Request) -> ClientGraph:
    name = request.name.partition(":")[2]
    file = f"ms_academic_{name[:3]}.npz"
    folder = _folder(request, Source("coauthor", [file], "Coauthor", (name,)))
    return raw_files.read_attributed(folder / file, request.name)


def _corafull(request: Request) -> ClientGraph:
    root = _local_root(request)
    file = "cora_full.npz"  # as gnn-benchmark calls it; PyG downloads graph2gauss's cora.npz
    if root is None or not (root / "corafull" / file).is_file():
        file = "cora.npz"
    folder = _folder(request, Source("corafull", [file], "CitationFull", ("cora",)))
    return raw_files.read_attributed(folder / file, request.name)


def _reddit(request: Request) -> ClientGraph:
    files = ["reddit_data.npz", "reddit_graph.npz"]
    return raw_files.read_reddit(_folder(request, Source("reddit", files, "Reddit")))


#: Every dataset by name.
DATASETS: dict[str, Dataset] = {
    "cora": Dataset(
        _cora,
        "citations between machine-learning papers; embedded, works offline",
        "2,708 nodes, 5,278 edges, 1,433 features, 7 classes",
        "per-class",
    ),
    "synthetic": Dataset(
        _synthetic,
        "block model with bag-of-words features, of any size (--set nodes=…)",
        "2,000 nodes, about 10,000 edges, 500 features, 5 classes unless set otherwise",
        "fraction",
    ),
    "planetoid:cora": Dataset(
        _planetoid,
        "Cora with Planetoid's public split",
        "2,708 nodes, 5,278 edges, 1,433 features, 7 classes",
        "public",
    ),
    "planetoid:citeseer": Dataset(
        _planetoid,
        "CiteSeer with Planetoid's public split; 15 nodes are isolated and unlabelled",
        "3,327 nodes, 4,552 edges, 3,703 features, 6 classes",
        "public",
    ),
    "planetoid:pubmed": Dataset(
        _planetoid,
        "PubMed's diabetes papers with Planetoid's public split",
        "19,717 nodes, 44,324 edges, 500 features, 3 classes",
        "public",
    ),
    "coauthor:cs": Dataset(
        _coauthor,
        "co-authors in computer science",
        "18,333 nodes, 81,894 edges, 6,805 features, 15 classes",
        "per-class",
    ),
    "coauthor:physics": Dataset(
        _coauthor,
        "co-authors in physics",
        "34,493 nodes, 247,962 edges, 8,415 features, 5 classes",
        "per-class",
    ),
    "corafull": Dataset(
        _corafull,
        "all of Cora, with 70 fields",
        "19,793 nodes, 63,421 edges, 8,710 features, 70 classes",
        "per-class",
    ),
    "reddit": Dataset(
        _reddit,
        "posts that share commenters, split by time; needs about 9 GB of memory",
        "232,965 nodes, 57,307,946 edges, 602 features, 41 classes",
        "public",
    ),
}


def _local_root(request: Request) -> Path | None:
    root = request.data_root or os.environ.get("AUTOFGL_DATA")
    return Path(root).expanduser() if root else None


def cache_folder() -> Path:
    """Where downloads go: ``$XDG_CACHE_HOME/autofgl`` or ``~/.cache/autofgl``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autofgl"


def _folder(request: Request, source: Source) -> Path:
    """The folder that holds all raw files of the source, downloaded if need be."""
    root = _local_root(request)
    folder = (root or cache_folder()) / source.folder
    missing = [folder / file for file in source.files if not (folder / file).is_file()]
    if missing and root:
        raise GraphError(
            f"{missing[0]}: no such file; --data-root or AUTOFGL_DATA should name the folder "
            f"that holds {source.folder}/{missing[0].name} for {request.name}"
        )
    if missing:
        _download(request.name, source, folder)
    return folder


def _download(name: str, source: Source, folder: Path) -> None:
    """Fetch the raw files into a folder of the cache, each of them whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            raw = _fetch(source, temporary)
            for file in source.files:
                os.replace(raw / file, folder / file)  # noqa: PTH105
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"{name} is not in {folder} and could not be downloaded ({reason}); point --data-root "
            f"or AUTOFGL_DATA at a folder that holds {source.folder}/{source.files[0]}"
        ) from error


def _fetch(source: Source, root: str) -> Path:
    """Let PyG download, but not process: it would unpickle what came from the network."""
    with warnings.catch_warnings():  # the import speaks of deprecated parts of torch
        warnings.simplefilter("ignore")
        from torch_geometric import datasets as pyg  # slow to import, and seldom needed

    steps = {"_process": lambda *_: None, "load": lambda *_: None}
    raw_only = type("RawOnly", (getattr(pyg, source.loader),), steps)
    return Path(raw_only(root, *source.arguments).raw_dir)
