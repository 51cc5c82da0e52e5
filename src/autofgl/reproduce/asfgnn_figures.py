"""The figures of ASFGNN, as plain data."""

from autofgl.reproduce.asfgnn_rows import GROUPS, MEASURES, NETWORK, PAPER, SPLIT, tuned
from autofgl.reproduce.figure import Figure, Line, Panel

_SFGNN = Line("sfgnn", "SFGNN", tuned("sfgnn", "cora"), method="sfgnn")
_FL = Line("fl", "FL", {**NETWORK, **tuned("fedavg", "cora")}, method="fedavg")
_SP = Line("sp", "SP", {**NETWORK, **tuned("separate", "cora")}, method="separate")

_TUNING = "Hyper-parameters are those of `asfgnn-table3` on Cora."


def _panel(level: str, clients: int, **settings: object) -> Panel:
    return Panel(
        name=f"cora-{level}",
        label=f"Cora, {level}",
        group="cora",
        dataset="planetoid:cora",
        clients=clients,
        partition="labels",
        settings=settings,
        level=level,
    )


_FIG_3 = Figure(
    name="asfgnn-fig3",
    title="Accuracy for clients of ever more different labels",
    source=f"{PAPER}, Fig. 3",
    claim="SFGNN is better than SP and FL for α > 0.75, FL is the best below, and SP is better "
    "than FL for α > 0.88 (section 5.2.3).",
    chart="levels",
    panels=[
        _panel(alpha, 2, label_groups=GROUPS["cora"], label_alpha=float(alpha))
        for alpha in ("0.6", "0.7", "0.8", "0.9", "1.0")
    ],
    lines=(_SFGNN, _FL, _SP),
    notes=(
        MEASURES.partition("*All classes*")[0].strip(),
        SPLIT,
        _TUNING,
        "A client takes α of its own group of classes and 1 − α of the other; edges between "
        "clients are cut, so that with a smaller α each client has fewer of them.",
    ),
    axis="α",
)

_FIG_4 = Figure(
    name="asfgnn-fig4",
    title="Accuracy for two to five clients without a common label",
    source=f"{PAPER}, Fig. 4",
    claim="The mean accuracy of ASFGNN rises with the number of clients and then stays "
    "(section 5.2.4).",
    chart="levels",
    panels=[_panel(str(clients), clients) for clients in (2, 3, 4, 5)],
    lines=(
        _SFGNN,
        _SP,
        Line(
            "asfgnn",
            "ASFGNN",
            {"trials": 12, "trial_rounds": 50, "startup": 6, "tune_hidden": "64"},
            method="asfgnn",
        ),
    ),
    notes=(
        "Classes go, from large to small, to the client with the fewest nodes so far.",
        f"SFGNN and SP: {_TUNING[0].lower()}{_TUNING[1:]} ASFGNN tunes every client in 12 trials.",
    ),
    axis="clients",
)

ASFGNN_FIGURES = (_FIG_3, _FIG_4)
