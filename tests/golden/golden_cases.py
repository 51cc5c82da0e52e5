"""The runs whose results are kept: command lines of `autofgl`, nothing that lies behind them."""

#: A graph of 240 nodes; small enough that a run takes a second.
GRAPH = "--dataset synthetic --seed 1 --set nodes=240 classes=3 features=36 degree=6"
GRAPH += " homophily=0.85 topic_strength=0.6 hidden=8"

_SEARCH = "--set layers=3 rounds=15 lr=0.05"
_GENERATIONS = f"{_SEARCH} population=8 codes_per_step=4 weight_steps=2 generations=6 warmup=2"
_AGCNS = f"fl-agcns {_GENERATIONS} trials=4 trial_rounds=6 finalists=2 tune=3"
_RANDOM = f"fl-random {_SEARCH} candidates=5 candidate_rounds=6 finalists=2 tune=3"
_RL = f"fl-rl {_SEARCH} candidates=8 candidate_rounds=5 finalists=1 tune=3"
_DARTS = f"fl-darts {_SEARCH} generations=8 trials=3 trial_rounds=6 finalists=2 tune=3"
_GRAPHFL = "graphfl --set rounds=10 inner_steps=2 adapt_steps=2 lr=0.05"
_GA = "graphfl-ga --set rounds=6 inner_steps=1 adapt_steps=2 population=4 iterations=2"
_GA += " structure_after=1 structure_margin=0"
_THRESHOLD = f"{_GA} mode=threshold threshold=0.95 model=gcn lr=0.3"
_SFGNN = "sfgnn --partition dirichlet --set rounds=15 lr=0.05 collect_models=true"
_TUNED = "asfgnn --partition labels --clients 2 --set rounds=8 trials=5 trial_rounds=6 startup=3"
_TUNED += " collect_models=true tune_hidden=4,8"
_AUTO = "auto --set rounds=12 trial_rounds=6 recipes=5 tune=3 trials=3 finalists=2 lr=0.05"
_DDPG = (
    "fedgraph --set rounds=10 lr=0.05 sampler=ddpg batch=16 episodes=4 warm_up=2 episode_rounds=4"
)
_DDPG += " profile_rounds=4"

