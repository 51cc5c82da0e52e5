"""What a client may answer: the form of every reply, checked before the server uses any of it.

A form says what is wrong with a value, in words that follow the value's name, or nothing. Forms of
records name their fields, and a field that they do not name is refused. The forms of a method's
operations stand beside the calls that read the answers; :class:`autofgl.runtime.clients.Clients`
checks them, so that a client that answers something else is a bad client and nothing worse.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from autofgl.errors import AutoFGLError
from autofgl.nn.models.spec import own_names, spec_from_json
from autofgl.runtime.metrics import SIZE, SPLITS

#: Lengths of an array's axes; None where any length will do.
Lengths: TypeAlias = tuple[int | None, ...]

#: No size in the description of a network is larger.
LARGEST_SIZE = 1 << 24
#: Most layers, heads and the like.
MOST_PARTS = 1 << 10


class Form(Protocol):
    """What a value has to look like."""

    def fault(self, value: Any) -> str:
        """What is wrong with a value, as in "should be a whole number"; empty if it fits."""


@dataclass(frozen=True)
class Number:
    """A finite number within bounds, whole if it is to count something."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        kinds = (int,) if self.whole else (int, float)
        if type(value) not in kinds or not abs(value) < math.inf:
            return f"should be a {'whole' if self.whole else 'finite'} number"
        return "" if self.low <= value <= self.high else "is out of bounds"


@dataclass(frozen=True)
class Truth:
    """True or false."""

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        return "" if type(value) is bool else "should be true or false"


@dataclass(frozen=True)
class Scalar:
    """A finite number, true or false, or a short word."""

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        if type(value) is str:
            return "" if len(value) <= 100 and value.isprintable() else "should be a short word"
        return "" if type(value) is bool else Number().fault(value)


@dataclass(frozen=True)
class Array:
    """Finite numbers within bounds, of a kind of type and with axes of given lengths."""

    axes: Lengths | None = None
    low: float = -math.inf
    high: float = math.inf
    kinds: str = "f"
    #: What else must hold, as a form's ``fault``; asked last.
    also: Callable[[Any], str] = lambda _: ""

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        if not isinstance(value, np.ndarray) or value.dtype.kind not in self.kinds:
            return "should be an array of numbers"
        if self.axes is not None and not _fits(value.shape, self.axes):
            return "has another shape than it should"
        if not np.isfinite(value).all():
            return "holds NaN or infinite values"
        if value.size and not (self.low <= value.min() and value.max() <= self.high):
            return "is out of bounds"
        return self.also(value)


@dataclass(frozen=True)
class Named:
    """Values of one form by name; of exactly these names if they are given."""

    form: Form
    names: frozenset[str] | None = None

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        if type(value) is not dict:
            return "should be values by name"
        if self.names is not None and value.keys() != self.names:
            return "has other names than it should"
        return next((why for one in value.values() if (why := self.form.fault(one))), "")


@dataclass(frozen=True)
class Record:
    """Fields, each of a form of its own; some may be missing, and there are no others."""

    fields: Mapping[str, Form]
    optional: frozenset[str] = frozenset()
    #: Whether an empty one will do: what a client has to say about itself may be its own affair.
    or_nothing: bool = False

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        if type(value) is not dict:
            return "should be a record"
        if self.or_nothing and not value:
            return ""
        if value.keys() - self.fields.keys():
            return "has fields that nobody asked for"
        for name, form in self.fields.items():
            if name not in value:
                if name not in self.optional:
                    return f"lacks '{name}'"
            elif why := form.fault(value[name]):
                return why if why.startswith("'") else f"'{name}' {why}"
        return ""

    def having(self, **fields: Form) -> "Record":
        """The same with more fields."""
        return replace(self, fields={**self.fields, **fields})

    def perhaps(self, fields: Mapping[str, Form]) -> "Record":
        """The same with more fields that may be missing."""
        return replace(self.having(**fields), optional=self.optional | fields.keys())


@dataclass(frozen=True)
class Contribution:
    """A client's part of a sum; what is in it is checked when the sum is made."""

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        return "" if type(value) is dict else "should be a contribution to a sum"


