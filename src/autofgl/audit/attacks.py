"""Attacks of an honest server and of a curious peer: they look at what they receive, no more."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autofgl.audit.membership import area_under_curve
from autofgl.audit.transcript import SumSeen, Transcript, Vectors
from autofgl.audit.verdict import Leak, Verdict, Who, graded
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph, to_dense

Floats = npt.NDArray[np.float64]

#: Vectors of fewer values are figures, such as losses and node counts; longer ones are a model's.
_MODEL_SIZE = 32
#: Fixed-point sums differ from exact ones by less than this.
_ROUNDING = 1e-5


class Sight(NamedTuple):
    """An update that an attacker has, and whose it is: one client's, or several clients' sum."""

    update: Vectors
    clients: tuple[str, ...]
    #: What the server had handed out before it: where training began; nothing for a gradient.
    before: Vectors


def server_leaks(transcript: Transcript, graphs: Sequence[ClientGraph], secure: str) -> list[Leak]:
    """What an honest server learns from the messages and sums of a run."""
    sights = server_sights(transcript, secure)
    return [
        _single_sums(transcript, secure),
        _differences(transcript),
        *_update_leaks("honest server", sights, graphs),
    ]


def peer_leaks(transcript: Transcript, graphs: Sequence[ClientGraph]) -> list[Leak]:
    """What a curious client learns from the sums that it opens and the averages it is handed."""
    peer = graphs[0].name
    others = tuple(graph.name for graph in graphs if graph.name != peer)
    attack = "own part subtracted"
    rests = list(_rests(transcript, peer, others))
    if not rests:
        return [Leak("curious peer", attack, "nothing", "it receives no sum of updates")]
    fewest = min(rests, key=lambda sight: len(sight.clients))
    alone = len(fewest.clients) == 1
    whose = f"{fewest.clients[0]}'s update" if alone else f"the sum of {len(fewest.clients)} others"
    verdict: Verdict = "everything" if alone else "partly"
    leak = Leak("curious peer", attack, verdict, whose, "clients in it", len(fewest.clients))
    return [leak, *_update_leaks("curious peer", [fewest], graphs)]


def server_sights(transcript: Transcript, secure: str) -> list[Sight]:
    """The first update of each client if the server sees them, or of all if it sees their sum."""
    first: dict[tuple[str, ...], Sight] = {}
    if secure == "none":
        for name, sums in transcript.contributed.items():
            for tag, vectors in sums.items():
                if (name,) not in first and _is_update(vectors):
                    first[(name,)] = Sight(vectors, (name,), _handed_out(transcript, name, tag))
        return list(first.values())
    for seen in transcript.sums:
        members = tuple(lone_contributors(transcript, seen)) or seen.contributors
        if seen.vectors is not None and members not in first and _is_update(seen.vectors):
            before = _handed_out(transcript, members[0], seen.tag)
            first[members] = Sight(seen.vectors, members, before)
    return list(first.values())


def label_shares(sight: Sight, classes: int) -> Floats | None:
    """The label distribution of the training nodes behind an update, ``[classes]``.

    Some methods send label counts. Elsewhere the gradient of the last bias tells them: it is mean
    p − q with q the shares and p what the network says, about 1 / classes in a first round. After
    local steps the change of the bias stands for it, and its size for nothing.
    """
    if "labels" in sight.update:
        return _normalized(np.asarray(sight.update["labels"], np.float64))
    share = float(sight.update.get("share", 1.0))
    biases = {
        name: np.asarray(value, np.float64) / share
        for name, value in sight.update.items()
        if name.endswith("bias") and value.shape == (classes,) and share > 0
    }
    if not biases:
        return None
    name = max(biases, key=lambda key: float(np.abs(biases[key] - _before(sight, key)).sum()))
    gradient = biases[name]
    if sight.before:
        gradient = _before(sight, name) - biases[name]
        gradient = gradient / max(float(np.abs(gradient).max()), 1e-12) / classes
    largest = max(float(gradient.max()), 1.0 / classes)
    return _normalized(1 / classes - gradient / (largest * classes))


def word_scores(sight: Sight, features: int) -> Floats | None:
    """How much the first layer's weights of each feature moved, ``[features]``."""
    share = float(sight.update.get("share", 1.0)) or 1.0
    scores = np.zeros(features)
    any_layer = False
    for name, value in sight.update.items():
        if value.ndim == 2 and value.shape[0] == features:
            moved = np.asarray(value, np.float64) / share - _before(sight, name)
            scores += np.linalg.norm(moved, axis=1)
            any_layer = True
    return scores if any_layer else None


