"""Digests of data, of code and of models: equal content, equal text, everywhere."""

from sklearn_bdp.utils.hashing import data_digest
from sklearn_bdp.utils.object_hashing import KnownModel, recipe_key
