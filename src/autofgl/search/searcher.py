"""What every searcher offers, and the state of its generator."""

import json
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import Population, SearchError

#: A payload: arrays, bytes, text, numbers, lists and dicts, so that it can go into a checkpoint.
State: TypeAlias = dict[str, Any]


class Searcher(Protocol):
    """Proposes codes and learns from their losses; it does not know how they are measured.

    Searchers are handed their generator. A searcher that has loaded a state asks exactly what the
    one that gave it would have asked.
    """

    def ask(self, n: int = 1) -> Population:
        """Codes to evaluate [n, genes]."""
        ...

    def tell(self, codes: npt.ArrayLike, losses: npt.ArrayLike) -> None:
        """Losses of evaluated codes, asked or not; lower is better, NaN and inf count as worst.

        Raises:
            SearchError: Shapes do not fit, or a gene is outside the space.
        """
        ...

    def state(self) -> State:
        """All that :meth:`load_state` needs to go on exactly here."""
        ...

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken."""
        ...


def generator_state(rng: np.random.Generator) -> str:
    """The generator's state as JSON, since its integers have 128 bits and payloads have 64."""
    return json.dumps(rng.bit_generator.state, default=np.ndarray.tolist)


def load_generator_state(rng: np.random.Generator, state: str) -> None:
    """Let the generator go on where :func:`generator_state` was taken.

    Raises:
        SearchError: The text is no state of this kind of generator.
    """
    try:
        rng.bit_generator.state = json.loads(state)
    except (ValueError, KeyError, TypeError) as error:
        kind = type(rng.bit_generator).__name__
        raise SearchError(f"not the state of a {kind} generator: {error}") from error
