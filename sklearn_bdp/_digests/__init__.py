"""Digests of data, of code and of models: equal content, equal text, everywhere."""

from sklearn_bdp._digests.content import data_digest
from sklearn_bdp._digests.objects import KnownModel, recipe_key
