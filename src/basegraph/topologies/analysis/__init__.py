"""Numbers about a topology: gossip on vectors, rates, bounds, disagreement."""
