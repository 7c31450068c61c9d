"""Records on a graph: structure alone, edge strengths, tables."""
