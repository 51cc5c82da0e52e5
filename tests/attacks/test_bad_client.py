"""Finding 14, and 10: one client sends nonsense.

It replaced the model by claiming a share of 1000, its random words passed as an accuracy of
-98451064, and whatever else it sent or raised ended the run of all, often in a traceback.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofgl
from autofgl.cli import main
from autofgl.errors import FederationError
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from bad_clients import MESSAGES, VECTORS, contribute_badly
from families import family
from federations import intercept, make, parties, to_the_end

BAD = "client-3"
#: So many rounds, in which groups tell who the bad client is.
ROUNDS = 14
#: As many as it takes where the server sees at once whose message it is.
FEW_ROUNDS = 5
#: Messages that are malformed, whatever is aggregated.
MALFORMED = ("short", "other type", "no body", "another sum", "no header")


@pytest.fixture(scope="session")
def eight_clients(small_graph: ClientGraph) -> list[ClientGraph]:
    return autofgl.partition(small_graph, clients=8, method="random", seed=0)


def attacked(clients: list[ClientGraph], how: str, **settings: Any) -> Any:
    """A run in which one client contributes badly from the first round on."""
    only = settings.pop("only", "update")
    method = make("fedavg", clients, **{"rounds": ROUNDS, "hidden": 4, **settings})
    method.setup()
    contribute_badly(parties(method)[BAD], how, only)
    return method


def largest(method: Any) -> float:
    weights = method.finish().models["model"]
    return max(float(np.abs(value).max()) for value in weights.values())


#: What the fast tests try with gradients too; with parameters they try everything.
GRADIENTS = ("nan", "huge", "garbage", "share")


@pytest.mark.parametrize("secure", ["none", "shares"])
@pytest.mark.parametrize(
    ("how", "aggregate"),
    [
        *((how, "parameters") for how in (*VECTORS, *MESSAGES)),
        *family(
            ((how, "gradients") for how in (*VECTORS, *MESSAGES) if how not in MALFORMED),
            [(how, "gradients") for how in GRADIENTS],
        ),
    ],
)
def test_one_bad_client_of_eight_changes_nothing(
    eight_clients: list[ClientGraph], how: str, secure: str, aggregate: str
) -> None:
    """The run ends without it, with weights and figures as runs have them."""
    at_once = how in MALFORMED or (secure == "none" and how != "all shares")
    about: dict[str, Any] = {"rounds": FEW_ROUNDS} if at_once else {}
    method = attacked(eight_clients, how, secure=secure, aggregate=aggregate, **about)
    rows = to_the_end(method)
    for row in rows:
        for key, value in row.items():
            if key.endswith("_accuracy") and isinstance(value, float):
                assert 0 <= value <= 1
            if key.endswith("_loss") and value is not None:
                assert 0 <= value < 10
    assert largest(method) < 5
    out_of_proportion = (how, secure) == ("huge", "none")
    if out_of_proportion:  # an update like this is left out in every round
        assert all(row["failed"] == [BAD] for row in rows)
    else:
        assert [*method.clients.dropped] == [BAD]
    assert sum("refused" in row for row in rows) <= len(rows) // 2
    assert "refused" not in rows[-1]


def test_refused_rounds_leave_the_weights_alone(eight_clients: list[ClientGraph]) -> None:
    method = attacked(eight_clients, "garbage", secure="shares", aggregate="parameters")
    before = method.training.sharing.handout()["weights"]
    row = method.step()
    after = method.training.sharing.handout()["weights"]
    assert "a client sent wrong values" in row["refused"]
    assert row["val_accuracy"] is None
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("aggregate", ["parameters", "gradients"])
def test_clients_stay_in_step_while_some_are_left_aside(
    eight_clients: list[ClientGraph], aggregate: str
) -> None:
    method = attacked(eight_clients, "garbage", secure="shares", aggregate=aggregate)
    to_the_end(method)
    method.finish()
    models = [
        party.sharing.local.weights() for name, party in parties(method).items() if name != BAD
    ]
    for other in models[1:]:
        assert all(np.array_equal(models[0][name], other[name]) for name in other)


def test_nonsense_in_the_figures_is_found_too(eight_clients: list[ClientGraph]) -> None:
    """Random words under ``shares`` do not pass as an accuracy."""
    method = attacked(eight_clients, "garbage", secure="shares", only="metrics")
    rows = to_the_end(method)
    assert [*method.clients.dropped] == [BAD]
    assert all(0 <= row["val_accuracy"] <= 1 for row in rows if "refused" not in row)


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_a_run_can_end_instead(eight_clients: list[ClientGraph], secure: str) -> None:
    method = attacked(
        eight_clients, "share", secure=secure, aggregate="parameters", on_bad_client="end"
    )
    with pytest.raises(FederationError, match=r"client-3: .*share|nonsense .*'share'"):
        to_the_end(method)


def test_where_nobody_can_be_spared_the_run_ends(small_clients: list[ClientGraph]) -> None:
    settings: dict[str, Any] = {"secure": "shares", "secure_threshold": 3, "rounds": 3}
    method = make("fedavg", small_clients, aggregate="parameters", **settings)
    method.setup()
    contribute_badly(parties(method)["client-1"], "garbage")
    with pytest.raises(FederationError, match="a client sent wrong values"):
        to_the_end(method)


@pytest.mark.parametrize("at", ["start", "round", "take", "conclude", "export"])
def test_an_exception_in_one_client_is_its_own(eight_clients: list[ClientGraph], at: str) -> None:
    """Of any operation; the reason is told in one line, without escape codes and paths."""

    def fail(op: str, payload: Payload) -> None:
        if op == at:
            raise RuntimeError("\x1b[31mno\nmemory left in /home/me/graph.npz for 123.5 values")

    method = make("fedavg", eight_clients, rounds=3, hidden=4, secure="shares")
    intercept(parties(method)["client-0"], fail)
    method.setup()
    rows = to_the_end(method)
    method.before_checkpoint()
    method.finish()
    dropped = method.clients.dropped
    if at != "take" or dropped:
        told = "RuntimeError: \\x1b[31mno memory left in … for # values"
        assert dropped == {"client-0": told}
    assert len(rows) == 3


@pytest.mark.parametrize(("sharing", "field"), [("fedgta", "moments"), ("fed-pub", "function")])
def test_a_description_of_another_length_is_left_out(
    eight_clients: list[ClientGraph], sharing: str, field: str
) -> None:
    method = make("fedavg", eight_clients, rounds=3, hidden=4, sharing=sharing)
    method.setup()
    party = parties(method)["client-2"]
    after = party.sharing.after

    def shorter(payload: Payload) -> Payload:
        reply = after(payload)
        return {**reply, field: reply[field][:-1]}

    party.sharing.after = shorter
    to_the_end(method)
    assert list(method.clients.dropped) == ["client-2"]
    assert "another number of values" in method.clients.dropped["client-2"]
    assert 0 <= method.finish().test_accuracy <= 1


@pytest.mark.parametrize("field", ["moments", "confidence"])
def test_a_description_whose_squares_or_sums_are_infinite_is_left_out(
    eight_clients: list[ClientGraph], field: str
) -> None:
    """It would have made every client's average one of weights that are no numbers."""
    method = make("fedavg", eight_clients, rounds=3, hidden=4, sharing="fedgta")
    method.setup()
    party = parties(method)["client-2"]
    after = party.sharing.after
    party.sharing.after = lambda payload: {
        key: value * 0 + 1e300 if key == field else value for key, value in after(payload).items()
    }
    to_the_end(method)
    assert list(method.clients.dropped) == ["client-2"]
    assert 0 <= method.finish().test_accuracy <= 1