def _single_sums(transcript: Transcript, secure: str) -> Leak:
    """Updates of one client alone: plain ones, and sums in which all others are zero."""
    attack, clients = "updates of one client", len(transcript.contributed)
    alone = {name for seen in transcript.sums for name in lone_contributors(transcript, seen)}
    alone |= set(_private_exports(transcript))
    if secure == "none":
        for name, own in transcript.contributed.items():
            alone |= {name} if any(map(_is_update, own.values())) else set()
    if not alone:
        return Leak("honest server", attack, "nothing", "no update but in sums of several clients")
    got = f"the updates of {len(alone)} of {clients} clients" if clients else "each client's model"
    verdict: Verdict = "everything" if len(alone) >= max(clients, 1) else "partly"
    return Leak("honest server", attack, verdict, got, "clients", len(alone), 0.0)


def lone_contributors(transcript: Transcript, seen: SumSeen) -> Iterator[str]:
    """The client of whose vectors alone a sum consists, where the server reads a model's."""
    for name in seen.contributors if seen.vectors is not None else ():
        own = transcript.contributed[name].get(seen.tag, {})
        for key, value in (seen.vectors or {}).items():
            long = value.size >= _MODEL_SIZE and key in own and np.abs(own[key]).max() > _ROUNDING
            if long and np.allclose(value, own[key], rtol=0, atol=_ROUNDING):
                yield name
                break


def _private_exports(transcript: Transcript) -> Iterator[str]:
    """Clients that exported weights which not everybody has."""
    for one in transcript.messages:
        exported = one.payload.get("weights") if (one.direction, one.op) == ("up", "export") else {}
        if exported and not _is_common(transcript, one.party, exported):
            yield one.party


def _is_common(transcript: Transcript, party: str, weights: Vectors) -> bool:
    """Whether the very same weights came from another client too, or the server had sent them."""
    outcome = transcript.outcome
    finals = [] if outcome is None else [outcome.models.get("model", {})]
    for one in transcript.messages:
        if one.party != party and (one.direction, one.op) == ("up", "export"):
            finals.append(one.payload.get("weights", {}))
        if one.direction == "down" and isinstance(one.payload.get("weights"), dict):
            finals.append(one.payload["weights"])
    return any(_same(weights, other) for other in finals)


def _same(one: Vectors, other: Vectors) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def _differences(transcript: Transcript) -> Leak:
    """Two sums of one tag that differ by a client; sums of node counts over changing clients."""
    attack = "differences of sums"
    by_tag: dict[str, list[SumSeen]] = {}
    for seen in transcript.sums:
        if seen.vectors is not None:
            by_tag.setdefault(seen.tag, []).append(seen)
    read = set()
    for sums in by_tag.values():
        for one, other in combinations(sums, 2):
            odd = set(one.contributors) ^ set(other.contributors)
            read |= odd if len(odd) == 1 else set()
    clients = len(transcript.contributed)
    if read:
        got = f"the vectors of {len(read)} of {clients} clients, as a sum was made with and without"
        return Leak("honest server", attack, "everything", got, "clients", len(read), 0.0)
    counted = solved_counts(transcript)
    if counted and clients > 1:
        got = f"training nodes of {counted} of {clients} clients, from sums over changing clients"
        return Leak("honest server", attack, "partly", got, "clients", counted, 0.0)
    got = "no two sums of one round, and no other clients from round to round"
    return Leak("honest server", attack, "nothing", got)


def solved_counts(transcript: Transcript) -> int:
    """Clients whose weight, a count of training nodes, follows from the weights' sums.

    Every round is an equation in the weights of those that trained; a client's is known where the
    equations have one solution for it.
    """
    names = list(transcript.contributed)
    rows = []
    for seen in transcript.sums:
        if seen.vectors is not None and "share" in seen.vectors and len(names) > 1:
            own = [transcript.contributed[name].get(seen.tag, {}) for name in names]
            rows.append([float(np.asarray(one.get("share", 0.0)) != 0) for one in own])
    if not rows:
        return 0
    space = np.linalg.pinv(np.array(rows)) @ np.array(rows)
    return int((np.abs(np.diag(space) - 1) < 1e-6).sum())


def _rests(transcript: Transcript, peer: str, others: tuple[str, ...]) -> Iterator[Sight]:
    """Sums of updates that a client knows, without its own part; an average is as good as a sum."""
    opened = [
        replace(seen, tag=seen.tag or _matching_tag(transcript, at))
        for at, seen in enumerate(transcript.opened.get(peer, []))
    ]
    read = [seen for seen in transcript.sums if seen.vectors is not None]
    for seen in [*opened, *read]:
        own = transcript.contributed[peer].get(seen.tag, {})
        if seen.vectors is not None and own and _is_update(seen.vectors):
            rest = {key: seen.vectors[key] - own[key] for key in own if key in seen.vectors}
            members = tuple(name for name in others if _has_part(transcript, name, seen.tag))
            before = {} if seen in opened else _handed_out(transcript, peer, seen.tag)
            if members:
                yield Sight(rest, members, before)


def _has_part(transcript: Transcript, name: str, tag: str) -> bool:
    """Whether a client's part of a sum is more than zeros."""
    own = transcript.contributed[name].get(tag, {})
    return any(value.size >= _MODEL_SIZE and value.any() for value in own.values())


