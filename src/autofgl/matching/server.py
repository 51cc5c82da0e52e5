"""The server's part of a matching: it hands sealed messages on, and learns numbers of edges."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autofgl.errors import FederationError, UserError
from autofgl.federation import Federation, Observer
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.graphs.origin import common_schema
from autofgl.identity import check_names
from autofgl.matching.client import STAGES, matchers
from autofgl.matching.intersection import require_library
from autofgl.secure.keys import agree


def match_parties(federation: Federation) -> dict[str, int]:
    """Match the graph files of all parties; how many edges each has in its boundary now.

    Nothing is written before all parties have come to the end.

    Raises:
        UserError: A party refuses.
        FederationError: A party is lost.
    """
    parties = tuple(federation.parties)

    def ask(phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        each = {name: {**message, "phase": phase} for name, message in messages.items()}
        return _complete("keys", federation.call("keys", each=each, to=list(each)))

    agree(ask, parties, len(parties))
    boxes: dict[str, Payload] = {name: {} for name in parties}
    for stage in STAGES:
        each = {name: {"boxes": boxes[name]} for name in parties}
        replies = _complete(stage, federation.call(stage, each=each))
        boxes = {name: {} for name in parties}
        for sender, reply in replies.items():
            for receiver, box in _boxes(reply).items():
                boxes.setdefault(receiver, {})[sender] = box
    written = _complete("write", federation.call("write"))
    return {name: _edges(reply) for name, reply in written.items()}


def match_files(
    paths: Sequence[str | Path],
    tell: Callable[[str, str], None] | None = None,
    observer: Observer | None = None,
) -> dict[str, int]:
    """Match graph files on this machine, as sites of their own would.

    Args:
        paths: Graph files that were made from tables; their stems name the sites.
        tell: Gets what each site would learn, line by line, with its name.
        observer: Sees every message.

    Returns:
        How many edges each file has in its boundary now.

    Raises:
        UserError: The files do not fit together, or have no names of nodes.
    """
    if len(paths) < 2:
        raise UserError("matching takes two graph files or more")
    files = [Path(path) for path in paths]
    check_names(file.stem for file in files)
    require_library()
    common_schema(files)
    factories = matchers(files, tell or (lambda name, line: None))  # noqa: ARG005
    federation = InProcess(factories, strict=True, observer=observer)
    try:
        return match_parties(federation)
    finally:
        federation.close()


def _complete(what: str, replies: Replies) -> Mapping[str, Payload]:
    """The answers of all parties."""
    for name, failure in replies.failed.items():
        if failure.kind == "refused":
            raise UserError(f"{name} refuses to match: {failure.message}")
        raise FederationError(f"'{what}' failed at {name}: {failure.message}")
    return replies.ok


def _boxes(reply: Payload) -> Mapping[str, bytes]:
    boxes = reply.get("boxes")
    if type(boxes) is not dict or any(type(box) is not bytes for box in boxes.values()):
        raise FederationError("a site does not answer in the form of a matching")
    return boxes


def _edges(reply: Payload) -> int:
    edges = reply.get("edges")
    return edges if type(edges) is int else 0
