"""The command for leaderboards."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from autofgl.cli.run import DataRoot, Secure

EXAMPLE = (
    "Example: autofgl leaderboard separate fedavg fedavg:sharing=personal --datasets cora "
    "--partitions louvain-openfgl metis --seeds 3 --tune lr=0.01,0.03"
)
#: What is compared if nothing is named.
METHODS = (
    "separate", "fedavg", "fedavg:sharing=personal", "fedavg:sharing=head",
    "fedavg:sharing=ditto", "fedavg:sharing=fedgta",
)  # fmt: skip
#: Settings of every run unless they are given, and those of a quick leaderboard.
_COMMON: dict[str, Any] = {
    "split": "openfgl", "rounds": 200, "patience": 30, "normalize_features": False,
}  # fmt: skip
_QUICK: dict[str, Any] = {"rounds": 30, "patience": 5, "hidden": 16}


def leaderboard(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            help="Methods, each with its own settings if needed: fedavg:sharing=head. [default: "
            "separate and fedavg in several ways of sharing]"
        ),
    ] = None,
    datasets: Annotated[list[str] | None, typer.Option(help="Datasets. [default: cora]")] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option(help="How to cut each of them. [default: louvain-openfgl metis]"),
    ] = None,
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 10,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds; each has a cut of its own. [default: 3]")
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            help="Values to choose from by validation nodes, for every method: lr=0.01,0.03 …"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Settings for every method that has them: key=value …"),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Time budget of each run, e.g. 90s. [default: none]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds and short runs.")] = False,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sign every row with the Ed25519 key in this file, which is made if need be.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Only compare rows with their run folders and signatures."),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            help="--verify: public key that must have signed. [default: the leaderboard's own]"
        ),
    ] = None,
    secure: Secure = "none",
    data_root: DataRoot = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder; give it again to resume. [default: runs/leaderboard]"),
    ] = None,
) -> None:
    """Rank methods over datasets, cuts and seeds. Run the same command again to resume."""
    from autofgl.config import parse_settings
    from autofgl.experiments.plan import Options, make_leaderboard, plan

    place = out or Path("runs") / ("leaderboard-quick" if quick else "leaderboard")
    if verify:
        from autofgl.experiments.digests import verify_rows

        found = verify_rows(place, key or "")
        by = f"signed by {found.public_key}" if found.public_key else "not signed"
        words = f"{found.rows} run folders are those of {place / 'leaderboard.json'}, {by}"
        Console().print(words, soft_wrap=True, highlight=False)
        return
    common = {**_COMMON, **(_QUICK if quick else {}), **parse_settings(set_ or [])}
    board = make_leaderboard(
        methods or METHODS, datasets or ["cora"], partitions or ["louvain-openfgl", "metis"],
        clients=clients, settings=common, tune=tune or (), budgeted=budget is not None,
    )  # fmt: skip
    count = seeds or (2 if quick else 3)
    options = Options(
        out=place, seeds=count, budget=budget or "10m", secure=secure, data_root=data_root
    )
    plan(board, options)  # mistakes are refused before anything heavy is imported
    from autofgl.experiments.digests import SigningKey
    from autofgl.experiments.leaderboard import LeaderboardPages
    from autofgl.experiments.runner import run_experiment

    signing = None if sign is None else SigningKey.at(sign)
    run_experiment(LeaderboardPages(board, options, signing), Console())
