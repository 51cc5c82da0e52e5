"""Read one graph file, ``.npz`` or PyG ``.pt``, without running anything in it."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from autofgl.errors import GraphError
from autofgl.graphs.fields import (
    BOUNDARY_KEYS,
    Intake,
    check_keys,
    fields_of_tensors,
    first_line,
    graph_of_fields,
)


def read_file(path: str | Path, seed: int, directed: bool = False) -> Intake:
    """The graph as a file has it; shapes, ranges and values are left to validation."""
    path = Path(path)
    if not path.is_file():
        raise GraphError(f"{path}: there is no such file")
    if path.suffix not in (".npz", ".pt"):
        raise GraphError(f"{path}: graph files end in .npz or .pt")
    fields = _read_npz(path) if path.suffix == ".npz" else _read_pt(path)
    beside = path.with_name(f"{path.stem}.boundary.npz")
    if beside.is_file():
        fields |= _read_beside(beside, fields)
    return graph_of_fields(str(path), path.stem, fields, seed, directed)


def _read_npz(path: Path) -> dict[str, Any]:
    key = ""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            check_keys(str(path), archive.files)
            arrays = {}
            for key in archive.files:
                arrays[key] = archive[key]
            return arrays
    except GraphError:
        raise
    except Exception as error:  # a hostile file may make NumPy raise anything
        where = f"the key '{key}' cannot be read" if key else "this is no whole .npz file"
        raise GraphError(
            f"{path}: {where} ({first_line(error)}): write it again with np.savez, "
            "from arrays of numbers, not of objects"
        ) from error


def _read_beside(path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """The boundary that is kept in a file of its own."""
    arrays = _read_npz(path)
    for key in arrays:
        if key not in (*BOUNDARY_KEYS, "boundary_weight"):
            raise GraphError(f"{path}: a boundary file holds boundary_* keys only, not {key!r}")
        if key in fields:
            raise GraphError(f"{path}: the key '{key}' is in the graph file too: keep one of them")
    return arrays


def _read_pt(path: Path) -> dict[str, Any]:
    """A PyG ``Data``, of which unknown attributes are ignored, or a dict of tensors."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    allowed = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    try:
        with torch.serialization.safe_globals(allowed):
            content = torch.load(path, map_location="cpu", weights_only=True)
        fields = content.to_dict() if type(content) is Data else content
    except Exception as error:  # a hostile file may make torch raise anything
        asked = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"asks for '{asked[1]}'" if asked else "cannot be read"
        raise GraphError(
            f"{path}: the file {reason}; only a PyG Data or a dict of tensors is read and nothing "
            "else in it is run: save it again with torch.save(data.to_dict(), path)"
        ) from error
    if not isinstance(fields, dict):
        raise GraphError(f"{path}: the file holds a {type(fields).__name__}, not a PyG Data")
    if fields is content:
        check_keys(str(path), fields, "name", "boundary_owners")
    return fields_of_tensors(str(path), fields)
