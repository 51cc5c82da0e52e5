"""A network as a drawing: stages, layers with their types, and which output each one reads."""

from dataclasses import dataclass, field

from autofgl.nn.models.spec import ModelSpec, NetworkSpec, OwnSpec, SearchedSpec, network_summary
from autofgl.nn.space import Genotype, fused_layers
from autofgl.report.page import NETWORK_STYLE, Safe, element

_BOX_WIDTH, _BOX_HEIGHT = 124, 44
_GAP_X, _GAP_Y = 22, 34
_MARGIN = 10


@dataclass
class _Box:
    """A box: its text, its row from the top, its column, and the boxes it reads."""

    title: str
    detail: str
    row: int
    column: float
    kind: str = "layer"
    reads: list[int] = field(default_factory=list)


def draw_network(spec: NetworkSpec, sizes: bool = True) -> Safe:
    """The drawing of a network, searched or fixed, with widths; data flow from top to bottom."""
    boxes = _tree(spec, sizes) if isinstance(spec, SearchedSpec) else _chain(spec)
    width = (max(box.column for box in boxes) + 1) * (_BOX_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    height = (max(box.row for box in boxes) + 1) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    edges = [_edge(boxes[source], box) for box in boxes for source in box.reads]
    return element(
        "svg",
        edges,
        [_rectangle(box) for box in boxes],
        class_="network",
        viewbox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        aria_label=f"{network_summary(spec)}: {_description(boxes)}",
    )


def network_svg(spec: NetworkSpec) -> str:
    """The drawing of a network as a file of its own."""
    drawing = draw_network(spec).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    head, _, rest = drawing.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><style>{NETWORK_STYLE}</style>{rest}\n'


def _tree(spec: SearchedSpec, sizes: bool) -> list[_Box]:
    """Stage 1, the tree of convolutions, the mean over outputs, stage 3 (FL-AGCNS, section 3.1)."""
    genotype = spec.parsed()
    averaged = fused_layers(genotype, spec.fusion)
    columns = _columns(genotype)
    middle = max(columns.values(), default=0.0) / 2
    hidden, out = (f"{count} wide, " * sizes for count in (spec.hidden, spec.classes))
    boxes = [
        _Box("features", f"{spec.in_features} wide" if sizes else "", 0, middle, "data"),
        _Box("linear", f"{hidden}{genotype.input}", 1, middle, "stage", [0]),
    ]
    for index, layer in enumerate(genotype.existing, 1):
        source = (layer.previous or 0) + 1
        row, column = boxes[source].row + 1, columns[index]
        boxes.append(_Box(layer.type, f"layer {index}", row, column, "layer", [source]))
    last = 1 + max(box.row for box in boxes)
    sources = [index + 1 for index in averaged]
    if len(averaged) > 1:
        boxes.append(_Box("mean", f"of {len(averaged)} outputs", last, middle, "stage", sources))
        sources, last = [len(boxes) - 1], last + 1
    boxes.append(_Box("linear", f"{out}{genotype.output}", last, middle, "stage", sources))
    classes = str(spec.classes) if sizes else ""
    return [*boxes, _Box("classes", classes, last + 1, middle, "data", [len(boxes) - 1])]


def _chain(spec: ModelSpec | OwnSpec) -> list[_Box]:
    """A chain of stages, as the networks of :mod:`autofgl.nn.models` are built."""
    wide = f"{spec.in_features} wide"
    stages = [("features", wide, "data"), *_stages(spec), ("classes", str(spec.classes), "data")]
    return [
        _Box(title, detail, row, 0, kind, [row - 1] if row else [])
        for row, (title, detail, kind) in enumerate(stages)
    ]


def _stages(spec: ModelSpec | OwnSpec) -> list[tuple[str, str, str]]:
    """Title, detail and kind of each stage between features and classes."""
    if isinstance(spec, OwnSpec):
        return [(spec.title, f"{spec.classes} wide", "layer")]
    widths = [f"{spec.hidden} wide"] * (spec.layers - 1) + [f"{spec.classes} wide"]
    into, out = (("linear", f"{width} wide", "stage") for width in (spec.hidden, spec.classes))
    numbered = [f"layer {at + 1}" for at in range(spec.layers)]
    match spec.family:
        case "sgc":
            back = f", teleport {spec.sgc_teleport:g}" if spec.sgc_teleport else ""
            return [("sgc", f"{spec.steps} hops{back}", "layer")]
        case "appnp" | "grand":
            linear = [("linear", width, "stage") for width in widths]
            hops = (spec.family, f"{spec.steps} hops", "layer")
            return [*linear, hops] if spec.family == "appnp" else [hops, *linear]
        case "agnn":
            return [into, *(("agnn", layer, "layer") for layer in numbered), out]
        case "sfgnn":
            passes = [("sage", layer, "layer") for layer in numbered]
            return [into, *passes, ("length 1", "embedding", "stage"), into, out]
        case "gatedgraph":
            return [into, ("gatedgraph", f"{spec.layers} steps", "layer"), out]
    return [(spec.family, width, "layer") for width in widths]


def _columns(genotype: Genotype) -> dict[int, float]:
    """Leaves side by side, other layers above the middle of what reads them."""
    below: dict[int, list[int]] = {index: [] for index in range(genotype.depth + 1)}
    for index, layer in enumerate(genotype.existing, 1):
        below[layer.previous or 0].append(index)
    places: dict[int, float] = {}
    leaves = 0

    def place(index: int) -> float:
        nonlocal leaves
        children = [place(child) for child in below[index]]
        if children:
            places[index] = (children[0] + children[-1]) / 2
        else:
            places[index] = leaves
            leaves += 1
        return places[index]

    place(0)
    del places[0]
    return places


def _edge(source: _Box, target: _Box) -> Safe:
    """A line from the bottom of a box to the top of another; over several rows it swings out."""
    x1, y1 = _center(source), _top(source) + _BOX_HEIGHT
    x2, y2 = _center(target), _top(target)
    bend = (y2 - y1) / 2
    hidden = target.row - source.row > 1 and abs(x2 - x1) < _BOX_WIDTH / 2
    swing = (_BOX_WIDTH + _GAP_X) / 2 if hidden else 0.0
    path = (
        f"M{x1:.1f},{y1:.1f} C{x1 + swing:.1f},{y1 + bend:.1f} "
        f"{x2 + swing:.1f},{y2 - bend:.1f} {x2:.1f},{y2 - 6:.1f}"
    )
    arrow = f"{x2 - 4:.1f},{y2 - 7:.1f} {x2 + 4:.1f},{y2 - 7:.1f} {x2:.1f},{y2 - 1:.1f}"
    tip = element("polygon", points=arrow, class_="tip")
    return element("g", element("path", d=path, class_="edge"), tip)


def _rectangle(box: _Box) -> Safe:
    x, y = _center(box), _top(box) + _BOX_HEIGHT / 2
    corner = {"x": x - _BOX_WIDTH / 2, "y": _top(box)}
    size = {"width": _BOX_WIDTH, "height": _BOX_HEIGHT}
    return element(
        "g",
        element("rect", **corner, **size, rx=8, class_=f"box {box.kind}"),
        element("text", box.title, x=x, y=y - 3, text_anchor="middle", class_="title"),
        element("text", box.detail, x=x, y=y + 14, text_anchor="middle", class_="detail"),
    )


def _center(box: _Box) -> float:
    return _MARGIN + box.column * (_BOX_WIDTH + _GAP_X) + _BOX_WIDTH / 2


def _top(box: _Box) -> float:
    return _MARGIN + box.row * (_BOX_HEIGHT + _GAP_Y)


def _description(boxes: list[_Box]) -> str:
    names = [f"{box.title} ({box.detail})" for box in boxes]
    reads = [
        f"{name} reads {' and '.join(names[source] for source in box.reads)}"
        for name, box in zip(names, boxes, strict=True)
        if box.reads
    ]
    return "; ".join(reads) + "."
