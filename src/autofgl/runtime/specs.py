"""The networks that settings ask for, and the code from outside the package that they take."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.nn.models.spec import ModelSpec, OwnSpec


#: Settings that a network from outside is given if it has a parameter of that name.
OWN_OPTIONS = ("hidden", "layers", "dropout", "heads")


def own_code(settings: Any) -> dict[str, str]:
    """Names of what settings ask for from outside the package, and what it is to be."""
    from autofgl.nn.models.spec import FAMILIES

    model = getattr(settings, "model", None)
    models = {model: "model"} if isinstance(model, str) and model not in FAMILIES else {}
    return {**models, **dict.fromkeys((own_layers(settings) or {}).values(), "layer")}


def own_layers(settings: Any) -> dict[str, str] | None:
    """Layers from outside the package in the search space of settings: their homes by name."""
    from autofgl.nn.space import own_types

    types = getattr(settings, "types", None)
    return (own_types(types.split(",")) or None) if isinstance(types, str) else None


def model_spec(graph: "ClientGraph", settings: Any) -> "ModelSpec | OwnSpec":
    """The network that :class:`NetworkSettings` ask for, sized for a graph."""
    from autofgl.nn.models.spec import FAMILIES, OwnSpec

    if settings.model not in FAMILIES:
        options = {name: getattr(settings, name) for name in OWN_OPTIONS}
        fields = type(settings).model_fields
        changed = [name for name, value in options.items() if value != fields[name].default]
        return OwnSpec(settings.model, graph.num_features, graph.classes, options, changed)
    return family_spec(graph, settings)


def family_spec(graph: "ClientGraph", settings: Any) -> "ModelSpec":
    """The same, where it is one of our families."""
    from autofgl.nn.models.spec import ModelSpec

    return ModelSpec(
        family=settings.model,
        in_features=graph.num_features,
        classes=graph.classes,
        hidden=settings.hidden,
        layers=settings.layers,
        heads=settings.heads,
        hops=settings.hops or None,
        teleport=settings.teleport,
        dropout=settings.dropout,
    )
