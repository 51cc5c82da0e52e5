"""A FedAvg round of GCN on Cora against a plain hand-written PyG loop, interleaved in one process.

    python benchmarks/round.py [--clients 3 10] [--rounds 20] [--repeats 5]

Both train 3 local epochs at hidden width 64 on the same Louvain clients, average the parameters by
training nodes and evaluate the average at every client. CPU time of all threads is compared, with
one torch thread in each. `--startup` compares, in fresh processes, the time until the first round
is done and the peak memory.
"""

import argparse
import copy
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

EPOCHS, HIDDEN = 3, 64


class Plain:
    """What one would write by hand with PyG: dense features, edge_index, nn.Module, Adam."""

    def __init__(self, clients: list[Any]) -> None:
        import torch
        from torch_geometric.nn import GCNConv
        from torch_geometric.transforms import NormalizeFeatures

        class Net(torch.nn.Module):
            def __init__(self, features: int, classes: int) -> None:
                super().__init__()
                self.first = GCNConv(features, HIDDEN)
                self.second = GCNConv(HIDDEN, classes)

            def forward(self, x: Any, edge_index: Any) -> Any:
                x = torch.nn.functional.dropout(x, 0.5, self.training)
                x = self.first(x, edge_index).relu()
                x = torch.nn.functional.dropout(x, 0.5, self.training)
                return self.second(x, edge_index)

        self.torch = torch
        self.data = [NormalizeFeatures()(client) for client in clients]
        self.model = Net(self.data[0].num_features, int(self.data[0].classes))

    def round(self) -> None:
        torch = self.torch
        states, weights = [], []
        for data in self.data:
            local = copy.deepcopy(self.model)
            optimizer = torch.optim.Adam(local.parameters(), lr=0.01, weight_decay=5e-4)
            local.train()
            for _ in range(EPOCHS):
                optimizer.zero_grad()
                out = local(data.x, data.edge_index)[data.train_mask]
                torch.nn.functional.cross_entropy(out, data.y[data.train_mask]).backward()
                optimizer.step()
            states.append(local.state_dict())
            weights.append(int(data.train_mask.sum()))
        total = sum(weights)
        average = {
            key: sum(w / total * state[key] for w, state in zip(weights, states, strict=True))
            for key in states[0]
        }
        self.model.load_state_dict(average)
        self.evaluate()

    def evaluate(self) -> float:
        torch = self.torch
        self.model.eval()
        correct = count = 0
        with torch.no_grad():
            for data in self.data:
                predicted = self.model(data.x, data.edge_index).argmax(1)
                for mask in (data.train_mask, data.val_mask, data.test_mask):
                    correct += int((predicted[mask] == data.y[mask]).sum())
                    count += int(mask.sum())
        return correct / count


class Ours:
    """The same through AutoFGL's federation."""

    def __init__(self, clients: list[Any]) -> None:
        from autofgl.federation.engines.inprocess import InProcess
        from autofgl.methods.baselines import FedAvg
        from autofgl.runtime.federated_settings import FederatedSettings

        settings = FederatedSettings(aggregate="parameters", local_epochs=EPOCHS, hidden=HIDDEN)
        factories = {graph.name: FedAvg.party(graph, settings, 0) for graph in clients}
        self.method = FedAvg(InProcess(factories), settings, 0)
        self.method.setup()

    def round(self) -> None:
        self.method.step()


def cpu_seconds(work: Any, rounds: int) -> float:
    start = time.process_time()
    for _ in range(rounds):
        work.round()
    return (time.process_time() - start) / rounds


def compare(count: int, rounds: int, repeats: int) -> None:
    import torch

    import autofgl

    torch.set_num_threads(1)
    clients = autofgl.partition(autofgl.load("cora"), clients=count, method="louvain", seed=0)
    ours, plain = Ours(clients), Plain([client.to_pyg() for client in clients])
    for work in (ours.round, plain.round):
        work()  # warm up
    pairs = [(cpu_seconds(ours, rounds), cpu_seconds(plain, rounds)) for _ in range(repeats)]
    mine = statistics.median(a for a, _ in pairs)
    theirs = statistics.median(b for _, b in pairs)
    ratio = statistics.median(a / b for a, b in pairs)
    print(
        f"{count:3d} clients: ours {1e3 * mine:6.1f} ms CPU a round, "
        f"plain PyG {1e3 * theirs:6.1f} ms, ratio {ratio:.2f}"
    )


def one_start(kind: str, count: int) -> None:
    """In a process of its own: start, make one round, tell seconds and peak memory."""
    if kind == "ours":
        import autofgl

        clients = autofgl.partition(autofgl.load("cora"), clients=count, method="louvain", seed=0)
        Ours(clients).round()
    else:
        import numpy as np

        with np.load(sys.argv[-1]) as arrays:
            parts = dict(arrays)
        Plain(plain_clients(parts, count)).round()
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps({"peak_mb": peak}))


def plain_clients(parts: dict[str, Any], count: int) -> list[Any]:
    """PyG data from arrays on disk, as a script of one's own would read them."""
    import torch
    from torch_geometric.data import Data

    return [
        Data(
            **{
                key: torch.from_numpy(parts[f"{index}_{key}"])
                for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
            },
            classes=7,
        )
        for index in range(count)
    ]


def startup(count: int, repeats: int) -> None:
    import tempfile

    import numpy as np

    import autofgl
    from autofgl.graphs.client_graph import to_dense

    clients = autofgl.partition(autofgl.load("cora"), clients=count, method="louvain", seed=0)
    arrays: dict[str, Any] = {}
    for index, client in enumerate(clients):
        arrays[f"{index}_x"] = to_dense(client.x)
        for key in ("edge_index", "y", "train_mask", "val_mask", "test_mask"):
            arrays[f"{index}_{key}"] = getattr(client, key)
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    peaks: dict[str, list[float]] = {"ours": [], "plain": []}
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file.name, **arrays)
        for _ in range(repeats):
            for kind in seconds:
                words = [sys.executable, __file__, "--one", kind, str(count), file.name]
                start = time.perf_counter()
                told = subprocess.run(words, capture_output=True, check=True, text=True).stdout
                seconds[kind].append(time.perf_counter() - start)
                peaks[kind].append(json.loads(told)["peak_mb"])
    extra = statistics.median(a - b for a, b in zip(*seconds.values(), strict=True))
    memory = statistics.median(a / b for a, b in zip(*peaks.values(), strict=True))
    times = ", ".join(f"{kind} {statistics.median(found):.2f} s" for kind, found in seconds.items())
    sizes = ", ".join(f"{kind} {statistics.median(found):.0f} MB" for kind, found in peaks.items())
    print(f"{count:3d} clients: start to first round {extra:+.2f} s ({times})")
    print(f"{count:3d} clients: peak memory ratio {memory:.2f} ({sizes})")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        one_start(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for count in arguments.clients:
        compare(count, arguments.rounds, arguments.repeats)
    for count in arguments.clients:
        startup(count, arguments.repeats)


if __name__ == "__main__":
    main()
