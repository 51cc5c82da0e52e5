"""Private set intersection of two sites, by Diffie and Hellman, from ``openmined-psi``.

Who asks hides each id as the point H(id)^a on the curve P-256; who answers raises it to its own
secret b, and sends its own ids as H(id)^b, sorted. The asker undoes a and compares. It learns which
of its own ids the other has, and how many ids the other has; the other learns how many were asked
for. Secrets are drawn for every question, so that no two questions can be compared.

The guarantee is for parties that follow the protocol. A party may always ask for ids that are not
its own, and learns of them what any asker learns: sites should match with whom they would tell it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from autofgl.errors import UserError
from autofgl.federation.party import Refused


class Question:
    """One site's question which of some ids another site has."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = tuple(ids)
        self._client = _library().client.CreateWithNewKey(True)
        asked = self._client.CreateRequest(self._ids) if self._ids else None
        #: What the other site needs, and nobody else learns anything from; empty: no id is asked.
        self.request: bytes = asked.SerializeToString() if asked is not None else b""

    def read(self, setup: bytes, response: bytes) -> tuple[str, ...]:
        """The ids that the other site has, too, from its :func:`answer`."""
        if not self.request or not setup:
            return ()
        psi = _library()
        messages = _parsed(psi.ServerSetup, setup), _parsed(psi.Response, response)
        places = _guarded(lambda: self._client.GetIntersection(*messages))
        return tuple(self._ids[place] for place in sorted(places))


def answer(request: bytes, ids: Sequence[str]) -> tuple[bytes, bytes]:
    """What a question is answered with by a site that has these ids: its own, and the asker's."""
    if not request or not ids:
        return b"", b""
    psi = _library()
    asked = _parsed(psi.Request, request)
    server = psi.server.CreateWithNewKey(True)
    count = len(asked.encrypted_elements)
    setup = server.CreateSetupMessage(0.0, count, tuple(ids), psi.DataStructure.RAW)
    response = _guarded(lambda: server.ProcessRequest(asked))
    return setup.SerializeToString(), response.SerializeToString()


def count_asked(request: bytes) -> int:
    """How many ids a question is about."""
    return len(_parsed(_library().Request, request).encrypted_elements) if request else 0


def require_library() -> None:
    """Refuse to begin without the library, with a ``UserError`` that says how to install it."""
    _library()


def _library() -> Any:
    try:
        import private_set_intersection.python as psi
    except ImportError as error:
        raise UserError("matching needs openmined-psi: pip install 'autofgl[match]'") from error
    return psi


def _parsed(kind: Any, data: bytes) -> Any:
    message = kind()
    _guarded(lambda: message.ParseFromString(data))
    return message


def _guarded(work: Callable[[], Any]) -> Any:
    """What a hostile message makes the library raise is a refusal."""
    try:
        return work()
    except Exception as error:
        raise Refused("a message of the matching cannot be read") from error
