"""Networks in other formats give the same scores, or are refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import autofgl
from autofgl.cli import main
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.conv import CONVOLUTIONS
from autofgl.nn.models.networks import MODELS, build_network
from autofgl.nn.models.spec import SEARCHED_FAMILY, ModelSpec, NetworkSpec, SearchedSpec
from autofgl.runs.convert import TOLERANCE, convert_model
from autofgl.runs.export import save_models
from autofgl.runs.model_card import model_card

SPECS: dict[str, NetworkSpec] = {
    name: ModelSpec(name, in_features=5, classes=3, hidden=8)
    for name in sorted(MODELS.keys() - {SEARCHED_FAMILY})
}
SPECS |= {
    kind: SearchedSpec(f"tanh | {kind}<0 gcn<1 | identity", in_features=5, classes=3, hidden=8)
    for kind in sorted(CONVOLUTIONS.keys() - MODELS.keys())
}


class Odd(torch.nn.Module):
    """A network that nobody can trace: it asks for values."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(in_features, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.lin(x if float(x.sum()) > 0 else -x)


@pytest.fixture(scope="module")
def folder(small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("convert") / "run"
    autofgl.run("fedavg", small_clients, rounds=3, hidden=8, out=out)
    return out


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return int(stopped.value.code or 0)


def test_a_program_of_torch_with_a_card(folder: Path, small_clients: list[ClientGraph]) -> None:
    assert run("export", str(folder), "--format", "torch") == 0
    program = torch.export.load(folder / "export" / "model.pt2").module()
    data = small_clients[0].to_pyg()
    with torch.no_grad():
        ours = autofgl.load_model(folder)(data.x, data.edge_index)
        torch.testing.assert_close(program(data.x, data.edge_index), ours, atol=1e-4, rtol=1e-4)
    card = (folder / "export" / "MODEL_CARD.md").read_text()
    result = json.loads((folder / "result.json").read_text())
    for part in (
        f"| test | accuracy | {result['test_accuracy']:.4f} |",
        f"| {small_clients[0].name} | {small_clients[0].num_nodes} |",
        "| server | ",
        "File: model.pt2 (torch)",
        f"autofgl {autofgl.__version__}",
        "36 features, 3 classes",
    ):
        assert part in card
    assert "## Certificate" not in card


def test_a_card_has_the_certificate_if_there_is_one(folder: Path) -> None:
    (folder / "certificate.json").write_text('{"better": "yes | <b>", "gain": 0.02, "rows": []}')
    try:
        card = model_card(folder)
        assert "## Certificate" in card
        assert "| better | yes \\| &lt;b> |" in card
    finally:
        (folder / "certificate.json").unlink()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "tflite"], "unknown format 'tflite'"),
        (["--client", "nobody"], "no model 'nobody'"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", str(folder), *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_without_onnx_the_way_to_install_it_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(UserError, match=r"pip install 'autofgl\[export\]'"):
        convert_model(folder, "onnx")
    assert not (folder / "export" / "model.onnx").exists()


@pytest.mark.slow
def test_a_network_that_cannot_be_traced_says_so(
    small_clients: list[ClientGraph], out: Path
) -> None:
    autofgl.run("fedavg", small_clients, model=Odd, rounds=1, out=out)
    with pytest.raises(UserError, match=r"torch.export does not follow this network: .*") as said:
        convert_model(out, "torch")
    assert "\n" not in str(said.value)
    assert not (out / "export").exists()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "torch"])
@pytest.mark.parametrize("name", SPECS)
def test_every_network_has_equal_scores(name: str, form: str, tmp_path: Path) -> None:
    if form == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    network = build_network(SPECS[name], torch.Generator().manual_seed(0))
    weights = {key: value.numpy() for key, value in network.state_dict().items()}
    info = {"normalize_features": "unit", "weighted": name == "gcn"}
    save_models(tmp_path, {"model": weights}, SPECS[name].to_json(), info)
    done = convert_model(tmp_path, form)
    assert done.path.stat().st_size > 1000
    assert done.difference <= TOLERANCE
    assert done.weighted == (name == "gcn")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "torch"])
def test_a_mean_of_networks_has_equal_scores(
    form: str, tmp_path: Path, small_clients: list[ClientGraph]
) -> None:
    if form == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    specs = {name: ModelSpec(name, in_features=36, classes=3, hidden=8) for name in ("gcn", "sage")}
    networks = {
        name: {
            key: value.numpy()
            for key, value in build_network(spec, torch.Generator().manual_seed(1))
            .state_dict()
            .items()
        }
        for name, spec in specs.items()
    }
    mean = {"members": ["gcn", "sage"], "temperatures": [0.5, 2.0]}
    mean |= {"shifts": [[], [0.5, -0.5, 0.0]]}
    info = {"normalize_features": "unit", "ensembles": {"bank": mean}}
    info["scalings"] = {"gcn": "unit", "sage": False}
    described = {name: spec.to_json() for name, spec in specs.items()}
    save_models(tmp_path, networks, described["gcn"], info, described)
    done = convert_model(tmp_path, form, client="bank")
    assert done.path.stem == "model-bank"
    assert done.difference <= TOLERANCE
    if form == "torch":
        program = torch.export.load(done.path).module()
        data = small_clients[0].to_pyg()
        with torch.no_grad():
            theirs = program(data.x, data.edge_index)
        expected = autofgl.predict(tmp_path, small_clients[0], "bank").probabilities
        assert np.allclose(theirs.softmax(1).numpy(), expected, atol=1e-5)


@pytest.mark.slow
def test_onnx_from_the_command_line(folder: Path, small_clients: list[ClientGraph]) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    assert run("export", str(folder)) == 0
    session = runtime.InferenceSession(folder / "export" / "model.onnx")
    data = small_clients[1].to_pyg()
    inputs = {"x": data.x.numpy(), "edge_index": data.edge_index.numpy()}
    (scores,) = session.run(None, inputs)
    predicted = autofgl.predict(folder, small_clients[1]).label
    assert np.array_equal(scores.argmax(1), predicted)
