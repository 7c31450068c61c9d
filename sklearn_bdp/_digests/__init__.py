"""Digests of data, of code and of models: equal content, equal text, everywhere."""

from sklearn_bdp._digests._content import (
    as_one_array,
    content_key,
    copied,
    data_digest,
    is_content_key,
    query_key,
)
from sklearn_bdp._digests._objects import (
    KnownModel,
    fingerprint,
    has_own_code,
    object_digest,
    recipe_key,
)
