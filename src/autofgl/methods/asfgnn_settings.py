"""Settings of ASFGNN, and the space of hyper-parameters that they span."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from autofgl.errors import UserError
from autofgl.methods.sfgnn_settings import COMMON, OWN, SFGNNSettings, own_settings
from autofgl.search.codes import SearchError
from autofgl.search.genes import Float, Gene, Genes, Integer, LogFloat, Ordinal

_FORM = "write a list such as 0.001,0.01 or a range such as 1..5 or 5e-4..1e-2 log"
_WHOLE = ("layers", COMMON)


class ASFGNNSettings(SFGNNSettings):
    """Trials of SFGNN with hyper-parameters that a searcher proposes, then a training to keep."""

    searcher: Literal["bayes", "random", "grid"] = Field(
        default="bayes", description="who proposes hyper-parameters; grid needs lists"
    )
    trials: int = Field(default=30, ge=1, description="hyper-parameter sets that are tried")
    trial_rounds: int = Field(default=100, ge=1, description="rounds of a trial")
    startup: int = Field(default=10, ge=1, description="trials of the space-filling design (bayes)")
    pruning: bool = Field(
        default=False, description="end trials early that are worse than the median so far"
    )
    joint: bool = Field(
        default=True,
        description="hyper-parameters of every client on its own, in one space; "
        "false: the same for all clients",
    )
    tune_dropout: str = Field(default="0..0.6", description=f"values of dropout; {_FORM}")
    tune_weight_decay: str = Field(
        default="1e-5..1e-2 log", description="values of weight_decay; empty: not tuned"
    )
    tune_layers: str = Field(default="1..5", description="values of layers; empty: not tuned")
    tune_lr: str = Field(default="5e-4..2e-2 log", description="values of lr; empty: not tuned")
    tune_hidden: str = Field(
        default="64,128,256,512",
        description="values of hidden, common to all clients; empty: not tuned",
    )

    @field_validator(*(f"tune_{name}" for name in (*OWN, COMMON)), mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """A single value is a list of one."""
        return f"{given!r}" if isinstance(given, int | float) else given


def space(settings: ASFGNNSettings, clients: Sequence[str]) -> Genes:
    """The joint space of all clients: a gene ``<client>.<name>`` each, and the common width.

    Raises:
        UserError: A range cannot be read or does not fit, or nothing is tuned.
    """
    owners = list(clients) if settings.joint else [""]
    names = [(owner, name) for owner in owners for name in OWN] + [("", COMMON)]
    genes = [gene for owner, name in names if (gene := _gene(settings, owner, name)) is not None]
    if not genes:
        raise UserError("nothing is tuned: give tune_lr or another range, or run sfgnn")
    if settings.searcher == "grid" and any(gene.values is None for gene in genes):
        raise UserError(f"searcher=grid needs lists: {_FORM.partition(' or')[0]}")
    return Genes(tuple(genes))


def chosen(
    chromosome: Mapping[str, Any], fixed: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Hyper-parameters of every client: the chromosome's, else the fixed ones."""
    found: dict[str, dict[str, Any]] = {}
    for client, own in fixed.items():
        keys = {name: (f"{client}.{name}", name) for name in own}
        found[client] = {
            name: next((chromosome[key] for key in keys[name] if key in chromosome), value)
            for name, value in own.items()
        }
    return found


def _gene(settings: ASFGNNSettings, owner: str, name: str) -> Gene | None:
    text = getattr(settings, f"tune_{name}").strip()
    if not text:
        return None
    key = f"{owner}.{name}" if owner else name
    try:
        gene = _parsed(key, text, whole=name in _WHOLE)
        ends = gene.values if gene.values is not None else (gene.low, gene.high)  # type: ignore[attr-defined]
    except (ValueError, SearchError) as error:
        raise UserError(f"tune_{name}='{text}': {error}; {_FORM}") from error
    for value in (ends[0], ends[-1]):
        own_settings(settings, {name: value})
    return gene


def _parsed(key: str, text: str, whole: bool) -> Gene:
    number: Any = int if whole else float
    if ".." not in text:
        return Ordinal(key, tuple(sorted(number(part) for part in text.split(","))))
    bounds, _, scale = text.partition(" ")
    low, _, high = bounds.partition("..")
    if whole:
        return Integer(key, int(low), int(high))
    if scale.strip() not in ("", "log"):
        raise ValueError(f"'{scale.strip()}' is no scale")
    return (LogFloat if scale else Float)(key, float(low), float(high))
