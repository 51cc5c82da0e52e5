"""Graphs by name: embedded, synthetic, or read from the raw files of public datasets.

Raw files are looked for below ``data_root`` or ``$AUTOFGL_DATA`` and are read in place; nothing
is ever written there. Without such a root they are downloaded once by PyG's dataset classes into
the user's cache folder. Parsing takes well under a second (Reddit aside), so that parsed graphs
are not cached.
"""

import os
import tempfile
import warnings
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from autofgl.errors import GraphError, UserError, unknown_name
from autofgl.graphs import raw_files
from autofgl.graphs.catalog import DATASETS, SPLITS, DataSettings
from autofgl.graphs.client_graph import ClientGraph, Features, compact, symmetric_edges
from autofgl.graphs.splits import split_nodes
from autofgl.graphs.synthetic import generate
from autofgl.seeding import numpy_generator


def load(
    name: str,
    *,
    seed: int = 0,
    data_root: Path | str | None = None,
    split: str | None = None,
    settings: DataSettings | None = None,
) -> ClientGraph:
    """Load one of :data:`autofgl.graphs.catalog.DATASETS` and split it.

    The seed decides on a drawn split and on a synthetic graph. ``split`` comes before
    ``settings.split``, ``data_root`` before ``$AUTOFGL_DATA``.

    Raises:
        UserError: The name is unknown, or the dataset is not there and cannot be downloaded.
        GraphError: A file is missing in ``data_root``, or damaged.
    """
    if name not in DATASETS:
        raise unknown_name("dataset", name, DATASETS)
    settings = settings or DataSettings()
    kind = split or settings.split or DATASETS[name].split
    if kind not in SPLITS:
        raise unknown_name("split", kind, SPLITS)
    if name == "synthetic":
        graph = generate(settings, numpy_generator(seed, "synthetic"))
    else:
        graph = _cora() if name == "cora" else _raw(name, data_root)
    if settings.whole_graph_hops:
        graph = replace(graph, x=smooth_features(graph, settings.whole_graph_hops))
    return split_nodes(graph, kind, numpy_generator(seed, "split", name), settings)


def smooth_features(graph: ClientGraph, hops: int) -> Features:
    """(D̃^(-1/2) (A + I) D̃^(-1/2))^hops X, as SGC has it (Wu et al., 2019, Eq. 6).

    Over a whole graph that is then cut this is a comparison, and nothing private: GraphFL's public
    code computes SGC's features over the edges of all clients together, so that a client's rows
    tell of nodes it must not know. Published figures can only be compared with figures made so.
    """
    n = graph.num_nodes
    source, target = graph.edge_index
    real = source != target
    ends = (np.append(target[real], np.arange(n)), np.append(source[real], np.arange(n)))
    matrix = sp.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    scale = sp.diags_array(np.asarray(matrix.sum(axis=1)).reshape(-1) ** -0.5)
    matrix = scale @ matrix @ scale
    x = sp.csr_array(graph.x, dtype=np.float64)
    for _ in range(hops):
        x = matrix @ x
    return compact(x.toarray())


def _cora() -> ClientGraph:
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
    return ClientGraph.unsplit("cora", x, symmetric_edges(low, high, len(y)), y, classes)


def _raw(name: str, data_root: Path | str | None) -> ClientGraph:
    """A public dataset from its raw files, which PyG downloads if need be."""
    given = data_root or os.environ.get("AUTOFGL_DATA")
    root = Path(given).expanduser() if given else None
    kind, _, part = name.partition(":")
    if kind == "planetoid":
        files = [f"ind.{part}.{ending}" for ending in raw_files.PLANETOID_PARTS]
        return raw_files.read_planetoid(_folder(name, root, files, "Planetoid", part), part)
    if kind == "coauthor":
        file = f"ms_academic_{part[:3]}.npz"
        folder = _folder(name, root, [file], "Coauthor", part)
        return raw_files.read_attributed(folder / file, name)
    if kind == "corafull":
        file = "cora_full.npz"  # as gnn-benchmark calls it; PyG downloads graph2gauss's cora.npz
        if root is None or not (root / "corafull" / file).is_file():
            file = "cora.npz"
        folder = _folder(name, root, [file], "CitationFull", "cora")
        return raw_files.read_attributed(folder / file, name)
    files = ["reddit_data.npz", "reddit_graph.npz"]
    return raw_files.read_reddit(_folder(name, root, files, "Reddit"))


def cache_folder() -> Path:
    """Where downloads go: ``$XDG_CACHE_HOME/autofgl`` or ``~/.cache/autofgl``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autofgl"


def _folder(name: str, root: Path | None, files: list[str], loader: str, *given: str) -> Path:
    """The folder that holds all these files, downloaded by a class of PyG if there is no root."""
    folder = (root or cache_folder()) / name.partition(":")[0]
    missing = [folder / file for file in files if not (folder / file).is_file()]
    if missing and root:
        raise GraphError(
            f"{missing[0]}: no such file; --data-root or AUTOFGL_DATA should name the folder "
            f"that holds {folder.name}/{missing[0].name} for {name}"
        )
    if not missing:
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            raw = _fetch(temporary, loader, *given)
            for file in files:  # each of them whole or not at all
                os.replace(raw / file, folder / file)  # noqa: PTH105
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"{name} is not in {folder} and could not be downloaded ({reason}); point --data-root "
            f"or AUTOFGL_DATA at a folder that holds {folder.name}/{files[0]}"
        ) from error
    return folder


def _fetch(root: str, loader: str, *given: str) -> Path:
    """Let PyG download, but not process: it would unpickle what came from the network."""
    with warnings.catch_warnings():  # the import speaks of deprecated parts of torch
        warnings.simplefilter("ignore")
        from torch_geometric import datasets as pyg  # slow to import, and seldom needed

    steps = {"_process": lambda *_: None, "load": lambda *_: None}
    raw_only = type("RawOnly", (getattr(pyg, loader),), steps)
    return Path(raw_only(root, *given).raw_dir)
