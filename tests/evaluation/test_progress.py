"""What a search keeps while it runs."""

import gc
import warnings

from sklearn_bdp._evaluation._progress import ModelStore


def test_a_store_gives_every_model_back_and_closes_its_file():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        store = ModelStore()
        for row in range(4):
            store.put(row, {"model": row}, guess=row / 4, repeatable=False)
        assert [store.get(row) for row in range(4)] == [{"model": row} for row in range(4)]
        file = store._file
        del store
        gc.collect()
        assert file.closed
