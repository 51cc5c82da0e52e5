"""The networks: their descriptions, the fixed ones and the ones that a search chooses."""
