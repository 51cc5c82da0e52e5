"""One call of a party's ``dispatch`` through NVFlare's Collab API, with failures in our terms."""

from typing import Any

from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from autofgl.federation.party import Failure


def call_dispatch(proxy: Any, option: Any, op: str, data: bytes) -> bytes | Failure:
    """The party's answer, or why there is none.

    Args:
        proxy: NVFlare's stand-in of the party.
        option: NVFlare's ``CallOption``.
        op: Name of the operation.
        data: The encoded payload.
    """
    try:
        answer = proxy.call_func(option, "dispatch", (), {"op": op, "data": data})
    except RunAborted:
        return Failure("lost", "the job was stopped")
    except CollabCallError as error:
        if isinstance(error.cause, TimeoutError):
            return Failure("timeout", f"no answer to '{op}' in time")
        return Failure("lost", f"cannot be reached: {error.cause}")
    if type(answer) is not bytes:
        return Failure("exception", f"answered with {type(answer).__name__} in place of bytes")
    return answer
