"""Validation, hashing, root finding, compatibility with scikit-learn, and HTML."""

from sklearn_bdp.utils.hashing import ModelDigest, data_digest, recipe_context, recipe_key
