"""Graphs by name, embedded, synthetic or from the raw files of public datasets, and their splits.

Raw files are looked for below ``data_root`` or ``$AUTOFGL_DATA`` and are read in place; nothing
is ever written there. Without such a root they are downloaded once into the user's cache folder,
if their digests are known (:mod:`autofgl.graphs.downloads`). Parsing takes well under a second
(Reddit aside), so that parsed graphs are not cached.

A split is seeded; a node without a label (``y == -1``) never enters a mask, whatever its kind.
"""

import inspect
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPException
from importlib import resources
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from autofgl import plugins
from autofgl.errors import AutoFGLError, GraphError, UserError, one_line, unknown_name
from autofgl.graphs import raw_files
from autofgl.graphs.catalog import DATASETS, DRAWN, SPLITS, DataSettings, check_dataset
from autofgl.graphs.client_graph import (
    MASKS,
    Bools,
    ClientGraph,
    Features,
    Ints,
    compact,
    symmetric_edges,
)
from autofgl.graphs.downloads import DownloadError, download
from autofgl.graphs.synthetic import generate
from autofgl.seeding import numpy_generator

#: Their raw files are in one folder.
HETEROPHILOUS = ("roman-empire", "amazon-ratings", "minesweeper", "tolokers", "questions")


def load(
    name: str,
    *,
    seed: int = 0,
    data_root: Path | str | None = None,
    split: str | None = None,
    settings: DataSettings | None = None,
) -> ClientGraph:
    """Load one of :data:`autofgl.graphs.catalog.DATASETS`, or a plug-in's, and split it.

    A dataset from outside the package is a function, named by ``file.py:function`` or registered in
    the entry points ``autofgl.datasets``. It is called with those of ``seed``, ``data_root`` and
    ``settings`` that it has a parameter for, and returns a :class:`ClientGraph` or PyG ``Data``.

    The seed decides on a drawn split and on a synthetic graph. ``split`` comes before
    ``settings.split``, ``data_root`` before ``$AUTOFGL_DATA``.

    Raises:
        UserError: The name is unknown, or the dataset is not there and cannot be downloaded.
        GraphError: A file is missing in ``data_root``, or damaged.
    """
    check_dataset(name)
    settings = settings or DataSettings()
    kind = split or settings.split or (DATASETS[name].split if name in DATASETS else None)
    if kind is not None and kind not in SPLITS:
        raise unknown_name("split", kind, SPLITS)
    if name in DRAWN:
        knobs = {key: DRAWN[name][key] for key in DRAWN[name].keys() - settings.model_fields_set}
        drawn = settings.model_validate({**settings.model_dump(exclude_unset=True), **knobs})
        graph = generate(drawn, numpy_generator(seed, name), name)
    elif name not in DATASETS:
        graph = _from_outside(name, seed, data_root, settings)
        kind = kind or ("public" if graph.train_mask.any() else "per-class")
    else:
        graph = _cora() if name == "cora" else _raw(name, data_root)
    assert kind is not None
    if settings.whole_graph_hops:
        graph = replace(graph, x=smooth_features(graph, settings.whole_graph_hops))
    return split_nodes(graph, kind, numpy_generator(seed, "split", name), settings)


def split_clients(clients: Sequence[ClientGraph], seed: int) -> list[ClientGraph]:
    """Clients with masks that are drawn in each of them, after the cut: ``openfgl``."""
    return [by_class(one, numpy_generator(seed, "split", one.name)) for one in clients]


