"""Found architectures as drawings for the terminal."""

from collections.abc import Iterator

from autofgl.nn.found import Fusion, fused_layers
from autofgl.nn.space import Genotype


def draw(genotype: Genotype, fusion: Fusion = "all") -> str:
    """The tree of convolutions, with the outputs that are averaged led to the output stage.

    A layer hangs below its predecessor. ``sigmoid | gcn<0 gat<1 sage<0 | relu`` becomes::

        features → linear → sigmoid
        ├─ 1 gcn ────┐
        │  └─ 2 gat ─┤
        └─ 3 sage ───┤
                     └─ mean of 3 → linear → relu → classes

    Args:
        genotype: The architecture; layers that do not exist are not drawn.
        fusion: Which layers' outputs are averaged.

    Returns:
        Lines without a newline at the end, at most 78 columns for six layers.
    """
    start = f"features → linear → {genotype.input}"
    end = f"linear → {genotype.output} → classes"
    if not genotype.depth:
        return f"{start} → {end}"
    averaged = fused_layers(genotype, fusion)
    if len(averaged) > 1:
        end = f"mean of {len(averaged)} → {end}"
    tree = list(_tree(genotype))
    width = max(len(label) for _, label in tree) + 2
    first = next(at for at, (layer, _) in enumerate(tree) if layer in averaged)
    lines = [
        _led_out(label, width, layer in averaged, at > first)
        for at, (layer, label) in enumerate(tree)
    ]
    return "\n".join([start, *lines, f"{' ' * width}└─ {end}"])


def _tree(genotype: Genotype, root: int = 0, indent: str = "") -> Iterator[tuple[int, str]]:
    """Index and label of the layers below one, depth first."""
    layers = enumerate(genotype.existing, start=1)
    below = [(index, layer.type) for index, layer in layers if layer.previous == root]
    for index, kind in below:
        last = index == below[-1][0]
        yield index, f"{indent}{'└─' if last else '├─'} {index} {kind}"
        yield from _tree(genotype, index, indent + ("   " if last else "│  "))


def _led_out(label: str, width: int, averaged: bool, below_another: bool) -> str:
    """A layer's label with its line to the rail at the right, if its output is averaged."""
    if averaged:
        return f"{label} {'─' * (width - len(label) - 1)}{'┤' if below_another else '┐'}"
    return f"{label:{width}}│" if below_another else label