@pytest.mark.parametrize("field", ["moments", "confidence"])
def test_half_a_description_is_left_out(eight_clients: list[ClientGraph], field: str) -> None:
    method = make("fedavg", eight_clients, rounds=3, hidden=4, sharing="fedgta")
    method.setup()
    party = parties(method)["client-2"]
    after = party.sharing.after
    party.sharing.after = lambda payload: {
        key: value for key, value in after(payload).items() if key != field
    }
    to_the_end(method)
    assert list(method.clients.dropped) == ["client-2"]
    assert 0 <= method.finish().test_accuracy <= 1


def test_when_all_fail_alike_the_reason_is_told_at_once(small_clients: list[ClientGraph]) -> None:
    def fail(op: str, payload: Payload) -> None:
        if op == "round":
            raise ValueError("hidden should be even")

    method = make("fedavg", small_clients, rounds=3)
    for party in parties(method).values():
        intercept(party, fail)
    method.setup()
    with pytest.raises(FederationError, match="client-0: ValueError: hidden should be even"):
        method.step()


def test_the_history_and_the_result_name_it(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run from the command line ends well, and says whom it left out and why."""
    from autofgl.runtime.round_client import RoundClient

    honest = RoundClient.round

    def fail(self: RoundClient, payload: Payload) -> Payload:
        if self.data.graph.name == "client-1" and payload["round"] == 3:
            raise KeyError("\x1b[2Jgone")
        return honest(self, payload)

    monkeypatch.setattr(RoundClient, "round", fail)
    words = "run fedavg --dataset synthetic --clients 4 --set rounds=5 nodes=120 checkpoint_every=4"
    with pytest.raises(SystemExit) as end:
        main([*words.split(), "--out", str(out)])
    assert end.value.code == 0
    rows = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    assert [*rows[2]["dropped"]] == ["client-1"]
    assert "KeyError" in json.loads((out / "result.json").read_text())["dropped"]["client-1"]
    said = capsys.readouterr()
    assert "going on without client-1" in said.out + said.err
    assert "\x1b[2J" not in said.out + said.err
    assert "bad clients left out: client-1" in (out / "report.html").read_text()