def _from_outside(
    name: str, seed: int, data_root: Path | str | None, settings: DataSettings
) -> ClientGraph:
    """What a function of somebody else's gives."""
    from autofgl.graphs.objects import as_graph, own_name  # which split by what is here

    make = plugins.find("dataset", name)
    if not callable(make):
        raise UserError(f"dataset '{name}' is no function that gives a graph")
    given = {"seed": seed, "data_root": data_root, "settings": settings}
    asked = inspect.signature(make).parameters
    try:
        made = make(**{key: value for key, value in given.items() if key in asked})
        return as_graph(made, None if own_name(made) else name.rpartition(":")[2], seed=seed)
    except AutoFGLError:
        raise
    except Exception as error:  # whatever somebody's code raises
        raise UserError(one_line(f"dataset '{name}': {type(error).__name__}: {error}")) from error


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
    """A public dataset from its raw files, which are downloaded if need be."""
    given = data_root or os.environ.get("AUTOFGL_DATA")
    root = Path(given).expanduser() if given else None
    kind, _, part = name.partition(":")
    if kind == "planetoid":
        files = [f"ind.{part}.{ending}" for ending in raw_files.PLANETOID_PARTS]
        return raw_files.read_planetoid(_folder(name, root, files), part)
    if kind == "coauthor":
        file = f"ms_academic_{part[:3]}.npz"
        folder = _folder(name, root, [file])
        return raw_files.read_attributed(folder / file, name)
    if kind == "corafull":
        file = "cora_full.npz"  # as gnn-benchmark calls it; graph2gauss has cora.npz
        if root is None or not (root / "corafull" / file).is_file():
            file = "cora.npz"
        folder = _folder(name, root, [file])
        return raw_files.read_attributed(folder / file, name)
    if kind == "amazon":
        file = f"amazon_electronics_{part}.npz"
        return raw_files.read_attributed(_folder(name, root, [file]) / file, name)
    if kind == "dblp":
        return raw_files.read_attributed(_folder(name, root, ["dblp.npz"]) / "dblp.npz", name)
    if kind in HETEROPHILOUS:
        file = f"{kind.replace('-', '_')}.npz"
        folder = _folder(name, root, [file], "heterophilous")
        return raw_files.read_heterophilous(folder / file, name)
    if kind == "ogbn-arxiv":
        return raw_files.read_arxiv(_folder(name, root, raw_files.ARXIV_PARTS))
    files = ["reddit_data.npz", "reddit_graph.npz"]
    return raw_files.read_reddit(_folder(name, root, files))


