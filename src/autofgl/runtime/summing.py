"""A party's side of secure sums, and weighted means as sums."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.party import Context, Refused
from autofgl.federation.payload import Payload, fingerprint
from autofgl.runtime.bounds import VOTES
from autofgl.runtime.private import PrivateClient, is_private
from autofgl.secure import Reveal, StepGrid, SumClient, make_client

#: Node counts are summed in units of so many nodes, to stay within every secure mode's range.
COUNT_UNIT = 4096


class Summing:
    """What a party adds to take part in secure sums: operations protect what they send."""

    operations: ClassVar[frozenset[str]] = frozenset({"secure", "spent"})

    def __init__(self, context: Context, secure: str, threshold: int, settings: Any = None) -> None:
        if secure != "none" and context.identity is None:
            raise Refused(f"secure mode '{secure}' needs an identity, {context.name} has none")
        import_module("torch._dynamo")  # as the first optimizer would: then a call has a time limit
        self._protected = secure != "none"
        self.sums: SumClient = make_client(
            secure,
            name=context.name,
            parties=context.parties,
            threshold=threshold or None,
            min_parties=context.min_parties,
            run=context.run,
            identity=context.identity,
            ledger=context.ledger,
            one_group=is_private(settings),
            together=getattr(settings, "secure_together", 1),
        )
        self.private: PrivateClient | None = None
        if is_private(settings):
            self.private = PrivateClient(self.sums, context, settings, secure)
            self.sums = self.private.sums

    def spent(self, payload: Payload) -> Payload:  # noqa: ARG002
        """How many sums this client has put noise into; with differential privacy alone."""
        return self.private.spent() if self.private else {}

    def secure(self, payload: Payload) -> Payload:
        """Answer a phase of the protocol."""
        return self.sums.handle(payload["phase"], payload["message"])

    def contribute(
        self,
        tag: str,
        vectors: Mapping[str, Any],
        *,
        reveal: Reveal = "server",
        reference: Mapping[str, Any] | None = None,
        broadcast: Payload | None = None,
        grid: StepGrid | None = None,
    ) -> Payload:
        """What this client adds to a sum; without any weight it counts as nobody.

        ``reference`` are weights that everybody has: noise, if any, covers the change since them.
        ``broadcast`` is what the server sent to all clients for it: they see that it is the same.
        Some vectors may be on a ``grid``.
        """
        digest = b""
        if broadcast is not None and self._protected:
            if grid is not None:  # not told, but they must agree on it all the same
                broadcast = {**broadcast, "grid": {"bits": grid.bits, "steps": dict(grid.steps)}}
            digest = fingerprint(broadcast)[:16]
        if self.private is not None:
            return self.private.contribute(tag, vectors, reference or {}, reveal, digest)
        active = has_weight(vectors)
        return self.sums.protect(
            tag, vectors, reveal=reveal, active=active, broadcast=digest, grid=grid
        )

    def count(self, tag: str, counts: Any, labels: Any = None) -> Payload:
        """What :meth:`Clients.count_nodes` adds up, or :meth:`Clients.count_labels`."""
        if self.private is not None:  # every client counts the same
            return self.private.constant(tag, {"counts": np.ones_like(counts)})
        more = {} if labels is None else {"labels": labels / COUNT_UNIT}
        return self.contribute(tag, {"counts": counts / COUNT_UNIT, **more})


def average(total: Mapping[str, Any]) -> dict[str, Any]:
    """A weighted mean from a sum of weighted vectors and of their weights, named ``share``; votes
    on their scale are no part of it.

    Empty if nobody with any weight contributed.
    """
    share = float(total["share"])
    if share == 0:
        return {}
    with np.errstate(over="ignore"):  # of a share that a client made up; who averages checks
        return {
            name: np.divide(value, share, out=np.empty(np.shape(value), np.float32))
            for name, value in total.items()
            if name not in ("share", *VOTES)
        }


def weighted(vectors: Mapping[str, Any], share: float) -> dict[str, Any]:
    """What a party contributes to :func:`average`: its weight and its weighted vectors."""
    weight = np.float32(share)
    return {"share": np.array(weight), **{name: weight * value for name, value in vectors.items()}}


def has_weight(vectors: Mapping[str, Any]) -> bool:
    """Whether a contribution changes a sum: by its ``share`` if it is weighted, else by any value.

    Clients that add zeros hide nobody, so a sum needs enough of the others.
    """
    counted = [vectors["share"]] if "share" in vectors else vectors.values()
    return any(bool(np.any(value)) for value in counted)
