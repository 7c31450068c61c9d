"""Digests of data, of code, of models and of records: equal content, equal text, everywhere."""

from sklearn_bdp._digests._content import (
    content_key,
    data_digest,
    freeze_data,
    is_content_key,
    query_key,
    training_digest,
)
from sklearn_bdp._digests._keys import model_key, recipe_key
from sklearn_bdp._digests._objects import object_digest
from sklearn_bdp._digests._rows import count_shared_rows, row_digests

__all__ = [
    "content_key",
    "count_shared_rows",
    "data_digest",
    "freeze_data",
    "is_content_key",
    "model_key",
    "object_digest",
    "query_key",
    "recipe_key",
    "row_digests",
    "training_digest",
]
