"""Recipes worth racing, by what the federation is like.

A way of learning together takes part by its line in :data:`WAYS` and by recipes in :data:`ROWS`. A
recipe has a reason and a condition on the look. Those that cost little come first, so that a run
that is cut short has them. Every federation gets the baselines of the proof.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autofgl.methods.auto.look import Look
from autofgl.methods.fl_agcns.portfolio import CONSISTENT, FIXED
from autofgl.runtime.race import Entry
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.sharing import Sharing
from autofgl.sharing.across.common import ACROSS
from autofgl.sharing.alone_rounds import ALONE
from autofgl.sharing.common import COMMON
from autofgl.sharing.ditto import DITTO
from autofgl.sharing.encoder import ENCODER
from autofgl.sharing.head import HEAD

#: Ways of learning together, by the names that recipes call them.
WAYS: Mapping[str, Sharing] = {
    way.name: way for way in (COMMON, ALONE, ACROSS, HEAD, ENCODER, DITTO)
}
#: Ways in which every client ends with the same network, and those after which it may fine-tune
#: what it has: embeddings of other clients are of the common network, and who trains for itself has
#: done so.
COMMON_WAYS = frozenset({"common", "across"})
TUNABLE_WAYS = frozenset({"common", "head", "encoder"})
#: Ways in which every client ends with a network of its own.
OWN_WAYS = ("alone", "head", "encoder", "ditto")
#: Training alone comes near the best with this many times its loss.
NEAR = 1.3

#: The baselines of the proof: federated averaging of a GCN, and each client alone.
FEDAVG, LONER = "common: gcn", "alone: gcn"

_SGC = " ".join(f"{key}={value}" for key, value in FIXED[0].settings.items())
_CONSISTENT = " ".join(f"{key}={value}" for key, value in sorted(CONSISTENT.items()))

#: Labeled training nodes are few if they are at most this share of all nodes.
_FEW = 0.2
#: Clients' mixes of classes are unlike from this skew on.
_SKEWED = 0.05
#: Edges between clients are worth the messages from this share of all edges on.
_CROSSING = 0.02
#: From this share on, they come first.
MOSTLY_ELSEWHERE = 0.3


@dataclass(frozen=True)
class Proposal:
    """A recipe as text, why it is worth racing, and where."""

    recipe: str
    why: str
    when: Callable[[Look], bool] = lambda _: True


def _alike(look: Look) -> bool:
    """Whether neighbors tell a node's class."""
    return look.homophilous


def _mixed(look: Look) -> bool:
    """Whether neighbors say little, or the opposite."""
    return not look.homophilous


def _few_labels(look: Look) -> bool:
    """Whether most nodes have no label to learn from, and neighbors tell a node's class."""
    return look.homophilous and look.train <= _FEW * look.nodes


def _crossing(look: Look) -> bool:
    """Whether many edges run between clients, and all are willing to convolve across them."""
    return look.across and look.cross >= _CROSSING


def unlike(look: Look) -> bool:
    """Whether clients' mixes of classes are unlike."""
    return look.clients > 1 and look.skew >= _SKEWED


def _alike_across(look: Look) -> bool:
    """The same, and neighbors tell a node's class."""
    return _crossing(look) and look.homophilous


def _few_labels_across(look: Look) -> bool:
    """The same, and most nodes have no label to learn from."""
    return _crossing(look) and _few_labels(look)


