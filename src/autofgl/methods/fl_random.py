"""FL-Random: networks drawn at random, each trained under federation; the best one wins.

The baseline of FL-AGCNS (Wang et al., 2021, section 4.1) that every search has to beat.
:mod:`autofgl.methods.candidates` says how candidates are tried and who learns what. Random networks
end early less often than uniform genes would have it (``stop``).
"""

from typing import ClassVar

from autofgl.methods.candidates import CandidateSearch
from autofgl.search import RandomSearch, Searcher
from autofgl.seeding import numpy_generator


class FLRandom(CandidateSearch):
    """Random search."""

    summary: ClassVar[str] = "federated architecture search at random, every network from scratch"

    def searcher(self) -> Searcher:
        """Draws without repeats."""
        return RandomSearch(self.codes, numpy_generator(self.seed, "candidates"))
