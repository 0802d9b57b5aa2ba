"""Floor 3, on which node: check-in, incarnations, the Node."""
