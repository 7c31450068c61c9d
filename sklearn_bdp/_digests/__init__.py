"""Digests of data, of code, of models and of records: equal content, equal text, everywhere."""

from sklearn_bdp._digests._content import (
    content_key,
    copied,
    data_digest,
    freeze_data,
    is_content_key,
    query_key,
    training_digest,
)
from sklearn_bdp._digests._keys import KnownModel, fingerprint, has_own_code, recipe_key
from sklearn_bdp._digests._objects import object_digest, settled_classes
from sklearn_bdp._digests._rows import (
    cell_codes,
    count_shared_rows,
    likeness,
    mixed,
    row_digests,
)
