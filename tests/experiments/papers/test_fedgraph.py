"""The definitions of FedGraph's figures; nothing is run."""

from pathlib import Path

import numpy as np
import pytest

from autofgl.config import sort_settings
from autofgl.errors import UserError
from autofgl.experiments.papers import FIGURES, TABLES
from autofgl.experiments.plan import Figure, Options, Run, plan
from autofgl.graphs.catalog import DATASETS, PARTITIONERS, PartitionSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.partition import partition

OUT = Path("out")


FEDGRAPH = [name for name in FIGURES if name.startswith("fedgraph")]


@pytest.fixture(params=FEDGRAPH)
def figure(request: pytest.FixtureRequest) -> Figure:
    return FIGURES[request.param]


def planned(name: str, **options: object) -> list[Run]:
    return plan(FIGURES[f"fedgraph-{name}"], Options(OUT, **options))


def test_all_seven_are_there() -> None:
    assert [f"fedgraph-fig{number}" for number in range(6, 13)] == FEDGRAPH
    assert not set(FIGURES) & set(TABLES)


def test_every_run_is_valid_and_has_the_papers_settings(figure: Figure) -> None:
    for run in plan(figure, Options(OUT)):
        config = run.config(Options(OUT))
        assert config.dataset == f"planetoid:{run.setting.group}"
        assert config.dataset in DATASETS
        assert config.partition in PARTITIONERS
        layers = sort_settings(config)
        method = layers.method
        assert layers.data.split == "supervised"
        assert (method.hidden, method.dropout, method.lr) == (16, 0.5, 0.01)
        large = run.setting.group == "pubmed"
        assert (method.batch, method.layer_size) == ((1024, 8192) if large else (256, 256))
        assert (method.evaluate_every, method.server_share) == (5, 0)
        assert config.clients == (50 if figure.name.endswith("fig8") else 20)
        if run.variant.name == "policy":
            learning = (method.sampler, method.episodes, method.episode_rounds, method.rounds)
            assert learning == ("ddpg", 12, 40, 0)
            assert method.policy == ""
        else:
            assert method.rounds == 100
            assert bool(method.policy) == (method.sampler == "ddpg")


def test_no_two_runs_share_a_folder(figure: Figure) -> None:
    panels = [panel.name for panel in figure.settings]
    lines = [line.name for line in (*figure.policies, *figure.variants)]
    assert len(set(panels)) == len(panels)
    assert len(set(lines)) == len(lines)


def test_a_policy_is_learned_once_and_before_it_is_used() -> None:
    planned_runs = [
        (run.setting.name, run.variant.name, run.seed) for run in planned("fig7", seeds=2)
    ]
    names = ("ddpg", "full", "sage", "fastgcn")
    first, second = (
        [(panel, name, seed) for panel in ("cora", "citeseer", "pubmed") for name in names]
        for seed in range(2)
    )
    for panel in ("pubmed", "citeseer", "cora"):
        first.insert(first.index((panel, "ddpg", 0)), (panel, "policy", 0))
    assert planned_runs == first + second
    for run in planned("fig7", seeds=2, datasets=("Cora",), rows=("ddpg",))[1:]:
        policy = run.config(Options(OUT)).settings["policy"]
        assert policy == str(OUT.absolute() / "cora/policy/seed-0/policy.afp")
    assert {run.variant.name for run in planned("fig7", rows=("full",))} == {"full"}


def test_what_each_figure_varies() -> None:
    def varied(name: str, *keys: str) -> set[tuple[object, ...]]:
        runs = (run for run in planned(name, datasets=("cora",)) if run.variant.name != "policy")
        configs = (run.config(Options(OUT)) for run in runs)
        return {(c.partition, *(c.settings.get(key) for key in keys)) for c in configs}

    samplers = ("ddpg", "full", "sage", "fastgcn")
    assert {run.variant.name for run in planned("fig6")} == {"policy"}
    assert {run.seed for run in planned("fig6")} == {0, 1, 2}
    assert varied("fig7", "sampler") == {("overlap", sampler) for sampler in samplers}
    assert {run.setting.group for run in planned("fig8")} == {"cora"}
    assert varied("fig9", "overlap_spread", "sampler") == {
        ("overlap", spread, sampler) for spread in (0.1, 0.2, 0.3) for sampler in samplers
    }
    assert varied("fig10", "share", "sampler") == {
        (cut, share, "ddpg") for cut in ("overlap", "random") for share in ("hidden", "all", "none")
    }
    assert varied("fig11", "layers", "sampler") == {
        ("overlap", layers, sampler) for layers in (2, 3, 4) for sampler in ("ddpg", "full")
    }
    assert varied("fig12", "dirichlet_beta", "sampler") == {
        ("dirichlet", 0.3, sampler) for sampler in samplers
    }


@pytest.mark.parametrize(("spread", "ratio"), [(0.1, 0.6), (0.2, 0.4), (0.3, 0.2)])
def test_levels_of_heterogeneity_give_the_papers_ratios(
    small_graph: ClientGraph, spread: float, ratio: float
) -> None:
    settings = PartitionSettings(overlap_mean=0.8, overlap_spread=spread)
    ratios = []
    for seed in range(50):
        clients = partition(small_graph, 20, "overlap", seed, settings)
        sizes = [client.num_nodes for client in clients]
        ratios.append(min(sizes) / max(sizes))
    assert np.mean(ratios) == pytest.approx(ratio, abs=0.06)


def test_episodes_are_those_of_policies_only() -> None:
    asked = Options(OUT, episodes=4, datasets=("cora",), seeds=1)
    runs = plan(FIGURES["fedgraph-fig7"], asked)
    planned_runs = {run.variant.name: run.config(asked).settings.get("episodes") for run in runs}
    assert planned_runs == {"policy": 4, "ddpg": None, "full": None, "sage": None, "fastgcn": None}


def test_rounds_are_those_of_trainings_only() -> None:
    asked = Options(OUT, rounds=300, datasets=("cora",), seeds=1)
    rounds = {
        run.variant.name: run.config(asked).settings["rounds"]
        for run in plan(FIGURES["fedgraph-fig7"], asked)
    }
    assert rounds == {"policy": 0, "ddpg": 300, "full": 300, "sage": 300, "fastgcn": 300}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fig7", {"rows": ("sgae",)}, "unknown row of this figure 'sgae': did you mean sage"),
        ("fig7", {"datasets": ("corra",)}, "unknown dataset of this figure 'corra'.*cora"),
        ("fig7", {"seeds": 0}, "--seeds 0"),
        ("fig7", {"rounds": 0}, "--rounds 0"),
        ("fig6", {"rounds": 9}, "no effect on fedgraph-fig6"),
        ("fig7", {"secure": "ckkss"}, "did you mean ckks"),
    ],
)
def test_mistakes(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(name, **options)