@dataclass(frozen=True)
class Box:
    """Bytes that are for other clients."""

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        return "" if type(value) is bytes else "should be bytes"


@dataclass(frozen=True)
class Network:
    """The description of a network that can be built, of bearable size.

    One from outside the package is named by where its code is, and whoever builds it runs that
    code: it has to be among the ``own`` ones, which this side has named itself.
    """

    own: frozenset[str] = frozenset()

    def fault(self, value: Any) -> str:
        """See :class:`Form`."""
        try:
            spec = spec_from_json(value)
        except (AutoFGLError, AttributeError, TypeError, ValueError, OverflowError):
            return "should describe a network"
        if not own_names(spec) <= self.own:
            return "describes another network than was asked for"
        sizes = [number for number in vars(spec).values() if type(number) is int]
        parts = (getattr(spec, name, None) or 0 for name in ("layers", "heads", "hops", "stacks"))
        large = max(sizes) > LARGEST_SIZE or max(parts) > MOST_PARTS
        large = large or len(getattr(spec, "genotype", "")) > 16 * MOST_PARTS
        return "describes a network that is too large" if large else ""


def metrics_fault(sums: Any) -> str:
    """What is wrong with metrics of some nodes, ``[9 k]``: losses of 0 or more, and no more correct
    predictions than there are nodes.
    """
    rows = np.asarray(sums, np.float64).reshape(-1, len(SPLITS), 3)
    loss, correct, count = np.moveaxis(rows, -1, 0)
    if (loss < 0).any() or (correct < 0).any() or (correct > count).any():
        return "is out of bounds"
    whole = np.array_equal(correct, np.rint(correct)) and np.array_equal(count, np.rint(count))
    return "" if whole else "should count whole nodes"


def _fits(shape: tuple[int, ...], axes: Lengths) -> bool:
    pairs = zip(shape, axes, strict=False)
    return len(shape) == len(axes) and all(want in (None, have) for have, want in pairs)


#: Sums of a client over its own nodes, ``[9]``, in the clear.
METRICS = Array((SIZE,), also=metrics_fault)
WHOLE = Number(0, 2**62, whole=True)
SECONDS = Number(0, 1e9)
SUM = Contribution()
#: Seconds of all clients, and how many clients: one or more.
SECONDS_SUM = Array((2,), low=0, also=lambda sums: "" if sums[1] > 0.5 else "is out of bounds")
WEIGHTS = Named(Array())
NOTHING = Record({})
#: What a client says of other weights than its final ones: figures, and who of the two is right
#: alone on validation and on test nodes.
RIVAL = Record({"metrics": METRICS, "paired": Array((2, 2), low=0)})
#: What a client says about itself at the end.
OWN = Record({"nodes": WHOLE, "edges": WHOLE, "metrics": METRICS}, or_nothing=True).perhaps(
    {"alone": RIVAL, "common": RIVAL}
)
#: Whether a summed update was not taken in, since it is out of bounds.
TAKE = Record({"refused": Truth()}, frozenset({"refused"}))
#: What a client has released with noise, and the deviation of that of an accuracy.
SPENT = Record({"updates": WHOLE, "figures": WHOLE, "deviation": Number(0)})
#: What all clients have alike, for one that missed some rounds.
STATE = Record({"state": Box()})
#: A model that is handed over.
EXPORT = Record({"weights": WEIGHTS, "spec": Network()})

#: What a client answers to ``start``, to ``round`` and to ``conclude``; the way of sharing adds its
#: own. ``refused`` says that the last summed update was out of bounds and not taken in.
START = Record({"counts": SUM}).perhaps(
    {
        "reference": WEIGHTS,
        "network": Scalar(),
        "parameters": WHOLE,
        "exchanges": Number(0, 4096, True),
    }
)
#: What a client answers that is to go on with a training: whether it needs another's state for it.
GO_ON = Record({"behind": Truth()})
ROUND = Record({}).perhaps({"metrics": SUM, "update": SUM, "refused": Truth()})
CONCLUDE = Record({"report": SUM}).perhaps({"seconds": SUM})


def export_form(own: Iterable[str]) -> Record:
    """:data:`EXPORT` of a network that may have parts from outside the package, by name."""
    return EXPORT.having(spec=Network(frozenset(own)))