def cache_folder() -> Path:
    """Where downloads go: ``$XDG_CACHE_HOME/autofgl`` or ``~/.cache/autofgl``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autofgl"


def _folder(name: str, root: Path | None, files: Sequence[str], place: str = "") -> Path:
    """The folder that holds all these files, downloaded if there is no root; its name is that of
    the dataset up to a colon, unless it has a ``place`` together with others.
    """
    place = place or name.partition(":")[0]
    folder = (root or cache_folder()) / place
    missing = [folder / file for file in files if not (folder / file).is_file()]
    if missing and root:
        inner = missing[0].relative_to(folder)
        raise GraphError(
            f"{missing[0]}: no such file; --data-root or AUTOFGL_DATA should name the folder "
            f"that holds {folder.name}/{inner} for {name}"
        )
    if not missing:
        return folder
    try:
        download(place, [path.name for path in missing], folder)
    except (OSError, HTTPException, DownloadError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{name} is not in {folder} and could not be downloaded ({reason}); point --data-root "
            f"or AUTOFGL_DATA at a folder that holds {folder.name}/{files[0]}"
        ) from error
    return folder


def split_nodes(
    graph: ClientGraph, kind: str, rng: Generator, settings: DataSettings
) -> ClientGraph:
    """The graph with masks of the given kind, one of the functions below.

    ``supervised`` comes after a per-class split if the graph has neither validation nor test nodes.
    """
    counts = (settings.train_per_class, settings.val_nodes, settings.test_nodes)
    match kind:
        case "public":
            return public(graph)
        case "per-class":
            return per_class(graph, rng, *counts)
        case "fraction":
            shares = (settings.train_fraction, settings.val_fraction, settings.test_fraction)
            return by_fraction(graph, rng, *shares)
        case "supervised":
            if not (graph.val_mask.any() or graph.test_mask.any()):
                graph = per_class(graph, rng, *counts)
            return supervised(graph)
        case "openfgl":  # of a graph that is cut, anew in each client: see split_clients
            return by_class(graph, rng)
    raise unknown_name("split", kind, SPLITS)


def public(graph: ClientGraph) -> ClientGraph:
    """The masks as they came with the data, without the unlabeled nodes."""
    masks = [getattr(graph, key) & (graph.y >= 0) for key in MASKS]
    if not any(mask.any() for mask in masks):
        choices = ", ".join(SPLITS[1:])
        raise GraphError(f"{graph.name}: has no split of its own; choose from {choices}")
    return graph.with_masks(*masks)


def per_class(
    graph: ClientGraph, rng: Generator, train: int = 20, val: int = 500, test: int = 1000
) -> ClientGraph:
    """``train`` nodes of each class, then ``val`` and ``test`` nodes of the rest.

    Small graphs get smaller masks rather than an error. A class hands at most half of its nodes
    (rounded up) to training; if fewer than ``val + test`` nodes are left, both shrink in the
    same proportion, and each keeps a node as long as there are two.
    """
    if train < 1 or val < 0 or test < 0:
        raise UserError(
            "a per-class split needs at least 1 training node per class and no negative sizes, "
            f"not {train} / {val} / {test}"
        )
    nodes = rng.permutation(_labeled(graph))
    taken = _first_of_each_class(graph.y[nodes], train)
    rest = nodes[~taken]
    val, test = _shrunk(val, test, len(rest))
    return _with_nodes(graph, nodes[taken], rest[:val], rest[val : val + test])


def by_fraction(
    graph: ClientGraph,
    rng: Generator,
    train: float | None = None,
    val: float = 0.2,
    test: float = 0.2,
) -> ClientGraph:
    """Shares of the labeled nodes, each within one node of its exact size.

    Without ``train``, all that ``val`` and ``test`` leave is trained on, at least one node.
    """
    shares = (1.0 - val - test if train is None else train, val, test)
    if shares[0] <= 0 or min(val, test) < 0 or sum(shares) > 1 + 1e-9:
        raise UserError(
            "the fractions of a split must not be negative, must leave something to train and "
            f"must not exceed 1 together, not {train} / {val} / {test}"
        )
    nodes = rng.permutation(_labeled(graph))
    cuts = np.rint(np.cumsum(shares) * len(nodes)).astype(np.int64)
    first, second, third = np.maximum(cuts, 1)
    return _with_nodes(graph, nodes[:first], nodes[first:second], nodes[second:third])


def by_class(
    graph: ClientGraph, rng: Generator, shares: Sequence[float] = (0.2, 0.4, 0.4)
) -> ClientGraph:
    """Shares of each class for training, validation and test, as OpenFGL draws them in each client:
    all counts are rounded down, so that a class of four has no training node.
    """
    cuts = np.cumsum(shares)
    masks = [np.zeros(graph.num_nodes, np.bool_) for _ in shares]
    for label in range(graph.classes):
        nodes = rng.permutation(np.flatnonzero(graph.y == label))
        ends = [math.floor(cut * len(nodes) + 1e-9) for cut in cuts]
        for mask, start, end in zip(masks, [0, *ends], ends, strict=False):
            mask[nodes[start:end]] = True
    return graph.with_masks(*masks)


def supervised(graph: ClientGraph) -> ClientGraph:
    """FastGCN's split: validation and test stay, every other labeled node trains."""
    labeled = graph.y >= 0
    val, test = graph.val_mask & labeled, graph.test_mask & labeled
    return graph.with_masks(labeled & ~val & ~test, val, test)


def _labeled(graph: ClientGraph) -> Ints:
    nodes = np.flatnonzero(graph.y >= 0)
    if not len(nodes):
        raise GraphError(f"{graph.name}: no node has a label, so there is nothing to split")
    return nodes


def _first_of_each_class(y: Ints, count: int) -> Bools:
    """The first ``count`` entries of each class, or half of the class (rounded up) if smaller."""
    sizes = np.bincount(y)
    order = np.argsort(y, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(y), np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(starts, sizes)
    return np.asarray(rank < np.minimum(count, (sizes + 1) // 2)[y])


def _shrunk(val: int, test: int, available: int) -> tuple[int, int]:
    """Both sizes, scaled down alike if fewer nodes are available."""
    wanted = val + test
    if wanted <= available:
        return val, test
    share = round(available * val / wanted)
    if val and test and available > 1:
        share = min(max(share, 1), available - 1)
    return share, available - share


def _with_nodes(graph: ClientGraph, *groups: Ints) -> ClientGraph:
    masks = [np.zeros(graph.num_nodes, np.bool_) for _ in groups]
    for mask, nodes in zip(masks, groups, strict=True):
        mask[nodes] = True
    return graph.with_masks(*masks)
