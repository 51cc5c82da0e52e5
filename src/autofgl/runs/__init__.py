"""Run folders: configuration, history, checkpoints, results and exported models."""
