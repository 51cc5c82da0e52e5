"""A run's network for other programs: ONNX, or a program of ``torch.export``.

Whatever is written was run before, by the other program's own engine, on graphs of other sizes than
the one that it was traced on, and gave the scores that our network gives.
"""

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autofgl.atomic import write_bytes
from autofgl.errors import UserError, one_line
from autofgl.runs.export import load_members, read_description

if TYPE_CHECKING:
    from torch import Tensor, nn

#: What the formats are called, and their files' endings.
FORMATS = {"onnx": ".onnx", "torch": ".pt2"}
#: Scores may differ so much, relative to the largest.
TOLERANCE = 1e-4
_OPSET = 18
_SIZES = ((7, 16), (23, 90), (40, 0))  # nodes and edges of the graphs that scores are compared on
_NEEDED = ("onnx", "onnxscript", "onnxruntime")


@dataclass(frozen=True)
class Converted:
    """A network in another format.

    Attributes:
        path: The file.
        difference: Largest difference of any score, relative to the largest score.
        weighted: Whether it takes weights of edges.
    """

    path: Path
    difference: float
    weighted: bool


def convert_model(
    folder: Path,
    form: str,
    out: Path | None = None,
    client: str | None = None,
    weighted: bool = False,
) -> Converted:
    """Write a finished run's network as ONNX or as a program of ``torch.export``.

    Inputs are ``x`` float32 [n, F], ``edge_index`` int64 [2, E] and, of a run on weighted edges,
    ``edge_weight`` float32 [E]; the output is ``scores`` [n, classes]. Features are those of the
    graph file: the network scales them itself.

    Raises:
        UserError: The network has no form in that format, or a package is missing.
    """
    if form not in FORMATS:
        raise UserError(f"unknown format '{form}': choose from {', '.join(FORMATS)}")
    description = read_description(folder)
    if form == "onnx":
        _check_installed()

    from autofgl.nn.models.mean import mean_network
    from autofgl.nn.portable import PortableNetwork

    networks, mean = load_members(folder, client)
    network = mean_network(networks, mean)
    name = "model" if client is None else f"model-{client}"
    path = out or folder / "export" / f"{name}{FORMATS[form]}"
    weighted = weighted or bool(description.get("weighted", False))
    write = _onnx if form == "onnx" else _torch_program
    with _quiet():
        portable = mean_network([PortableNetwork(one, weighted) for one in networks], mean)
        width = networks[0].spec.in_features
        data, run = write(_program(portable.eval(), width, weighted), weighted)
        difference = _largest_difference(network, run, width, weighted)
    if not difference <= TOLERANCE:
        wrong = f"its scores as {form} differ by {difference:.1e} of the largest"
        raise UserError(f"this network is not exported: {wrong}, more than {TOLERANCE:g}")
    write_bytes(path, data)
    return Converted(path, difference, weighted)


def _check_installed() -> None:
    for package in _NEEDED:
        try:
            importlib.import_module(package)
        except ImportError as error:
            way = "pip install 'autofgl[export]'"
            raise UserError(f"--format onnx needs {package}: {way}") from error


def _program(module: "nn.Module", width: int, weighted: bool) -> Any:
    """A network as torch traces it, for any numbers of nodes and edges."""
    import torch

    inputs = _inputs(width, 11, 30, weighted)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes: tuple[Any, ...] = ({0: nodes}, {1: edges}, *(({0: edges},) if weighted else ()))
    try:
        with torch.no_grad():
            return torch.export.export(module, inputs, dynamic_shapes=shapes)
    except UserError:
        raise
    except Exception as error:  # whatever torch makes of somebody's code
        reason = one_line(f"{type(error).__name__}: {error}", 160)
        raise UserError(f"torch.export does not follow this network: {reason}") from error


def _torch_program(
    program: Any,
    weighted: bool,  # noqa: ARG001
) -> "tuple[bytes, Callable[..., Tensor]]":
    import io

    import torch

    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    again: Callable[..., Tensor] = torch.export.load(buffer).module()
    return buffer.getvalue(), again


def _onnx(program: Any, weighted: bool) -> "tuple[bytes, Callable[..., Tensor]]":
    import onnxruntime
    import torch

    names = ["x", "edge_index", *(["edge_weight"] if weighted else [])]
    try:
        converted = torch.onnx.export(
            program, input_names=names, output_names=["scores"], opset_version=_OPSET,
            dynamo=True, verbose=False,
        )  # fmt: skip
        assert converted is not None
        data: bytes = converted.model_proto.SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever the converter cannot do
        reason = one_line(f"{type(error).__name__}: {error}", 160)
        raise UserError(f"this network has no form in ONNX: {reason}") from error

    def run(*inputs: "Tensor") -> "Tensor":
        arrays = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
        return torch.from_numpy(session.run(None, arrays)[0])

    return data, run


def _inputs(width: int, nodes: int, edges: int, weighted: bool) -> "tuple[Tensor, ...]":
    """A graph that is the same every time, with repeated edges, self loops and lone nodes."""
    import torch

    rng = np.random.default_rng(nodes)
    x = torch.tensor(rng.normal(size=(nodes, width)), dtype=torch.float32)
    index = torch.tensor(rng.integers(0, nodes - 1, size=(2, edges)), dtype=torch.int64)
    weight = (torch.tensor(rng.uniform(0.1, 2, edges), dtype=torch.float32),) if weighted else ()
    return x, index, *weight


def _largest_difference(
    network: "nn.Module", run: "Callable[..., Tensor]", width: int, weighted: bool
) -> float:
    import torch

    worst = 0.0
    for nodes, edges in _SIZES:
        inputs = _inputs(width, nodes, edges, weighted)
        if weighted:  # what several weighted self loops of one node weigh is our own affair
            proper = inputs[1][0] != inputs[1][1]
            inputs = (inputs[0], inputs[1][:, proper], inputs[2][proper])
        with torch.no_grad():
            ours, theirs = network(*inputs), run(*inputs)
        scale = max(1.0, float(ours.abs().max()))
        worst = max(worst, float((ours - theirs).abs().max()) / scale)
    return worst


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters say of packages that nobody needs here."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnx_ir")]
    loggers.append(logging.getLogger("torch.onnx._internal.exporter._registration"))
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)