#: In the order in which they begin. Rows of length 1 make small steps at the usual rate: networks
#: on them would lose a short race to others that are no better, and take a larger one.
ROWS: tuple[Proposal, ...] = (
    Proposal(FEDAVG, "the baseline of the proof"),
    Proposal(LONER, "the baseline of the proof"),
    Proposal("common: appnp; normalize_features=false", "neighbors are alike", _alike),
    Proposal("across: appnp; normalize_features=false", "neighbors elsewhere", _alike_across),
    Proposal("common: gcn; normalize_features=false", "features as they are"),
    Proposal("across: gcn; normalize_features=false", "neighbors elsewhere", _crossing),
    Proposal(f"across: appnp; {_CONSISTENT}", "few labels, more neighbors", _few_labels_across),
    Proposal(f"common: appnp; {_CONSISTENT}", "few labels, alike neighbors", _few_labels),
    Proposal("common: relu | - | identity; lr=0.03", "neighbors say little", _mixed),
    Proposal("common: gcn; lr=0.03", "a larger step"),
    Proposal("common: sage; lr=0.03", "tells a node from its neighbors"),
    Proposal("across: sage; lr=0.03", "neighbors elsewhere", _crossing),
    Proposal("alone: sage; normalize_features=false", "neighbors are unlike", _mixed),
    Proposal("head: gcn; normalize_features=false", "mixes of classes are unlike", unlike),
    Proposal("common: appnp; lr=0.03", "neighbors are alike", _alike),
    Proposal("ditto: gcn; normalize_features=false", "mixes of classes are unlike", unlike),
    Proposal("alone: appnp; normalize_features=false", "alike neighbors", _alike),
    Proposal("common: relu | gin<0 | identity", "counts neighbors"),
    Proposal(f"common: grand; {_CONSISTENT}", "few labels, alike neighbors", _few_labels),
    Proposal("alone: relu | - | identity; lr=0.03", "neighbors say little", _mixed),
    Proposal("common: arma; lr=0.03", "has a path around the neighbors", _mixed),
    Proposal(f"common: sgc; {_SGC}", "few labels, alike neighbors", _alike),
    Proposal("common: sage; normalize_features=false", "tells a node from its neighbors"),
    Proposal("alone: gcn; normalize_features=false", "features as they are"),
    Proposal("common: relu | - | identity; lr=0.03", "no edges", _alike),
    Proposal("common: gat; lr=0.03", "weighs neighbors"),
    Proposal("common: gatedgraph; lr=0.03", "keeps a memory of the node", _mixed),
)


def portfolio(look: Look, most: int) -> list[Proposal]:
    """The rows whose recipes race, at most so many; after the baselines those across clients, where
    most of what a node could learn of its neighbors is elsewhere.
    """
    rows = [row for row in ROWS if row.when(look)]
    if look.cross >= MOSTLY_ELSEWHERE:
        first = (FEDAVG, LONER)
        rows.sort(key=lambda row: row.recipe not in first and not row.recipe.startswith("across"))
    return rows[:most]


def other_ways(best_first: Sequence[Entry], look: Look) -> list[Recipe]:
    """The best recipe in other ways of sharing: across clients where many edges run between them,
    and in ways of their own where clients are unlike, or where training alone comes near the best.
    """
    if not best_first:
        return []
    best, lowest = Recipe.parse(best_first[0].recipe), best_first[0].loss
    alone = [one.loss for one in best_first if Recipe.parse(one.recipe).sharing == "alone"]
    own = unlike(look) or any(loss <= NEAR * lowest for loss in alone)
    worth = ["common", *(["across"] if _crossing(look) else []), *(OWN_WAYS if own else [])]
    raced = {one.recipe for one in best_first}
    recipes = [best.model_copy(update={"sharing": way}) for way in worth]
    if best.network == "sgc":  # a single layer: one half would be empty
        recipes = [one for one in recipes if one.sharing not in ("head", "encoder")]
    return [one for one in recipes if str(one) not in raced]


def is_common(recipe: Recipe) -> bool:
    """Whether all clients end with the same network."""
    return (recipe.sharing or "common") in COMMON_WAYS


def is_tunable(recipe: Recipe) -> bool:
    """Whether clients may fine-tune what they end with."""
    return (recipe.sharing or "common") in TUNABLE_WAYS


def is_fixed(recipe: Recipe) -> bool:
    """Whether it trains a fixed network by federated averaging."""
    return (recipe.sharing or "common") == "common" and "|" not in recipe.network
