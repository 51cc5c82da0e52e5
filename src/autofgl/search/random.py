"""Random search: the baseline that every searcher has to beat."""

import numpy as np
import numpy.typing as npt

from autofgl.search.codes import Code, Codes, Population, worst_if_diverged
from autofgl.search.genes import Chromosome, Genes
from autofgl.search.operators import fresh_code
from autofgl.search.searcher import State, generator_state, load_generator_state
from autofgl.search.tuner import TrialTuner
from autofgl.seeding import numpy_generator

#: Spaces up to this size are listed when draws keep hitting known codes.
LISTABLE = 1 << 16


class RandomSearch:
    """Draws codes and repeats none while there are others.

    When a space that is small enough to list is used up, the next round over it begins.

    Args:
        codes: The space.
        rng: Source of all chance.
    """

    def __init__(self, codes: Codes, rng: np.random.Generator) -> None:
        self.codes = codes
        self._rng = rng
        self._seen: dict[bytes, Code] = {}

    def ask(self, n: int = 1) -> Population:
        """Codes that were neither asked nor told before."""
        return self.codes.stack(self._next() for _ in range(n))

    def tell(self, codes: npt.ArrayLike, losses: npt.ArrayLike) -> None:
        """Remember the codes, so that they are not asked again; losses teach it nothing."""
        checked = self.codes.check(codes)
        worst_if_diverged(losses, len(checked))
        for code in checked:
            self._seen.setdefault(self.codes.key(code), code)

    def state(self) -> State:
        """Generator and known codes."""
        return {"rng": generator_state(self._rng), "seen": self.codes.stack(self._seen.values())}

    def load_state(self, state: State) -> None:
        """Take up where :meth:`state` was taken."""
        seen = self.codes.check(state["seen"])
        load_generator_state(self._rng, state["rng"])
        self._seen = dict(zip(self.codes.keys(seen), seen, strict=True))

    def _next(self) -> Code:
        code = fresh_code(self.codes, self._seen, self._rng)
        if self.codes.key(code) in self._seen and self.codes.size <= LISTABLE:
            code = self._from_list()
        self._seen.setdefault(self.codes.key(code), code)
        return code

    def _from_list(self) -> Code:
        """One of the codes left in a small space; with none left, all are new again."""
        listed = np.indices(self.codes.cardinalities).reshape(self.codes.genes, -1).T
        left = [row for row, key in enumerate(self.codes.keys(listed)) if key not in self._seen]
        if not left:
            self._seen.clear()
        code: Code = listed[self._rng.choice(left or len(listed))].astype(np.int64)
        return code


class RandomTuner(TrialTuner):
    """Random search over chromosomes of mixed type. A repeat is drawn only if new ones are rare.

    Args:
        genes: The space.
        seed: Root of all chance; every proposal has a generator of its own.
    """

    def __init__(self, genes: Genes, seed: int) -> None:
        super().__init__(genes)
        self._seed = seed

    def propose(self) -> Chromosome:
        """A random chromosome."""
        return self.fresh(numpy_generator(self._seed, "trial", len(self.trials)))
