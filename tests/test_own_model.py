"""Networks from outside the package: classes, factories, modules and files."""

import copy
import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

import autofgl
import own_nets
from autofgl.cli import main
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph, to_dense
from autofgl.graphs.cut import cut
from autofgl.methods.catalog import find_method
from autofgl.seeding import child_seed
from families import family

FILE = Path(own_nets.__file__)
FIVE = ("gcn", "gat", "sage", "gin", "PredictThenPropagate")
AGGREGATES, BUFFERS = ("gradients", "parameters"), ("average", "local")
SMALL = {"rounds": 4, "hidden": 16, "normalize_features": False}


def run(clients: list[ClientGraph], out: Path, model: Any, **settings: Any) -> autofgl.Result:
    return autofgl.run("fedavg", clients, out=out, model=model, **{"rounds": 4, **settings})


def weights(result: autofgl.Result) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in result.model.state_dict().items()}


def assert_same(one: autofgl.Result, other: autofgl.Result) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name


def plain_loop(graph: ClientGraph, make: Any, rounds: int) -> nn.Module:
    """Training as PyG's examples have it, with the random numbers of a federation of one."""
    data = graph.to_pyg()
    torch.manual_seed(child_seed(0, "weights"))
    model = make(graph.num_features, graph.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for at in range(1, rounds + 1):
        torch.manual_seed(child_seed(0, "dropout", graph.name, at))
        model.train()
        optimizer.zero_grad()
        out = model(torch.from_numpy(to_dense(graph.x)), data.edge_index)
        F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("name", FIVE)
@pytest.mark.parametrize("method", ["fedavg", "centralized"])
def test_one_client_equals_a_plain_loop(
    name: str, method: str, small_graph: ClientGraph, tmp_path: Path
) -> None:
    make = getattr(own_nets, name)
    if isinstance(make, type):
        make = partial(make, hidden=16, dropout=0.5)
    clients = autofgl.partition(small_graph, clients=1, method="random")
    settings = {"normalize_features": False, "select": "last", "rounds": 10}
    result = autofgl.run(method, clients, out=tmp_path / "run", model=make, **settings)
    torch.manual_seed(11)
    expected = plain_loop(clients[0], make, 10).state_dict()
    assert result.model.state_dict().keys() == expected.keys()
    for key, value in result.model.state_dict().items():
        assert torch.allclose(value.float(), expected[key].float(), atol=1e-5), key


@pytest.mark.parametrize(
    ("aggregate", "buffers", "secure"),
    family(
        itertools.product(AGGREGATES, BUFFERS, ("shares", "ckks")),
        [
            ("gradients", "local", "shares"),
            ("parameters", "average", "shares"),
            ("gradients", "average", "ckks"),
            ("parameters", "local", "ckks"),
        ],
    ),
)
def test_secure_sums_leave_nearly_the_same_network(
    aggregate: str, buffers: str, secure: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    settings = {"aggregate": aggregate, "buffers": buffers, "rounds": 3, "select": "last"}
    plain = run(small_clients, tmp_path / "plain", own_nets.Normed, **settings)
    sums = run(small_clients, tmp_path / "sums", own_nets.Normed, secure=secure, **settings)
    assert "dropped" not in sums.figures
    assert all("refused" not in row for row in sums.history)
    ours, theirs = weights(plain), weights(sums)
    for name in ours:
        # A bias before BatchNorm has no gradient but rounding, which Adam makes a step of.
        near = 0.04 if name == "first.bias" else 2e-3
        assert np.allclose(ours[name], theirs[name], atol=near), name


def test_averaged_buffers_are_the_mean_by_training_nodes(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    """After one pass from common weights, as a recomputation with plain modules has it."""
    settings = {"aggregate": "gradients", "rounds": 1, "select": "last"}
    settings |= {"normalize_features": False}
    result = run(small_clients, tmp_path / "run", own_nets.Normed, **settings)
    means, counts = [], []
    for graph in small_clients:
        torch.manual_seed(child_seed(0, "weights"))
        model = own_nets.Normed(graph.num_features, graph.classes)
        model.train()(torch.from_numpy(to_dense(graph.x)), graph.to_pyg().edge_index)
        means.append(model.norm.running_mean.numpy())
        counts.append(graph.train_mask.sum())
    expected = np.average(means, axis=0, weights=counts)
    assert np.allclose(weights(result)["norm.running_mean"], expected, atol=1e-6)
    assert int(result.model.norm.num_batches_tracked) == 1


@pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
def test_local_buffers_stay_until_the_end(
    aggregate: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    """Each client is evaluated with its own, and the model that is left has their mean."""
    settings = {"aggregate": aggregate, "rounds": 5, "select": "last", "checkpoint_every": 2}
    average = run(small_clients, tmp_path / "a", own_nets.Normed, **settings)
    local = run(small_clients, tmp_path / "l", own_nets.Normed, buffers="local", **settings)
    assert average.history != local.history
    assert int(local.model.norm.num_batches_tracked) == (5 if aggregate == "gradients" else 15)
    assert not torch.equal(local.model.norm.running_mean, torch.zeros(16))


def test_figures_count_parameters_and_not_buffers(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    result = run(small_clients, tmp_path / "run", own_nets.Normed)
    expected = sum(one.numel() for one in own_nets.Normed(36, 3).parameters())
    assert result.figures["parameters"] == expected
    assert result.figures["architecture"] == "Normed, 36 → 3"


@pytest.mark.cores
def test_clients_side_by_side_leave_the_callers_random_numbers_alone(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = run(small_clients, tmp_path / "a", own_nets.Normed)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(77)
    again = run(small_clients, tmp_path / "b", own_nets.Normed)
    assert_same(first, again)
    other = run(small_clients, tmp_path / "c", own_nets.Normed, seed=1)
    assert not np.array_equal(weights(first)["last.lin.weight"], weights(other)["last.lin.weight"])


def test_a_module_is_taken_with_its_weights_and_left_as_it_is(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    module = own_nets.Normed(36, 3, 8)
    before = copy.deepcopy(module.state_dict())
    result = run(small_clients, tmp_path / "run", module, rounds=0)
    assert type(result.model) is own_nets.Normed
    for key, value in before.items():
        assert torch.equal(result.model.state_dict()[key], value)
    trained = run(small_clients, tmp_path / "more", module, select="last")
    assert not torch.equal(trained.model.last.lin.weight, before["last.lin.weight"])
    assert torch.equal(module.last.lin.weight, before["last.lin.weight"])


def test_a_class_within_a_function_stands_for_itself(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    class Inner(own_nets.Weighted):
        pass

    assert type(run(small_clients, tmp_path / "run", Inner).model) is Inner
    with pytest.raises(UserError, match="lives in no module"):
        run(small_clients, tmp_path / "no", Inner, engine="nvflare")


def test_lazy_layers_get_their_shapes(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    def lazy() -> nn.Module:
        class Lazy(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.conv = GCNConv(-1, 3)

            def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
                return self.conv(x, edge_index)

        return Lazy()

    result = run(small_clients, tmp_path / "run", lazy)
    assert result.model.conv.lin.weight.shape == (3, 36)


def test_the_module_runs_on_pyg_data_and_predicts(
    small_graph: ClientGraph, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    result = run(small_clients, tmp_path / "run", own_nets.Normed, normalize_features=False)
    data = small_graph.to_pyg()
    with torch.no_grad():
        labels = result.model(data.x.to_dense(), data.edge_index).argmax(1)
    assert np.array_equal(autofgl.predict(tmp_path / "run", small_graph).label, labels.numpy())


def test_a_network_in_a_file_runs_from_the_command_line_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_net.py").write_text(FILE.read_text())
    monkeypatch.chdir(tmp_path)
    words = ["run", "fedavg", "--model", "my_net.py:Normed", "--dataset", "synthetic"]
    words += ["--set", "nodes=100", "rounds=4", "hidden=8"]
    assert call(*words, "--out", "whole") == 0
    assert call(*words, "--set", "checkpoint_every=2", "--out", "run") == 0
    (tmp_path / "run" / "result.json").unlink()
    monkeypatch.chdir("/")
    assert call("run", "--resume", str(tmp_path / "run")) == 0
    capsys.readouterr()
    whole, again = (tmp_path / name / "model.safetensors" for name in ("whole", "run"))
    assert whole.read_bytes() == again.read_bytes()


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    code = stopped.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("buffers", "aggregate", "secure"),
    family(
        itertools.product(BUFFERS, AGGREGATES, ("none", "shares")),
        [
            ("average", "gradients", "none"),
            ("local", "gradients", "shares"),
            ("average", "parameters", "shares"),
            ("local", "parameters", "none"),
        ],
    ),
)
def test_resuming_gives_the_same_weights(
    buffers: str,
    aggregate: str,
    secure: str,
    small_clients: list[ClientGraph],
    tmp_path: Path,
) -> None:
    settings = {"buffers": buffers, "aggregate": aggregate, "rounds": 6, "checkpoint_every": 3}
    settings |= {"secure": secure, "select": "accuracy"}
    whole = run(small_clients, tmp_path / "whole", own_nets.Normed, **settings)
    stop_after(run, 4, small_clients, tmp_path / "cut", settings)
    resumed = autofgl.resume(tmp_path / "cut", small_clients)
    assert_same(whole, resumed)
    assert [row["val_accuracy"] for row in whole.history] == [
        row["val_accuracy"] for row in resumed.history
    ]


@pytest.mark.parametrize("name", family([(name,) for name in FIVE], [("gin",)]))
def test_resuming_gives_the_same_weights_of_networks_of_pyg(
    name: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    settings = {"rounds": 6, "checkpoint_every": 3}
    model = f"{FILE}:{name}"
    whole = run(small_clients, tmp_path / "whole", model, **settings)
    stop_after(run, 4, small_clients, tmp_path / "cut", settings, model)
    assert_same(whole, autofgl.resume(tmp_path / "cut", small_clients))


def stop_after(
    begin: Any,
    rounds: int,
    clients: list[ClientGraph],
    out: Path,
    settings: dict[str, Any],
    model: Any = own_nets.Normed,
) -> None:
    """A run that dies in some round."""
    kind = find_method("fedavg")
    step = kind.step

    def dying(self: Any) -> Any:
        if self.round == rounds:
            raise KeyboardInterrupt
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "step", dying)
        with pytest.raises(BaseException):  # noqa: B017, PT011
            begin(clients, out, model, **settings)


def test_a_module_in_memory_is_handed_over_again(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    from autofgl import plugins

    module = own_nets.Normed(36, 3, 8)
    run(small_clients, tmp_path / "run", module)
    plugins._GIVEN.clear()
    with pytest.raises(UserError, match="hand it over again"):
        autofgl.load_model(tmp_path / "run")
    result = autofgl.resume(tmp_path / "run", small_clients, model=module)
    assert type(result.model) is own_nets.Normed
    with pytest.raises(UserError, match="does not travel"):
        run(small_clients, tmp_path / "no", module, engine="nvflare")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("Wide", "Wide gives 4 scores per node, the graphs have 3 classes"),
        ("EdgeFeatures", r"EdgeFeatures needs edge features \('edge_attr'\)"),
        ("OfData", r"OfData has forward\(data\): models take forward\(x, edge_index\)"),
        ("Asking", "Asking asks for 'temperature', which nobody gives"),
        ("Failing", "Failing fails on a graph of 4 nodes .* no luck today"),
        ("Moody", "the model of client-[0-2], client-[0-2] has other parameters"),
        ("Frozen", "Frozen has no parameter with requires_grad: there is nothing to train"),
        ("ByNode", r"ByNode gives torch.float32 \[4, 3\] for 5 nodes"),
        ("FIVE", "has no 'FIVE'"),
        ("Number", "gives no nn.Module"),
    ],
)
def test_wrong_models_get_one_clear_line(
    model: str, message: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as error:
        run(small_clients, tmp_path / "run", f"{FILE}:{model}")
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_module_is_refused(small_clients: list[ClientGraph], tmp_path: Path) -> None:
    compiled = torch.jit.trace(nn.Linear(36, 3), torch.ones(2, 36))
    with pytest.raises(UserError, match="is TorchScript: hand over the module"):
        run(small_clients, tmp_path / "run", compiled)


@pytest.mark.parametrize("method", ["sfgnn", "fl-random", "fedgraph"])
def test_methods_with_networks_of_their_own_say_so(
    method: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"{method} has a network of its own and takes no model"):
        autofgl.run(method, small_clients, out=tmp_path / "run", model=own_nets.Normed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "absent.py:Net"], "there is no file"),
        (["--model", "broken.py:Net"], "ZeroDivisionError"),
        (["--model", "leaving.py:Net"], "SystemExit: 3"),
        (["--model", "my_net.py"], "my_net.py' is a file: say what of it, as in my_net.py:Name"),
        (["--model", "my_net.py:Normed", "--set", "teleport=0.2"], "'teleport' has no effect"),
        (["--model", "my_net.py:Weighted", "--set", "hidden=8"], "'hidden' has no effect on Weig"),
        (["--model", "my_net.py:Normed", "--dp", "epsilon=8"], "use a model without any"),
        (["--model", "gnc"], "unknown model 'gnc': did you mean"),
    ],
)
def test_wrong_words_get_one_clear_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "my_net.py").write_text(FILE.read_text())
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    small = ["--dataset", "synthetic", "--set", "nodes=100"]
    assert call("run", "fedavg", *small, *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_client_of_one_node_and_batch_normalization(
    small_graph: ClientGraph, tmp_path: Path
) -> None:
    owner = np.array([0] + [1] * (small_graph.num_nodes - 1))
    lonely = cut(small_graph, owner, ["lonely", "rest"])
    with pytest.raises(UserError, match="in training, fails on a graph of 1 node"):
        run(lonely, tmp_path / "run", own_nets.Normed)


@pytest.mark.parametrize("method", ["separate", "graphfl"])
def test_other_methods_take_it_too(
    method: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    model = own_nets.Normed
    result = autofgl.run(method, small_clients, out=tmp_path / "run", rounds=2, model=model)
    name = None if method == "graphfl" else "client-0"
    assert type(autofgl.load_model(result.folder, name)) is model


@pytest.mark.slow
@pytest.mark.parametrize("name", FIVE)
def test_the_engine_gives_the_same_weights(
    name: str, small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    model = f"{FILE}:{name}"
    here = run(small_clients, tmp_path / "here", model)
    there = run(small_clients, tmp_path / "there", model, engine="nvflare")
    assert_same(here, there)
