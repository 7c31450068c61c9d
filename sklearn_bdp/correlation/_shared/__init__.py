"""What chains and networks share: frozen values, kernels, contraction of leakage, index sets."""
