"""What a run may be judged by, by name. Nothing here needs NumPy."""

#: Each objective, and which sums over validation nodes it takes besides losses and accuracy.
OBJECTIVES = {
    "accuracy": "",
    "balanced_accuracy": "confusion",
    "macro_f1": "confusion",
    "auroc": "scores",
    "average_precision": "scores",
}
#: Cells of all score histograms together; a class has its share of them, but no fewer than
#: :data:`FEWEST_BINS`.
SCORE_BINS = 8192
FEWEST_BINS = 256
