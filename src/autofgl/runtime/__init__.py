"""What every method stands on: settings, recipes, a client's model, the round engine, trials."""
