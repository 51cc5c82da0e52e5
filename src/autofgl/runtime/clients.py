"""The server's line to its clients: calls that go on without those that are gone, and sums.

Nothing that a client sends is used before it is checked: answers against their form
(:mod:`autofgl.runtime.replies`), contributions against each other, sums against what they can be
(:mod:`autofgl.runtime.bounds`). A client that fails, refuses, or sends something else is a bad
client: the run goes on without it, or ends, as ``on_bad_client`` says.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from autofgl.errors import FederationError, one_line
from autofgl.federation import Federation, require
from autofgl.federation.party import Failure, Replies
from autofgl.federation.payload import Payload, encode
from autofgl.runtime.bounds import (
    ROUNDING,
    SumOutOfBounds,
    Suspects,
    counts_form,
    far_from_others,
    model_distance,
    sum_fault,
)
from autofgl.runtime.federated_settings import ClientsSettings
from autofgl.runtime.private import is_private, privacy_plan, within_bounds
from autofgl.runtime.replies import NOTHING, SPENT, STATE, Array, Form
from autofgl.runtime.rows import BOXES, delivered
from autofgl.runtime.summing import COUNT_UNIT, average
from autofgl.secure import (
    Reveal,
    SecureSumError,
    SumNotOpened,
    SumVectors,
    make_server,
)
from autofgl.secure.accountant import Releases
from autofgl.secure.keys import agree
from autofgl.secure.plain import PlainServer, as_sent, readable


class Clients:
    """All clients of a run, as the server of any method sees them.

    ``dropped`` are bad clients that the run went on without, and why; ``far`` those whose part of
    the last sum was out of all proportion and left out.
    """

    def __init__(
        self, federation: Federation, settings: ClientsSettings, secure: str = "none"
    ) -> None:
        self.federation = federation
        self.secure = secure
        self.private = is_private(settings)
        self.dropped: dict[str, str] = {}
        self.far: list[str] = []
        self._settings = settings
        self._suspects = Suspects()
        threshold = settings.secure_threshold or None
        ledger = None if federation.folder is None else federation.folder / "server.sums"
        self._server = make_server(
            secure,
            parties=federation.parties,
            threshold=threshold,
            ledger=ledger,
            one_group=self.private,
            together=settings.secure_together,
        )
        self._refusals: dict[str, str] = {}
        self.aside: list[str] = []

    @property
    def names(self) -> Sequence[str]:
        """Names of the clients that take part now; those ``aside`` wait for the next training, and
        suspects for some rounds.
        """
        out = {*self.aside, *self._suspects.aside}
        return [name for name in self.federation.parties if name not in out]

    @property
    def fewest(self) -> int:
        """Fewest clients whose sum is revealed."""
        return self._server.fewest

    @property
    def timeout(self) -> float | None:
        """Seconds that a client may take for a call, if there is a limit."""
        return self._settings.timeout or None

    def connect(self) -> None:
        """Have the clients agree on keys; once, and again after a resume."""
        with self._explained():
            self._server.setup(self._ask)

    def connect_peers(self) -> None:
        """Have the clients agree on keys with each other and tell each other which nodes of the
        others they have edges to.
        """
        agree(partial(self.relay, "agree"), tuple(self.names), fewest=1)
        wishes = self.call("introduce", {}, reply=BOXES).ok
        self.call("meet", {"boxes": {}}, each=delivered(wishes), reply=NOTHING)

    def call(
        self,
        op: str,
        payload: Payload,
        *,
        reply: Form | None = None,
        each: Mapping[str, Payload] | None = None,
        wait_for_late: bool = False,
        everyone: bool = False,
    ) -> Replies:
        """Call all clients, each with ``payload`` and its own part of ``each``; go on without those
        that are gone, and without bad ones.

        With ``wait_for_late`` a late client may join again in the next call; it must not where it
        would then have other weights than the rest. ``reply`` is the form of the answers;
        ``everyone`` calls suspects too that are left aside for now.

        Raises:
            FederationError: A client is bad and the run is to end then, or too few are left.
        """
        if everyone:
            self.keep_in_step(op, payload, reply)
        replies = self._reach(op, payload, each, self.names, reply)
        for name, failure in replies.failed.items():
            if failure.kind == "lost" or not wait_for_late:
                self.federation.drop(name)
        return require(op, replies, self._settings.min_clients)

    def keep_in_step(self, op: str, payload: Payload, reply: Form | None) -> None:
        """Tell suspects that are left aside what the others take in."""
        if aside := [name for name in self.federation.parties if name in self._suspects.aside]:
            for name in self._reach(op, payload, None, aside, reply).failed:
                self.federation.drop(name)

    def gather(self) -> None:
        """A training begins: let clients take part that could not be brought up to date."""
        self.aside, self._suspects.aside = [], frozenset()

    def catch_up(
        self,
        names: Sequence[str],
        message: Payload,
        *,
        op: str = "catch_up",
        each: Mapping[str, Payload] | None = None,
        with_state: bool = False,
    ) -> None:
        """Bring clients up to date that missed some rounds; those that are not stay aside.

        With ``with_state`` one of the others hands over what all have alike, wrapped by the keys of
        the sums, so that the server relays what it cannot read.
        """
        self.aside = sorted({*self.aside, *names} & set(self.federation.parties))
        behind = list(self.aside)
        if behind and with_state:
            message = {**message, **self.first("common_state", STATE)}
        replies = self.federation.call(op, message, each=each, to=behind, timeout=self.timeout)
        for name in replies.ok:
            self.aside.remove(name)

    def session(self) -> Payload:
        """Names the sums of times, which no two sessions measure alike; empty without protection:
        then nothing needs another name.
        """
        return {} if self.secure == "none" else {"session": os.urandom(8).hex()}

    def first(self, op: str, reply: Form | None = None) -> Payload:
        """The answer of the first client that gives one, where all would say the same.

        Raises:
            FederationError: None answers.
        """
        for name in tuple(self.names):
            replies = self._reach(op, {}, None, [name], reply)
            if name in replies.ok:
                return replies.ok[name]
            self.federation.drop(name)
        raise FederationError(f"no client answers '{op}'")

    def _reach(
        self,
        op: str,
        payload: Payload,
        each: Mapping[str, Payload] | None,
        to: Sequence[str],
        reply: Form | None,
    ) -> Replies:
        replies = self.federation.call(op, payload, each=each, to=to, timeout=self.timeout)
        wrong = {} if reply is None else {
            name: Failure("malformed", f"its answer to '{op}' {why}")
            for name, sent in replies.ok.items()
            if (why := reply.fault(sent))
        }  # fmt: skip
        failed = {**replies.failed, **wrong}
        bad = {
            name: failure.message
            for name, failure in failed.items()
            if failure.kind not in ("lost", "timeout")
        }
        self.leave_out(bad, len(self.names))
        return Replies({n: sent for n, sent in replies.ok.items() if n not in wrong}, failed)

    def leave_out(self, bad: Mapping[str, str], of: int) -> None:
        """Go on without bad clients, given with the reasons, out of so many.

        Raises:
            FederationError: The run is to end, too few would be left, or so many fail that the
                fault is not theirs.
        """
        if not bad:
            return
        good = of - len(bad)
        few = good < max(self._settings.min_clients, len(bad))
        if self._settings.on_bad_client == "end" or few:
            name, reason = next(iter(bad.items()))
            raise FederationError(f"{name}: {one_line(reason)}")
        self.go_on_without(bad)

    def go_on_without(self, dropped: Mapping[str, str]) -> None:
        """Leave those out that a run has left out before it was resumed."""
        for name, reason in dropped.items():
            self.federation.drop(name)
            self.dropped[name] = one_line(reason)

    def spoiled(self, error: SumOutOfBounds) -> None:
        """A round came to nothing: leave some clients aside, or the one out that must have done it.

        Raises:
            FederationError: The run is to end then, or nobody can be spared.
        """
        if self.dropped.keys() & set(error.contributors):
            return  # it was made with one that is out by now
        if self._sets and error.contributors:
            raise error
        most = len(self.federation.parties) - max(self.fewest, self._settings.min_clients)
        if self._settings.on_bad_client == "end" or most < 1:
            raise error
        about = (error.contributors, self.federation.parties, most, error.certain)
        self._convict(self._suspects.spoiled(*about))

    @property
    def suspecting(self) -> bool:
        """Whether a client is looked for that spoils sums."""
        return self._suspects.active

    @property
    def can_spare(self) -> bool:
        """Whether rounds can go on with some clients left aside."""
        fewest = max(self.fewest, self._settings.min_clients)
        enough = len(self.federation.parties) > fewest and not self._sets
        return self._settings.on_bad_client == "drop" and enough

    @property
    def _sets(self) -> bool:
        """Whether clients are in sums together only: then nobody is left aside alone."""
        return self.secure != "none" and self._settings.secure_together > 1

    def cleared(self, contributors: Collection[str]) -> None:
        """A round went well with these clients in its sums."""
        most = len(self.federation.parties) - max(self.fewest, self._settings.min_clients)
        self._convict(self._suspects.cleared(contributors, self.federation.parties, most))

    def _convict(self, name: str) -> None:
        if name:
            reason = "sums with it were nonsense, and without it they were not"
            self.leave_out({name: reason}, len(self.federation.parties))

    def total(
        self,
        tag: str,
        replies: Mapping[str, Payload],
        key: str,
        forms: Mapping[str, Form] | None = None,
        figures: Collection[str] = (),
        center: Mapping[str, Any] | None = None,
    ) -> SumVectors:
        """The sum of what the replies hold under a key, for the server to read.

        ``forms`` say what the vectors in it can be, ``center`` what those besides ``figures`` are
        near to on average. Where the server sees single updates it leaves those out that are not,
        and combines the others as ``combine`` says.

        Raises:
            SumOutOfBounds: It is something else.
        """
        forms, server = forms or {}, self._server
        sent = self._sound(tag, replies, key, "server", forms)
        sent = self._near(sent, center, figures)
        if self._settings.combine != "mean" and isinstance(server, PlainServer):
            total = server.combined(tag, sent, self._settings.combine, figures)
        else:
            with self._noticing(tag, sent):
                total = server.total(tag, sent, self._ask)
        if self.private:  # noise leaves the bounds now and then
            return within_bounds(total.vectors)
        if why := sum_fault(total.vectors, forms):
            raise SumOutOfBounds(tag, why, total.contributors)
        return total.vectors

    def seal(
        self,
        tag: str,
        replies: Mapping[str, Payload],
        key: str,
        forms: Mapping[str, Form] | None = None,
    ) -> Payload:
        """The sum of what the replies hold under a key, for the clients to open; they check it, and
        the server does if it can read it.
        """
        forms, server = forms or {}, self._server
        sent = self._sound(tag, replies, key, "parties", forms)
        if not isinstance(server, PlainServer):
            with self._noticing(tag, sent):
                return server.seal(tag, sent, self._ask)
        sent = self._near(sent, {}, ())
        if self._settings.combine != "mean":
            sealed = server.seal_combined(tag, sent, self._settings.combine)
        else:
            sealed = server.seal(tag, sent, self._ask)
        if why := sum_fault(readable(sealed), forms):
            raise SumOutOfBounds(tag, why, sealed["contributors"])
        return sealed

    def _sound(
        self,
        tag: str,
        replies: Mapping[str, Payload],
        key: str,
        reveal: Reveal,
        forms: Mapping[str, Form],
    ) -> dict[str, Payload]:
        """The contributions that can be in a sum, where the server can tell; who sent another is a
        bad client.
        """
        sent = _contributions(replies, key)
        if not isinstance(self._server, PlainServer):
            return sent
        bad = self._server.unfit(tag, reveal, sent)
        for name in sent.keys() - bad.keys():
            if why := sum_fault(as_sent(sent[name]), forms):
                bad[name] = f"its part of the sum '{tag}' is wrong: {why}"
        self.leave_out({name: bad[name] for name in sent if name in bad}, len(sent))
        return {name: one for name, one in sent.items() if name not in bad}

    @contextmanager
    def _noticing(self, tag: str, sent: Collection[str]) -> Iterator[None]:
        """Leave those out whose messages to a secure sum are provably wrong, whether it could be
        made without them or not.
        """
        failed: SecureSumError | None = None
        try:
            with self._explained():
                yield
        except SecureSumError as error:
            failed = error
        wrong = failed.wrong if failed else self._server.wrong
        self.leave_out(dict.fromkeys(wrong, f"its messages for '{tag}' are wrong"), len(sent))
        if failed and (wrong or self._suspects.aside):
            self._suspects.aside = frozenset()  # too few are left to spare any
            raise SumOutOfBounds(tag, one_line(str(failed)), ()) from failed
        if isinstance(failed, SumNotOpened) and len(sent) > self.fewest and not self._sets:
            raise SumOutOfBounds(tag, one_line(str(failed)), tuple(sent)) from failed
        if failed:
            raise failed

    def _near(
        self,
        sent: Mapping[str, Payload],
        center: Mapping[str, Any] | None,
        figures: Collection[str],
    ) -> dict[str, Payload]:
        """Without contributions that are out of all proportion, where the server can see that."""
        self.far = []
        if center is not None and isinstance(self._server, PlainServer):
            parts = {name: as_sent(one) for name, one in sent.items()}
            updates = {
                name: average({key: part[key] for key in part.keys() - set(figures)})
                for name, part in parts.items()
                if "share" in part
            }
            lengths = {name: model_distance(one, center) for name, one in updates.items() if one}
            self.far = far_from_others(lengths)
        return {name: one for name, one in sent.items() if name not in self.far}

    def require_taken(self, replies: Mapping[str, Payload]) -> None:
        """Raise if most clients refused the last summed update."""
        if 2 * sum("refused" in reply for reply in replies.values()) > len(replies):
            raise SumOutOfBounds("update", "the clients refuse it", tuple(replies))

    def agreed(self, replies: Mapping[str, Payload], keys: Collection[str]) -> Payload:
        """What most replies hold under some keys, where all should hold the same; who holds
        something else is a bad client.
        """
        models = {
            name: encode({key: reply[key] for key in keys}) for name, reply in replies.items()
        }
        usual = Counter(models.values()).most_common(1)[0][0]
        odd = {name: "it has another model than most" for name in models if models[name] != usual}
        self.leave_out(odd, len(models))
        return next(replies[name] for name in models if name not in odd)

    def own_parts(self, replies: Mapping[str, Payload], key: str) -> dict[str, SumVectors]:
        """What each client contributed; only ``secure=none`` shows it, else there is nothing."""
        if not isinstance(self._server, PlainServer):
            return {}
        sent = _contributions(replies, key)
        return {name: as_sent(one) for name, one in sent.items() if name not in self.dropped}

    def count_nodes(self, tag: str, replies: Mapping[str, Payload]) -> list[int]:
        """The federation's training, validation and test nodes, from what clients count."""
        return self.count(tag, replies, {"counts": counts_form()})["counts"]

    def count_labels(self, tag: str, replies: Mapping[str, Payload]) -> tuple[list[int], list[int]]:
        """The same, and the training nodes of each class, where clients count those too."""
        forms = {"counts": counts_form(), "labels": Array((None,), -ROUNDING, 2.0**40)}
        counts = self.count(tag, replies, forms)
        return counts["counts"], counts["labels"]

    def count(
        self, tag: str, replies: Mapping[str, Payload], forms: Mapping[str, Form]
    ) -> dict[str, list[int]]:
        """Sums of what clients count, as whole numbers."""
        total = self.total(tag, replies, "counts", forms)
        return {name: [round(float(count)) for count in total[name] * COUNT_UNIT] for name in forms}

    def privacy(self) -> dict[str, Any]:
        """What the run has spent of its differential privacy, by the clients' own records."""
        made = list(self.call("spent", {}, reply=SPENT).ok.values())
        most = Releases(*(max(one[key] for one in made) for key in ("updates", "figures")))
        plan = privacy_plan(self._settings)
        return {
            "epsilon": plan.spent(most),
            "delta": plan.delta,
            "budget": plan.epsilon,
            "clip": self._settings.dp_clip,
            "noise": {"updates": plan.update_noise, "figures": plan.figure_noise},
            "releases": {"updates": most.updates, "figures": most.figures},
            "colluders": self._settings.dp_colluders,
            "accuracy_deviation": max(one["deviation"] for one in made),
        }

    def relay(self, op: str, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        """Carry a phase of a protocol between clients; who is late or gone is not waited for."""
        each = {name: {"phase": phase, "message": message} for name, message in messages.items()}
        replies = self.federation.call(op, each=each, to=list(messages), timeout=self.timeout)
        self._refusals |= {name: failure.message for name, failure in replies.failed.items()}
        return replies.ok

    def _ask(self, phase: str, messages: Mapping[str, Payload]) -> Mapping[str, Payload]:
        return self.relay("secure", phase, messages)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a sum that fails which clients gave no answer, and why."""
        self._refusals.clear()
        try:
            yield
        except SecureSumError as error:
            names: dict[str, list[str]] = {}
            for name, why in self._refusals.items():
                names.setdefault(why, []).append(name)
            if reasons := "; ".join(f"{', '.join(of)}: {why}" for why, of in names.items()):
                error.args = (f"{error} ({reasons})",)
            raise


def _contributions(replies: Mapping[str, Payload], key: str) -> dict[str, Payload]:
    return {name: reply[key] for name, reply in replies.items() if key in reply}
