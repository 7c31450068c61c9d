"""Released answers to a batch, with placeholders for queries without an answer."""

from __future__ import annotations

import math

import numpy as np

from sklearn_bdp.ledger.records import AnswerRecord, Answers, HoldoutAnswers

_COLUMNS = ("value", "lower", "upper", "corrected")


def released_answers(batch, answers, on_exhausted):
    """Return the :class:`HoldoutAnswers` to a QueryBatch, placeholders included.

    ``answers``: :class:`Answers` to its first queries, or a list with an AnswerRecord or None for
    each query. ``on_exhausted``: "cv" for placeholders with cross-validated scores, else NaN.
    """
    if isinstance(answers, Answers) and len(answers) == len(batch):
        values, lower, upper, corrected = (answers.columns[name].copy() for name in _COLUMNS)
        is_answered = np.ones(len(batch), dtype=bool)
        return HoldoutAnswers(values, lower, upper, corrected.astype(bool), is_answered, answers)
    batch_answers = [*answers, *[None] * (len(batch) - len(answers))]
    for index, answer in enumerate(batch_answers):
        if answer is None:
            batch_answers[index] = _placeholder(batch, index, on_exhausted)
    columns = [
        np.array([getattr(answer, name) for answer in batch_answers])
        for name in (*_COLUMNS, "answered")
    ]
    return HoldoutAnswers(*columns, batch_answers)


def _placeholder(batch, index, on_exhausted):
    """Return an AnswerRecord for the query at ``index``, which the holdout did not answer.

    If ``on_exhausted`` is "cv", the value is the cross-validated score, and the interval is [0, 1].
    Otherwise the value and the ends are NaN.
    """
    description = batch.descriptions[index]
    cv_score = float(batch.cv_scores[index])
    value, lower, upper = math.nan, math.nan, math.nan
    if on_exhausted == "cv":
        value, lower, upper = cv_score, 0.0, 1.0
    return AnswerRecord(
        batch=0,
        position=index,
        key=batch.keys[index],
        time="",
        code_length=math.nan,
        cv_score=cv_score,
        value=value,
        lower=lower,
        upper=upper,
        corrected=False,
        metric=description.metric,
        model=description.model,
        scale=description.scale,
        answered=False,
    )
