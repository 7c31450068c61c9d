"""The founding experiments: the cheap sampler is exact, runs resume, the analyst is Dwork's."""

import csv
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks" / "experiments").is_dir():
    pytest.skip("benchmarks are not part of an installation", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def _path():
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


def module(name):
    return importlib.import_module(f"benchmarks.experiments.{name}")


def populations():
    samples = module("_samples")
    return {
        "dwork": samples.dwork_population(40, 4, 0.15),
        "markov": samples.markov_population(40, 4, 0.15, stay=0.9, loading=0.3),
    }


def command(script, *arguments, output):
    return subprocess.run(
        [
            *(sys.executable, "-m", f"benchmarks.experiments.{script}"),
            *("--output", str(output), "--jobs", "1", *arguments),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["dwork", "markov"])
def test_statistics_have_the_distribution_of_the_records(name):
    # Whole repetitions from all records against repetitions from the statistics' own distribution:
    # every column of the result, and products that see the dependence between columns.
    population = populations()[name]
    samples, analyst = module("_samples"), module("_analyst")
    drawn = {}
    for key, sample in samples.SAMPLES.items():
        # The two samplers must not share random numbers: different seeds.
        runs = [
            analyst.run_repetition(
                population, sample, 60, [3, 8], np.random.default_rng([len(key), i])
            )
            for i in range(600)
        ]
        drawn[key] = np.array(runs)[..., :4].reshape(600, -1)
    one, two = drawn["records"], drawn["statistics"]
    pairs = [(0, 1), (0, 8), (4, 5), (1, 9), (2, 6), (8, 12)]
    columns = [(one[:, i], two[:, i]) for i in range(one.shape[1])]
    columns += [(one[:, i] + one[:, j], two[:, i] + two[:, j]) for i, j in pairs]
    smallest = min(ks_2samp(a, b).pvalue for a, b in columns)
    assert smallest > 0.01 / len(columns)


@pytest.mark.parametrize("name", ["dwork", "markov"])
def test_correlations_have_the_distribution_of_the_records(name):
    population = populations()[name]
    samples = module("_samples")
    c = {
        key: np.array(
            [
                kind(population, 60, np.random.default_rng([len(key), i])).correlations()
                for i in range(1500)
            ]
        )
        for key, kind in samples.SAMPLES.items()
    }
    a, b = c["records"], c["statistics"]
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 1500)
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error).all()
    np.testing.assert_allclose(np.cov(a.T), np.cov(b.T), atol=6 * a.var() / np.sqrt(1500))


def test_analyst_keeps_agreeing_large_correlations_best_first():
    keep = module("_analyst").keep_attributes
    training = np.array([0.30, -0.50, 0.20, 0.40, 0.05, -0.25])
    holdout = np.array([0.20, -0.30, -0.9, 0.05, 0.90, -0.11])
    assert keep(training, holdout, 100).tolist() == [1, 0, 5]
    votes = module("_analyst").sign_votes(training, np.array([1, 0, 5]), [0, 2, 9])
    assert votes.tolist() == [[0] * 6, [1, -1, 0, 0, 0, 0], [1, -1, 0, 0, 0, -1]]


def test_correlations_are_asked_in_their_own_units():
    ask = module("_analyst").reusable_answers
    training = np.zeros(4000)
    holdout = np.full(4000, -0.3)
    answers, above = ask(training, holdout, 0.04, 0.01, np.random.default_rng(0), low=-1.0)
    assert above == 4000
    assert abs(answers.mean() + 0.3) < 0.001
    assert abs(answers.std() - 0.01) < 0.0005
    answers, above = ask(training, training, 0.04, 1e-4, np.random.default_rng(0), low=-1.0)
    assert above == 0
    np.testing.assert_allclose(answers, 0.0, atol=1e-12)


