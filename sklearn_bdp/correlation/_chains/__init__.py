"""Records in time: chains, classes of chains, and the bounds that are theirs alone."""
