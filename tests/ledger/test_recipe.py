"""The recipe for a ledger in CONTRIBUTING.md, followed in a module of its own."""

import importlib.util
import pickle
import sys

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from sklearn_bdp import ReusableHoldoutSearchCV
from sklearn_bdp.exceptions import LedgerBusyError, LedgerCorruptedError
from sklearn_bdp.holdout import HoldoutConfig, ReusableHoldout
from tests.holdout import workers

MODULE = '''
import contextlib, json, os, time
from sklearn_bdp.exceptions import LedgerBusyError
from sklearn_bdp.ledger import Backend, Row, Stored


class Folder(Backend):
    """A folder with a file for each entry."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __str__(self):
        return self.folder

    def _path(self, number):
        return os.path.join(self.folder, f"{number}.json")

    def _write(self, number, content):
        with open(self._path(number), "x") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())

    def _load(self, number):
        with open(self._path(number)) as file:
            return json.load(file)

    def create(self, header, start, rows=()):
        if os.path.exists(self._path(0)):
            return False
        os.makedirs(self.folder, exist_ok=True)
        self._write(0, [header, start])
        for row in rows:
            self._write(row.number, row)
        return True

    def read(self, after):
        if not os.path.exists(self._path(0)):
            return None
        header, start = self._load(0)
        count = len([name for name in os.listdir(self.folder) if name.endswith(".json")]) - 1
        links = [start, *(self._load(number)[6] for number in range(1, count + 1))]
        rows = [Row(*self._load(number)) for number in range(after + 1, count + 1)]
        known = links[after] if after <= count else None
        return Stored(header, start, (count, links[-1]), known, rows)

    @contextlib.contextmanager
    def lock(self, timeout):
        end, path = time.monotonic() + timeout, os.path.join(self.folder, "lock")
        while True:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                if time.monotonic() > end:
                    raise LedgerBusyError(f"{self} is locked.") from None
                time.sleep(0.01)
        try:
            yield
        finally:
            os.unlink(path)

    def append(self, expected_head, row):
        self._write(row.number, row)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "my_ledger.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("my_ledger", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_ledger", module)
    spec.loader.exec_module(module)
    return module.Folder(tmp_path / "entries")


def make(folder, **options):
    return ReusableHoldout(workers.X, workers.Y, ledger=folder, **options)


def test_what_the_recipe_names_is_all_that_must_be_written(folder, path):
    holdout = make(folder, random_state=1)
    asked = [0.1, 0.5], workers.scores(2, 0)
    given = holdout.answer(*asked, keys=["a", "b"])
    same = make(path, random_state=1).answer(*asked, keys=["a", "b"])
    assert (given.values == same.values).all()
    again = make(folder)
    assert again.history() == holdout.history()
    assert str(folder) in repr(again)
    again.note("mine", 3)
    assert holdout.notes("mine") == [3]
    assert len(pickle.loads(pickle.dumps(holdout)).history()) == 2
    with again.account.writing(), pytest.raises(LedgerBusyError):
        make(folder, ledger_timeout=0.05).answer([0.5], workers.scores(1, 2))


def test_a_search_asks_it_and_edits_are_noticed(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    search = ReusableHoldoutSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": [1, 2]},
        holdout=HoldoutConfig(ledger=folder),
    )
    assert len(search.fit(X, y).holdout_.history()) == 2
    assert len(search.fit(X, y).holdout_.history()) == 2  # the same script resumes
    edited = folder._path(1)
    with open(edited) as file:
        text = file.read()
    with open(edited, "w") as file:
        file.write(text.replace("max_depth=1", "max_depth=9"))
    with pytest.raises(LedgerCorruptedError):
        search.fit(X, y)
