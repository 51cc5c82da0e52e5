"""A process that does CKKS work for its parent: ``python -m autofgl.secure.ckks_worker``.

It answers the frames on its standard input until that ends, which it does when the parent ends,
in whatever way. Keys come and go through the pipe alone.
"""

import contextlib
import os
import resource
import sys
from functools import lru_cache
from typing import IO

import numpy as np

from autofgl.secure.ckks import Adder, Cipher, ciphertexts_for
from autofgl.secure.ckks_frames import Frame, receive, send
from autofgl.secure.interface import SecureSumError

_cipher = lru_cache(maxsize=16)(Cipher)
_adder = lru_cache(maxsize=16)(Adder)


def answer(request: Frame) -> Frame:
    """Do what a request asks for."""
    try:
        return Frame("done", parts=_PARTS[request.kind](request))
    except SecureSumError as error:
        return Frame("failed", parts=[str(error).encode()])


def _encrypt(request: Frame) -> list[bytes]:
    seed, integers = request.parts
    return _cipher(seed, request.parties).encrypt(np.frombuffer(integers, np.int64))


def _decrypt(request: Frame) -> list[bytes]:
    seed, *ciphertexts = request.parts
    return [_cipher(seed, request.parties).decrypt(ciphertexts, request.size).tobytes()]


def _add(request: Frame) -> list[bytes]:
    each = ciphertexts_for(request.size)
    contributions = [
        request.parts[start : start + each] for start in range(0, len(request.parts), each)
    ]
    return _adder(request.parties).add(contributions, request.size)


_PARTS = {"encrypt": _encrypt, "decrypt": _decrypt, "add": _add}


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            send(replies, answer(receive(requests)))


def main() -> None:
    """Serve the parent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of the memory would hold keys
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not break a frame
    serve(sys.stdin.buffer, replies)
    os._exit(0)  # the parent waits, and there is nothing to clean up


if __name__ == "__main__":
    main()
