"""Confidence limits, one module for each family of bounds."""
