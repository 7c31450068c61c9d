"""The comparison of selectors: it goes on where it was interrupted, both sides get all records."""

import pytest

from benchmarks import feature_selection as bench


@pytest.fixture
def small(monkeypatch, tmp_path):
    tiny = {"tiny": lambda seed: bench.planted(200, 20, seed, n_true=6)}
    monkeypatch.setattr(bench, "PROBLEMS", tiny)
    return ["--problems", "tiny", "--seeds", "2", "--output", str(tmp_path / "rows.csv")]


def test_an_interrupted_run_goes_on(small, monkeypatch, capsys):
    whole = [*small, "--methods", "kbest", "outside", "ours"]
    calls, run = [], bench.run

    def counted(*task, **params):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(task)
        return run(*task, **params)

    monkeypatch.setattr(bench, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        bench.main(whole)
    monkeypatch.setattr(bench, "run", lambda *t, **p: calls.append(t) or run(*t, **p))
    bench.main(whole)
    assert len(calls) == len(set(calls)) == 6
    table = capsys.readouterr().out.splitlines()[-3:]
    assert [line.split(" | ")[1:3] for line in table] == [
        ["ours", "2"],
        ["kbest", "2"],
        ["outside", "2"],
    ]
    bench.main([*whole, "--report"])
    assert capsys.readouterr().out.splitlines()[-3:] == table


def test_the_pipeline_of_ours_is_fitted_on_all_records(monkeypatch):
    data = bench.planted(200, 20, 0, n_true=6)
    seen = []
    make = bench.classifier

    def spying():
        model = make()
        fit = model.fit
        object.__setattr__(model, "fit", lambda X, y: seen.append(len(X)) or fit(X, y))
        return model

    monkeypatch.setattr(bench, "classifier", spying)
    found = bench.ours(data, 0)
    assert seen[-1:] == [200]
    assert len(found.rows) == 150
    assert found.verified is not found.model
