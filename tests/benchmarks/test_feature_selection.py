"""The comparison of selectors: it goes on where it was interrupted, both sides get all records."""

import numpy as np
import pytest

from benchmarks import feature_selection as bench
from sklearn_bdp.feature_selection import HoldoutFeatureSelector


@pytest.fixture
def small(monkeypatch, tmp_path):
    tiny = {"tiny": lambda seed: bench.planted(200, 20, seed, n_true=6)}
    monkeypatch.setattr(bench, "PROBLEMS", tiny)
    return ["--problems", "tiny", "--seeds", "2", "--output", str(tmp_path / "rows.csv")]


def _table(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("| tiny")]


def test_an_interrupted_run_continues(small, monkeypatch, capsys):
    arguments = [*small, "--methods", "kbest", "outside"]
    calls = []
    run = bench.run

    def run_three_tasks(*task, **params):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(task)
        return run(*task, **params)

    monkeypatch.setattr(bench, "run", run_three_tasks)
    with pytest.raises(KeyboardInterrupt):
        bench.main(arguments)
    monkeypatch.setattr(bench, "run", lambda *t, **p: calls.append(t) or run(*t, **p))
    bench.main(arguments)
    assert len(calls) == len(set(calls)) == 4
    table = _table(capsys)
    assert [line.split(" | ")[1:3] for line in table] == [["kbest", "2"], ["outside", "2"]]
    bench.main([*arguments, "--report"])
    assert _table(capsys) == table


def test_peers_select_on_the_training_records_of_the_holdout_selector(monkeypatch):
    data = bench.planted(200, 20, 0, n_true=6)
    selector = HoldoutFeatureSelector(bench.classifier(), random_state=3).fit(data.X, data.y)
    assert bench.training_rows(data, 3).tolist() == selector.train_indices_.tolist()


@pytest.mark.parametrize("name", bench.PROBLEMS)
def test_every_problem_has_rows_by_its_metric(name, monkeypatch):
    data = bench.PROBLEMS[name](0)
    assert data.scoring in ("accuracy", "roc_auc")
    rows = data.fresh(np.arange(3))
    assert rows[0].shape == (len(rows[1]), 3)


@pytest.mark.parametrize("method", [*bench.PEERS, "ours", "filter", "bonferroni"])
def test_every_peer_finds_the_true_features(method, monkeypatch):
    name = "screening tiny" if method in bench.SCREENS else "tiny"
    make = lambda seed: bench.planted(400, 30, seed, shift=1.5, share=0.3, scoring="roc_auc")  # noqa: E731
    monkeypatch.setattr(bench, "PROBLEMS", {name: make})
    row = bench.run(method, name, 0)
    assert row["true_kept"] >= 7
    assert method in bench.SCREENS or row["fresh"] > 0.9
