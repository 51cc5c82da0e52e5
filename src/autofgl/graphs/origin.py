"""What a graph file keeps of the tables that it was made from.

These are the names of nodes, the schema, and edges whose other end is another site's. They stay
beside the graph and are no part of it: no network sees them, and no run takes them off a site. They
are keys of the ``.npz`` file: ``node_name`` str [n], ``table_schema``, one text, and those of
:mod:`autofgl.graphs.external`.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from autofgl.errors import GraphError
from autofgl.graphs.external import EXTERNAL_KEYS, ExternalEdges

NAME_KEY, SCHEMA_KEY = "node_name", "table_schema"
#: The keys of graph files that are kept and do not make the graph.
ORIGIN_KEYS = (NAME_KEY, SCHEMA_KEY, *EXTERNAL_KEYS)


class Origin(NamedTuple):
    """Names of the nodes in a graph file, the text of its schema, and edges that lead elsewhere;
    empty where there is none.
    """

    names: tuple[str, ...] = ()
    schema: str = ""
    external: ExternalEdges = ExternalEdges.none()

    def arrays(self) -> dict[str, Any]:
        """What a graph file keeps."""
        names, schema = np.array(self.names, np.str_), np.array(self.schema, np.str_)
        return {NAME_KEY: names, SCHEMA_KEY: schema, **self.external.arrays()}


def read_origin(path: str | Path) -> Origin:
    """The origin that a graph file has kept; an empty one if it was not made from tables."""
    path = Path(path)
    if path.suffix != ".npz":
        return Origin()
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            names = archive[NAME_KEY] if NAME_KEY in archive.files else np.array([], np.str_)
            schema = archive[SCHEMA_KEY] if SCHEMA_KEY in archive.files else np.array("")
            edges = {key: archive[key] for key in EXTERNAL_KEYS if key in archive.files}
    except Exception as error:  # a hostile file may make NumPy raise anything
        raise GraphError(f"{path}: its names of nodes cannot be read") from error
    if (names.dtype.kind, names.ndim, schema.dtype.kind, schema.ndim) != ("U", 1, "U", 0):
        raise GraphError(f"{path}: '{NAME_KEY}' must be str [n], '{SCHEMA_KEY}' one text")
    external = ExternalEdges.of_arrays(str(path), edges, len(names))
    return Origin(tuple(names.tolist()), str(schema), external)


def schema_digest(path: str | Path) -> str:
    """What tells schemas of graph files apart without showing them; empty where there is none."""
    text = read_origin(path).schema
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def common_schema(paths: Sequence[str | Path]) -> str:
    """The text of the schema that all graph files were made with; empty if none has one.

    Raises:
        GraphError: They were made with different ones.
    """
    schemas = {Path(path): read_origin(path).schema for path in paths}
    given = {path: text for path, text in schemas.items() if text}
    if not given:
        return ""
    first, text = next(iter(given.items()))
    for path, other in given.items():
        if other != text:
            raise GraphError(
                f"{path} was made with another schema than {first}: import all sites' tables "
                "again with the same one, autofgl import … --schema schema.yaml"
            )
    return text
