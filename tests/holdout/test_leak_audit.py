"""The audit finds planted scores: a tool that never finds any would prove nothing."""

import functools
import sqlite3
import types
import warnings

import numpy as np
import pytest

from tests.facts import refused
from tests.holdout.leak_audit import LeakAudit

SCORE = 738 / 1009


@pytest.fixture
def audit():
    return LeakAudit(SCORE)


class Slotted:
    __slots__ = ("hidden",)


def slotted(value):
    instance = Slotted()
    instance.hidden = value
    return instance


def closure(value):
    return lambda: value


def in_database(value):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (x REAL)")
    connection.execute("INSERT INTO t VALUES (?)", (value,))
    connection.commit()
    return connection


@pytest.mark.parametrize(
    "item",
    [
        SCORE,
        1 - SCORE,
        np.float64(SCORE),
        [0.5, {"deep": (SCORE,)}],
        np.array([0.1, SCORE]),
        np.array([object(), SCORE], dtype=object),
        f"score={SCORE:.8f}",
        f"{100 * SCORE:.6f} %",
        repr(SCORE).encode(),
        types.SimpleNamespace(a=types.SimpleNamespace(b=SCORE)),
        slotted(SCORE),
        closure(SCORE),
        functools.partial(print, SCORE),
        in_database(SCORE),
        ValueError("bad", SCORE),
    ],
    ids=lambda item: type(item).__name__,
)
def test_planted_scores_are_found(audit, item):
    assert audit.find(item)


def test_files_are_searched(audit, tmp_path):
    path = tmp_path / "ledger.sqlite"
    (tmp_path / "ledger.sqlite-wal").write_bytes(b"xx" + np.float64(SCORE).tobytes())
    path.write_bytes(b"nothing")
    assert audit.find(path)


def test_per_record_scores_are_found():
    hits = np.random.default_rng(0).integers(0, 2, size=1009).astype(bool)
    audit = LeakAudit(SCORE, per_record=[hits])
    assert audit.find({"kept": hits.astype(float)})
    assert audit.find(hits.tobytes())


def test_printed_and_warned_text_is_captured(audit):
    with audit.watch() as output:
        print(SCORE)
        warnings.warn(f"score {SCORE}", UserWarning, stacklevel=1)
    assert {finding.where for finding in audit.find(output)} >= {
        "0:CapturedOutput.stdout",
        "0:CapturedOutput.warnings",
    }


def test_locals_of_frames_and_causes_are_searched(audit):
    def inner():
        raw = SCORE
        raise KeyError("fine") from ValueError(len(str(raw)))

    with pytest.raises(KeyError) as caught:
        inner()
    with refused(AssertionError, "frame"):
        audit.check_error(caught.value)
    audit.check_error(caught.value, callers=[__file__])


def test_values_without_planted_scores_pass(audit):
    audit.check({"a": [0.5, 0.73, "0.731"]}, np.linspace(0, 1, 101), b"\x00" * 100, None)
