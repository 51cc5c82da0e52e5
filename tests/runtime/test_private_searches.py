"""Differential privacy in searches: every sum of a search is counted once and has noise once."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.federation.party import Refused
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.portfolio import KNOWN
from autofgl.methods.fl_agcns.settings import CandidateSettings, DartsSettings, FLAGCNSSettings
from autofgl.methods.graphfl.settings import GraphFLGASettings
from autofgl.runtime.private import LARGEST_LOSS
from autofgl.secure.accountant import Releases
from federations import make, parties, to_the_end

SMALL: dict[str, Any] = {"layers": 2, "hidden": 8, "types": "gcn,sage"}
#: Two recipes race, one has other settings, and two go on to the end.
RACES: dict[str, Any] = {"trials": 2, "trial_rounds": 2, "tune": 1, "finalists": 1, "inits": 1}
SELECTED: dict[str, Any] = {"tune": 16, "finalists": 2, "inits": 3, "rounds": 20}
DARTS: dict[str, Any] = {**SMALL, **RACES, "generations": 2, "weight_steps": 2, "rounds": 9}
AGCNS: dict[str, Any] = {
    **SMALL, **RACES, "optimizers": "controller", "generations": 3, "warmup": 1, "weight_steps": 2,
    "population": 4, "codes_per_step": 2, "rounds": 9, "known": False,
}  # fmt: skip
GA: dict[str, Any] = {
    "rounds": 2, "population": 4, "iterations": 1, "inner_steps": 1, "adapt_steps": 1, "hidden": 8,
    "structure_after": 0, "structure_margin": 0.0, "families": "sgc,gcn",
}  # fmt: skip
DP: dict[str, Any] = {"secure": "shares", "dp_epsilon": 8.0}


class Watch:
    """The sums that a client puts something into, and the noise that it draws for them."""

    def __init__(self, party: Any) -> None:
        self.sums: Counter[str] = Counter()
        self.noise: Counter[tuple[str, str]] = Counter()
        record, inner = party.private.record, party.private.sums._inner
        usual_noise, usual_protect = record.noise, inner.protect

        def noise(kind: str, tag: str, vectors: Any) -> Any:
            self.noise[kind, tag] += 1
            return usual_noise(kind, tag, vectors)

        def protect(tag: str, vectors: Any, **about: Any) -> Any:
            self.sums[tag] += 1
            return usual_protect(tag, vectors, **about)

        record.noise, inner.protect = noise, protect


@pytest.mark.parametrize(
    ("method", "settings", "updates", "figures"),
    [
        # Two generations of two steps on W and one on alpha; two networks of one round, the better
        # of two, and one with other settings of two; a finalist, whose two evaluations on the way
        # count as rounds. Figures at the end of every rung and of the training, and the last ones.
        ("fl-darts", DARTS, 2 * (2 + 1) + (2 + 1) + 2 + (9 - 2 - 2), (2 + 1) + 2 + 1 + 1),
        # Three generations of two steps, then the same; three populations, children after the
        # warm-up, the last population, then the same.
        ("fl-agcns", AGCNS, 3 * 2 + (2 + 1) + 2 + (9 - 2 - 2), 3 + 2 + 1 + (2 + 1) + 2 + 1 + 1),
        ("graphfl-ga", GA, 2, 1),
    ],
)
def test_every_sum_counts_once_and_has_noise_once(
    small_clients: list[ClientGraph],
    method: str,
    settings: dict[str, Any],
    updates: int,
    figures: int,
) -> None:
    run = make(method, small_clients, **settings, **DP)
    watches = [Watch(party) for party in parties(run).values()]
    run.setup()
    to_the_end(run)
    run.finish()
    told = run.clients.privacy()
    assert told["releases"] == {"updates": updates, "figures": figures}
    assert told["epsilon"] <= 8 + 1e-9
    plan = run.settings.releases
    assert updates <= plan.updates
    assert figures <= plan.figures
    for watch in watches:
        assert set(watch.sums.values()) == {1}
        assert set(watch.noise.values()) == {1}
        kinds = Counter(kind for kind, _ in watch.noise)
        assert (kinds["u"], kinds["f"]) == (updates, figures)
        without = {tag for tag in watch.sums if tag not in {name for _, name in watch.noise}}
        # Node counts and times, which are the same at every client.
        assert all("start" in tag or "seconds" in tag for tag in without), without


def test_plans_are_what_a_whole_run_releases_at_most() -> None:
    """Brackets of 16 and 4 recipes with rungs after 1, 2 and 5 rounds; figures at every rung, of
    every training of a finalist, and of the one that is kept.
    """
    about = {"trials": 4, "trial_rounds": 5, "tune": 16, "finalists": 2, "inits": 3, "rounds": 20}
    darts = DartsSettings(generations=10, weight_steps=3, **about)
    raced, tuned = 4 * 1 + 2 * 1 + 1 * 3, 16 * 1 + 8 * 1 + 4 * 3
    figures = 3 * 4 + 3 * 16 + 2 * 3 + 1
    assert darts.releases == Releases(10 * 4 + raced + tuned + 2 * 3 * 20, figures)
    agcns = FLAGCNSSettings(
        optimizers="controller", generations=10, weight_steps=3, known=False, **about
    )
    updates = 10 * 3 + raced + tuned + 2 * 3 * 20
    assert agcns.releases == Releases(updates, 2 * 10 + 1 + figures)
    known = FLAGCNSSettings(optimizers="controller", generations=10, weight_steps=3, **about)
    assert known.releases is not None
    assert known.releases.figures == 2 * 10 + 1 + figures + 3 * len(KNOWN)
    assert known.releases.updates > updates
    random = CandidateSettings(candidates=7, candidate_rounds=5, **SELECTED)
    assert random.releases == Releases(7 * 5 + tuned + 2 * 3 * 20, 3 * 7 + 3 * 16 + 2 * 3 + 1)
    assert GraphFLGASettings(rounds=7).releases == Releases(7, 1)


@pytest.mark.parametrize("method", ["fl-agcns", "fl-random"])
def test_test_figures_are_told_of_finalists_alone_and_have_noise(
    small_clients: list[ClientGraph], method: str
) -> None:
    """What has no bound has no noise: then it has to be nothing."""
    settings = AGCNS if method == "fl-agcns" else {**SMALL, **SELECTED, "rounds": 9}
    settings = (
        {**settings, "candidates": 2, "candidate_rounds": 2} if method != "fl-agcns" else settings
    )
    run = make(method, small_clients, **{**settings, "tune": 1, "finalists": 1, "inits": 1}, **DP)
    sent: list[tuple[bool, Any, Any]] = []
    private = parties(run)["client-0"].private
    release = private.sums.release

    def watch(tag: str, **about: Any) -> Any:
        if "metrics" in about.get("figures", {}):
            values, bounds = (
                about[key]["metrics"].reshape(3, 3)[2] for key in ("figures", "bounds")
            )
            sent.append((run._selection.finals.begun, values, bounds))
        return release(tag, **about)

    private.sums.release = watch
    run.setup()
    to_the_end(run)
    run.finish()
    final = [one for one in sent if one[0]]
    assert len(final) == 2
    assert len(sent) > 4
    for finals, values, bounds in sent:
        assert bounds.tolist() == ([LARGEST_LOSS, 1.0, 0.0] if finals else [0.0] * 3)
        assert bool(values.any()) == finals


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("fl-agcns", {}, "set optimizers=controller"),
        ("fl-agcns", {"optimizers": "clients"}, "set optimizers=controller"),
        (
            "fl-agcns",
            {"optimizers": "controller", "objectives": "loss,latency"},
            "leave latency out of objectives",
        ),
        ("graphfl-ga", {"mode": "threshold"}, "set mode=continuous or parallel"),
    ],
)
def test_what_is_no_sum_is_refused_with_what_to_set(
    small_clients: list[ClientGraph], tmp_path: Any, method: str, settings: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        autofgl.run(method, small_clients, dp=8, out=tmp_path / "r", **settings)


class TestAgcnsClient:
    @pytest.fixture
    def party(self, small_clients: list[ClientGraph]) -> Any:
        method = make("fl-agcns", small_clients, **AGCNS, **DP)
        method.setup()
        self.method = method
        return parties(method)["client-0"]

    def test_a_server_that_asks_for_preferred_codes_is_refused(self, party: Any) -> None:
        with pytest.raises(Refused, match="no noise covers"):
            party.permit("evolve", {"generation": 1, "quota": 2})
        with pytest.raises(Refused, match="no noise covers"):
            party.permit("latency", {})
        party.permit("evolve", {"generation": 1, "quota": 0})

    def test_what_it_tells_has_a_bound_and_no_size(self, party: Any) -> None:
        told = party._figures(self.method.search.population, {"totals": [1, 1, 1]})
        assert set(told) == {"losses"}
        nodes = party._nodes.val_field.measured
        assert nodes > 1
        sums, _ = party._evaluated(self.method.search.population)
        exact = sums[:, 0] / nodes
        assert np.allclose(told["losses"], exact)
        counted = self.method.search._val_counts
        assert set(counted.values()) == {1}, "whether there are any nodes, and not how many"
        assert LARGEST_LOSS == 4.0


def test_a_configuration_shows_in_nothing_that_is_sent(small_clients: list[ClientGraph]) -> None:
    """Blocks that a client does not have stay as they were; of its search it says nothing."""
    method = make("graphfl-ga", small_clients, **GA, **DP)
    method.setup()
    method.step()
    sharing = parties(method)["client-0"].sharing
    reference, sent = sharing.reference(), sharing.vectors()
    assert sent.keys() == reference.keys() == sharing._space.sizes.keys()
    own = {part.block for part in sharing._space.parts_of(sharing._active).values()}
    others = sent.keys() - own
    assert others, "there are networks that it has not"
    assert all(np.array_equal(sent[name], reference[name]) for name in others)
    assert sharing.after({"evolve": False}) == {"note": {"trials": 0, "seconds": 0.0}}