#: Short runs of the methods that sum through secure sums, for every secure mode.
SUMMING = {
    "fedavg": "fedavg --set rounds=30 lr=0.05",
    "fedavg-parameters": "fedavg --set rounds=12 lr=0.05 aggregate=parameters local_epochs=2",
    "fl-agcns": _AGCNS,
    "fl-random": _RANDOM,
    "fl-rl": _RL,
    "fl-darts": _DARTS,
    "fedgraph": "fedgraph --set rounds=15 lr=0.05",
    "graphfl": _GRAPHFL,
    "graphfl-ga": _GA,
    "sfgnn": _SFGNN,
    "asfgnn": _TUNED,
}
#: The same under encryption, somewhat shorter.
ENCRYPTED = {
    f"{name}/ckks": f"{line} --secure ckks"
    for name, line in {
        **SUMMING,
        "fl-agcns": f"fl-agcns {_GENERATIONS} trials=0 finalists=1 types=gcn,sage optimisers=both",
        "graphfl-ga": f"{_GA} rounds=2",
        "asfgnn": f"{_TUNED} trials=2 trial_rounds=2 rounds=2",
    }.items()
}
#: Everything is an own process here, behind TLS.
SITES = {
    "fedavg/nvflare": "fedavg --secure shares --engine nvflare --set rounds=4",
    "fedgraph/nvflare": "fedgraph --secure none --engine nvflare --set rounds=3",
}
#: Other ways through the methods. Several lines are several runs: only the last one is kept.
VARIANTS = {
    "centralized": "centralized --set rounds=30 lr=0.05",
    "centralized-gat-patience": "centralized --set rounds=80 model=gat heads=2 patience=3 lr=0.1",
    "separate": "separate --set rounds=30 lr=0.05",
    "separate-patience": "separate --set rounds=99 patience=3 lr=0.1 select=accuracy",
    **{
        f"fedavg-{model}": f"fedavg --set rounds=15 lr=0.05 model={model} heads=2"
        for model in ("gat", "sage", "sgc", "appnp", "agnn", "arma", "gatedgraph", "gin", "sfgnn")
    },
    "fedavg-additive": "fedavg --secure shares-additive --set rounds=15 lr=0.05",
    "fedavg-participation": "fedavg --clients 5 --partition random --set rounds=12 lr=0.05"
    " aggregate=parameters participation=0.5",
    "fedavg-participation/shares": "fedavg --clients 5 --partition dirichlet --secure shares"
    " --set rounds=12 lr=0.05 aggregate=parameters participation=0.5",
    "fedavg-gradients-participation": "fedavg --clients 4 --partition louvain"
    " --set rounds=20 lr=0.05 participation=0.6",
    "fedavg-patience": "fedavg --set rounds=99 patience=3 lr=0.1",
    "fedavg-plain": "fedavg --clients 2 --partition degree --set rounds=15 lr=0.05 protocol=plain"
    " select=last layers=3",
    "fl-agcns-accuracy": f"{_AGCNS} objectives=accuracy optimisers=controller",
    "fl-agcns-paper": f"fl-agcns {_GENERATIONS} objectives=loss warmup=0 codes_per_step=0 trials=0"
    " finalists=1 optimisers=clients",
    "fl-agcns-leaves": f"{_AGCNS} objectives=accuracy,params fusion=leaves layers=4"
    " aggregate=parameters",
    "fl-agcns-predecessors": f"{_AGCNS} per_predecessor=true types=gcn,gat,sage layer_dropout=0.2"
    " search_weight_decay=0.001 search_lr=0 'start=relu | gcn<0 gcn<1 | identity'",
    "fl-random-loss": f"{_RANDOM} fitness=loss fusion=leaves patience=2",
    "fl-rl-loss": f"{_RL} fitness=loss memory=2 replay=3",
    "fl-darts-steps": f"{_DARTS} weight_steps=2 search_lr=0.02 arch_lr=0.1 fusion=leaves",
    "fedgraph-all": "fedgraph --partition random --set rounds=12 lr=0.05 share=all layers=3",
    "fedgraph-none": "fedgraph --partition overlap --set rounds=12 lr=0.05 share=none"
    " evaluate_every=2",
    "fedgraph-fixed": "fedgraph --partition random --set rounds=12 lr=0.05 sampler=fixed"
    " batch=8 keep=0.3,0.6 iterations=2",
    "fedgraph-sage": "fedgraph --set rounds=12 lr=0.05 sampler=sage batch=8 fanouts=2,3",
    "fedgraph-fastgcn": "fedgraph --partition shared --set rounds=12 lr=0.05 sampler=fastgcn"
    " batch=8 layer_size=20",
    "fedgraph-ddpg": _DDPG,
    "fedgraph-ddpg/shares": f"{_DDPG} --secure shares",
    "fedgraph-ddpg-server": f"{_DDPG} server_share=0.2 share=all",
    "fedgraph-policy": f"{_DDPG}\n"
    "fedgraph --set rounds=12 lr=0.05 sampler=ddpg batch=16 policy=0/policy.afp",
    "graphfl-gcn": f"{_GRAPHFL} model=gcn first_order=true tasks=2 outer_steps=2 optimiser=sgd",
    "graphfl-new": f"{_GRAPHFL} new_clients=2 adapt=if-better --clients 5 --partition random",
    "graphfl-unseen": f"{_GRAPHFL} unseen_classes=1 participation=0.6 support=3 query=4"
    " adapt_support=4 adapt_lr=0.05 select=accuracy --clients 4 --partition random",
    "graphfl-ga-threshold": _THRESHOLD,
    "graphfl-ga-threshold/shares": f"{_THRESHOLD} --secure shares",
    "graphfl-ga-parallel": f"{_GA} mode=parallel adopt_after=2",
    "graphfl-ga-random": f"{_GA} searcher=random families=sgc,gcn,sage,appnp optimisers=adam,sgd"
    " deepest=3 measure=accuracy fitness=adapted alone=true",
    "graphfl-ga-rates": f"{_GA} evolve_structure=false equal_steps=false environment=false"
    " participation=0.6 new_clients=1 --clients 5",
    "sfgnn-own": "sfgnn --partition labels --clients 2 --secure none --set rounds=12 lr=0.05"
    " mixing=none chosen_by=client 'per_client=client-0 layers=3 lr=0.02; client-1 dropout=0'",
    "sfgnn-constant": f"{_SFGNN} mixing=constant keep=0.3 local_epochs=2 --secure shares-additive",
    "asfgnn-random": f"{_TUNED} searcher=random joint=false --secure none",
    "asfgnn-grid": f"{_TUNED} searcher=grid joint=false tune_dropout=0,0.5"
    " tune_weight_decay=\"''\" tune_layers=1,2 tune_lr=\"''\" tune_hidden=8 --secure none",
    "asfgnn-pruning": f"{_TUNED} pruning=true trials=6 trial_rounds=14 --secure none",
    "auto/none": f"{_AUTO} collect_models=true --secure none",
    "auto/shares": _AUTO,
}

