"""Networks that Python code hands over: classes, factories and modules.

Whatever needs torch is imported where it is used.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autofgl import plugins
from autofgl.config import RunConfig
from autofgl.errors import UserError
from autofgl.runs.folder import RunFolder

if TYPE_CHECKING:
    from torch import nn

    from autofgl.nn.models.spec import NetworkSpec


def model_name(model: "str | nn.Module | Callable[..., nn.Module]", engine: str) -> str:
    """The name that stands for a network, handed over or not, in a configuration.

    A class or factory that no other process could find, and a module with its weights, stand for
    themselves in this process alone.
    """
    if isinstance(model, str):
        return model
    if isinstance(model, type) or not hasattr(model, "state_dict"):
        try:
            return plugins.name_of("model", model)
        except (UserError, AttributeError):  # a class within a function, a partial, a lambda
            if engine != "inprocess":
                raise
    if engine != "inprocess":
        way = "give a class in a file or module, or use engine='inprocess'"
        raise UserError(f"a module in memory does not travel to other processes: {way}")

    from autofgl.nn.models.own import keep_module

    return keep_module(model)


def hand_over_again(folder: RunFolder, model: "nn.Module | Callable[..., nn.Module]") -> None:
    """Have a module stand for the one that a run was started with."""
    name = str(folder.read_config().get("settings", {}).get("model"))
    if not name.startswith(plugins.GIVEN):
        raise UserError(f"{folder.path} was not started with a module in memory: leave 'model' out")
    plugins.hand_over("model", name, model)


def check_options(spec: "NetworkSpec", config: RunConfig, settings: Any) -> None:
    """Refuse settings that a network from outside would not see."""
    from autofgl.nn.models.spec import OwnSpec

    if not isinstance(spec, OwnSpec):
        return

    from autofgl.nn.models.own import unread_options

    fields = type(settings).model_fields
    unread = {*unread_options(spec), "hops", "teleport"}
    for key in unread & config.settings.keys():
        if config.settings[key] != fields[key].default:
            raise UserError(
                f"setting '{key}' has no effect on {spec.title}: it has no parameter of that name"
            )
