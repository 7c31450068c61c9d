"""Digests of data, of code and of models: equal content, equal text, everywhere."""