CASES: dict[str, str] = {
    **{f"{name}/none": f"{line} --secure none" for name, line in SUMMING.items()},
    **{f"{name}/shares": f"{line} --secure shares" for name, line in SUMMING.items()},
    **VARIANTS,
    **ENCRYPTED,
    **SITES,
}
#: Those that the fast tests leave out: long ones, and those whose parts other fast cases pass
#: through: a method that has a case in the clear, a sum that has a case with another method, a
#: network that tests/nn looks at by itself.
SLOW = {
    *ENCRYPTED, *SITES, *(name for name in CASES if name.startswith("fl-agcns-")),
    *(f"{name}/shares" for name in SUMMING if name not in ("fedavg", "fl-agcns", "sfgnn")),
    *(f"fedavg-{model}" for model in ("sage", "sgc", "appnp", "agnn", "arma", "gatedgraph", "gin")),
    "centralized-gat-patience", "separate-patience", "fedavg-gradients-participation",
    "fedavg-participation/shares", "fedgraph-all", "fedgraph-fastgcn", "fedgraph-ddpg/shares",
    "graphfl-gcn", "graphfl-ga-threshold/shares", "asfgnn-random", "asfgnn-grid",
    "fl-random-loss", "fl-rl-loss", "fl-darts-steps", "fedgraph-ddpg-server",
    "fedgraph-policy", "graphfl-ga-parallel", "graphfl-ga-random", "graphfl-ga-rates",
    "asfgnn-pruning", "auto/none",
}  # fmt: skip
SLOW -= {"fedavg/ckks", "graphfl-ga/ckks"}

#: Runs that are stopped after so many rounds and resumed; they must end as if they had not been.
RESUMED = (
    ("separate", 5), ("fedavg/none", 7), ("fedavg-participation", 4), ("fl-agcns/none", 4),
    ("fl-agcns-accuracy", 20), ("fl-random/none", 15), ("fl-rl/none", 22), ("fl-darts/none", 4),
    ("fedgraph/none", 4), ("fedgraph-fixed", 3), ("fedgraph-ddpg", 12), ("graphfl/none", 3),
    ("graphfl-ga/none", 2), ("graphfl-ga-threshold", 2), ("sfgnn/none", 4), ("asfgnn/none", 20),
    ("fedavg/shares", 7), ("sfgnn/shares", 4),
)  # fmt: skip
#: Of these, those whose clients then agree on keys once more, which is traffic of its own.
KEYS_ANEW = ("fedgraph", "fedavg/shares", "sfgnn/shares")