def _matching_tag(transcript: Transcript, at: int) -> str:
    """The tag of the sum that a client opened as its ``at``-th, where that does not say so."""
    sealed = [one.tag for one in transcript.sums if one.vectors is None]
    return sealed[at] if at < len(sealed) else ""


def _update_leaks(who: Who, sights: Sequence[Sight], graphs: Sequence[ClientGraph]) -> list[Leak]:
    labels, words = "label counts", "features in first-layer gradients"
    if not sights:
        nothing = "it sees no update" if who == "honest server" else "it receives no update"
        return [Leak(who, labels, "nothing", nothing), Leak(who, words, "nothing", nothing)]
    return [_label_leak(who, labels, sights, graphs), _word_leak(who, words, sights, graphs)]


def _by_client(sights: Sequence[Sight], name: str) -> Sight | None:
    mine = [sight for sight in sights if name in sight.clients]
    return min(mine, key=lambda sight: len(sight.clients)) if mine else None


def _label_leak(
    who: Who, attack: str, sights: Sequence[Sight], graphs: Sequence[ClientGraph]
) -> Leak:
    """How far guesses of each client's label distribution are from the truth."""
    truth = {graph.name: _normalized(_label_counts(graph)) for graph in graphs}
    everybody = _normalized(sum((_label_counts(graph) for graph in graphs), np.zeros(1)))
    errors, chances = [], []
    for graph in graphs:
        sight = _by_client(sights, graph.name)
        guess = None if sight is None else label_shares(sight, graph.classes)
        if guess is not None and truth[graph.name].any():
            errors.append(float(np.abs(guess - truth[graph.name]).sum()) / 2)
            chances.append(float(np.abs(everybody - truth[graph.name]).sum()) / 2)
    if not errors:
        return Leak(who, attack, "nothing", "updates have no last bias to read them from")
    error, chance = float(np.mean(errors)), float(np.mean(chances))
    own = all(len(sight.clients) == 1 for sight in sights)
    got = (
        "label distribution of each client"
        if own
        else "label distribution of several clients together"
    )
    return Leak(who, attack, graded(-error, -chance, 0.0), got, "distance", error, chance)


def _word_leak(
    who: Who, attack: str, sights: Sequence[Sight], graphs: Sequence[ClientGraph]
) -> Leak:
    """Which features occur around a client's training nodes.

    Weights of the others have no gradient. They stay, or with weight decay make the full step of an
    optimizer that scales its steps: both can be told apart, so that the area counts either way.
    """
    areas = []
    for graph in graphs:
        sight = _by_client(sights, graph.name)
        scores = None if sight is None else word_scores(sight, graph.num_features)
        present = _features_around(graph)
        if scores is not None and present.any() and not present.all():
            area = area_under_curve(scores[present], scores[~present])
            areas.append(max(area, 1 - area))
    if not areas:
        return Leak(who, attack, "nothing", "updates have no first layer, or all features occur")
    mean = float(np.mean(areas))
    own = all(len(sight.clients) == 1 for sight in sights)
    whose = "each client's training nodes" if own else "training nodes, from a sum of clients"
    got = f"which features occur near {whose}"
    return Leak(who, attack, graded(mean, 0.5, 1.0), got, "AUC", mean, 0.5)


def _label_counts(graph: ClientGraph) -> Floats:
    labels = graph.y[graph.train_mask]
    return np.bincount(labels[labels >= 0], minlength=graph.classes).astype(np.float64)


def _features_around(graph: ClientGraph, hops: int = 2) -> npt.NDArray[np.bool_]:
    """Features of nodes that a network of two layers reads for the training nodes."""
    near = graph.train_mask.copy()
    source, target = graph.edge_index
    for _ in range(hops):
        wider = near.copy()
        wider[source[near[target]]] = True
        near = wider
    present: npt.NDArray[np.bool_] = (to_dense(graph.x[near]) != 0).any(0)
    return present


def _normalized(counts: Any) -> Floats:
    values = np.maximum(np.asarray(counts, np.float64), 0.0)
    return values / max(float(values.sum()), 1e-12)


def _is_update(vectors: Vectors) -> bool:
    return any(np.size(value) >= _MODEL_SIZE for value in vectors.values())


def _before(sight: Sight, name: str) -> Any:
    return np.asarray(sight.before.get(name, 0.0), np.float64)


def _handed_out(transcript: Transcript, party: str, tag: str) -> Vectors:
    """The weights that a client was sent before it contributed to a sum."""
    last: Vectors = {}
    for one in transcript.messages:
        if one.party != party:
            continue
        if one.direction == "up" and tag in _tags(one.payload):
            return last
        for key in ("weights", "mean"):
            value = one.payload.get(key)
            if one.direction == "down" and isinstance(value, dict):
                last = value
    return last


def _tags(payload: Payload) -> list[str]:
    return [
        str(part["tag"]) for part in payload.values() if isinstance(part, dict) and "tag" in part
    ]