@pytest.mark.parametrize("script", ["dwork", "zhao"])
def test_one_command_writes_figures_and_tables(script, tmp_path):
    result = command(script, "--size", "tiny", output=tmp_path)
    assert result.returncode == 0, result.stderr
    for figure in (2, 3):
        name = f"{script}-figure-{figure}-tiny"
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        with (tmp_path / f"{name}.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        assert len(rows) == 2 * 6
        assert {row["analyst"] for row in rows} == {"standard", "reusable"}


def run(output, repetitions, *, seed=0, restart=False):
    settings = {"n": 60, "sizes": [0, 3, 8], "seed": seed, "data": "statistics", "noise": "paper"}
    results, _ = module("_runner").run(
        populations()["dwork"],
        settings,
        output=output,
        name="few",
        repetitions=repetitions,
        restart=restart,
    )
    return results


@pytest.mark.parametrize("cut", [1, 3, 40])
def test_interrupted_run_continues_and_gives_the_same_numbers(cut, tmp_path, capsys):
    whole = run(tmp_path / "whole", 5)
    run(tmp_path / "parts", 2)
    table = tmp_path / "parts" / "few-repetitions.csv"
    text = table.read_text()
    table.write_text(text[: len(text) - cut])  # cut off while the last repetition was written
    capsys.readouterr()
    np.testing.assert_array_equal(run(tmp_path / "parts", 5), whole)
    assert "1/5" in capsys.readouterr().err
    assert table.read_text() == (tmp_path / "whole" / table.name).read_text()


def test_finished_repetitions_are_not_run_again(tmp_path, monkeypatch):
    first = run(tmp_path, 3)
    monkeypatch.setattr(module("_runner"), "run_repetition", None)
    np.testing.assert_array_equal(run(tmp_path, 3), first)


def test_other_settings_are_not_mixed_in(tmp_path):
    first = run(tmp_path, 2)
    with pytest.raises(ValueError, match=r"other settings \(seed\)"):
        run(tmp_path, 2, seed=1)
    np.testing.assert_array_equal(run(tmp_path, 2), first)  # nothing was touched
    assert not np.array_equal(run(tmp_path, 2, seed=1, restart=True), first)


@pytest.mark.slow
def test_no_signal_at_full_size():
    # Dwork et al. 2017, Fig. 2: the standard holdout reports over 63 % where the truth is 50 %;
    # the reusable one stays within T + 3 sigma of it, in every repetition.
    samples, analyst = module("_samples"), module("_analyst")
    population = samples.dwork_population(10_000, 0, 0.0)
    runs = np.array(
        [
            analyst.run_repetition(
                population, samples.StatisticSample, 10_000, [500], np.random.default_rng([3, i])
            )
            for i in range(100)
        ]
    )
    standard, reusable = runs[:, 0, 0], runs[:, 1, 0]
    assert (standard[:, :2].mean(axis=0) > 0.63).all()
    assert abs(runs[..., 2].mean() - 0.5) < 0.002
    assert (np.abs(reusable[:, 1] - 0.5) < 0.04 + 3 * 0.01).all()


@pytest.mark.slow
def test_signal_is_still_found_at_full_size():
    # Fig. 3: fresh accuracy as good as the standard holdout's at every k, and a right report.
    samples, analyst = module("_samples"), module("_analyst")
    population = samples.dwork_population(10_000, 20, 0.06)
    sizes = [10, 20, 30, 100, 500]
    runs = np.array(
        [
            analyst.run_repetition(
                population, samples.StatisticSample, 10_000, sizes, np.random.default_rng([4, i])
            )
            for i in range(100)
        ]
    )
    fresh = runs[..., 2].mean(axis=0)
    assert (fresh[1] > fresh[0] - 3 * np.sqrt(2 * 0.25 / 10_000 / 100)).all()
    report = runs[:, 1, :, 1].mean(axis=0)
    assert (np.abs(report - fresh[1]) < 0.04).all()
    assert runs[:, 0, -1, 1].mean() - fresh[0, -1] > 0.1  # the standard report is not
