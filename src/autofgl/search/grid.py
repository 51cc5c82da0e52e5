"""Grid search: every chromosome of a space, one after the other."""

from autofgl.search.codes import SearchError
from autofgl.search.genes import Chromosome, Genes
from autofgl.search.tuner import TrialTuner


class GridSearch(TrialTuner):
    """Asks for every chromosome once, the last gene changing fastest, and then for none.

    Args:
        genes: The space; it has no continuum.

    Raises:
        SearchError: The space cannot be listed.
    """

    def __init__(self, genes: Genes) -> None:
        super().__init__(genes)
        if any(gene.values is None for gene in genes.genes):
            raise SearchError("a grid needs genes with a list of values")

    def propose(self) -> Chromosome | None:
        """The first that was not asked yet, or that failed."""
        return next((one for one in self.genes.listed() if one not in self.trials), None)
