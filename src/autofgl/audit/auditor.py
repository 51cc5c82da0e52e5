"""All attacks on one configuration."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autofgl.audit.attacks import peer_leaks, server_leaks
from autofgl.audit.membership import Floats, membership_leak, model_losses
from autofgl.audit.probes import Probes
from autofgl.audit.rows import row_leaks
from autofgl.audit.transcript import Transcript, record, shortened
from autofgl.audit.verdict import Audit, Leak
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.networks import empty_network
from autofgl.nn.models.spec import spec_from_json
from autofgl.runtime.method import Method

#: Rounds that are recorded unless somebody says how many; more where every round shows more rows.
ROUNDS, ROUNDS_WITH_ROWS = 20, 120


def run_audit(
    kind: type[Method],
    name: str,
    clients: Sequence[ClientGraph],
    settings: Any,
    seed: int,
    secure: str,
    rounds: int | None = None,
    models: Mapping[str, Any] | None = None,
    report: Callable[[str], None] | None = None,
) -> Audit:
    """Record a short run of a method and attack it.

    Args:
        name: What the method is called.
        rounds: Rounds to record at most; a number that suits the method if not given.
        models: Trained networks by client, or one called ``model``, to infer membership from;
            those of the recorded run if not given.
        report: Called with a line on what is done next.
    """
    tell = report or (lambda _: None)
    graphs = kind.arrange(clients)
    share = getattr(settings, "share", "none")
    most = rounds or (ROUNDS if share == "none" else ROUNDS_WITH_ROWS)
    short = shortened(settings, most)
    tell(f"recording up to {most} rounds of {name}")
    transcript = record(kind, clients, short, seed, secure, tell)
    leaks = []
    if kind.pools:
        leaks.append(Leak("honest server", "pooled graphs", "everything", "all graphs"))
    tell("attacking as an honest server and as a curious peer")
    leaks += server_leaks(transcript, graphs, secure)
    if len(graphs) > 1:
        leaks += peer_leaks(transcript, graphs)
    if share != "none":
        leaks += row_leaks(transcript, graphs, share, short.normalize_features, tell)
    losses = _losses(models or _models(transcript), graphs, short.normalize_features)
    leaks.append(membership_leak(losses, graphs))
    tell("cheating as an active server")
    leaks += Probes(kind, clients, short, seed, secure).run()
    order = ("honest server", "active server", "curious peer")
    leaks.sort(key=lambda leak: order.index(leak.who))
    planned = int(settings.rounds)
    return Audit(name, secure, len(clients), min(most, planned), planned, tuple(leaks))


def _models(transcript: Transcript) -> dict[str, Any]:
    """The networks that a recorded run ended with."""
    import torch

    models: dict[str, Any] = {}
    outcome = transcript.outcome
    for name, weights in outcome.models.items() if outcome is not None else ():
        assert outcome is not None
        models[name] = empty_network(spec_from_json(outcome.specs.get(name, outcome.spec)))
        models[name].load_state_dict({key: torch.tensor(one) for key, one in weights.items()})
    return models


def _losses(
    models: Mapping[str, Any], graphs: Sequence[ClientGraph], scaling: Any
) -> dict[str, Floats]:
    """Losses of every client's nodes by the model that leaves it, or that all have."""
    leaving = {graph.name: models.get(graph.name, models.get("model")) for graph in graphs}
    by_name = {graph.name: graph for graph in graphs}
    return {
        name: model_losses(model, by_name[name], scaling)
        for name, model in leaving.items()
        if model is not None
    }
