"""Benchmarks are not part of an installation: their tests need the repository."""

from pathlib import Path

if not (Path(__file__).resolve().parents[2] / "benchmarks" / "mechanisms").is_dir():
    collect_ignore_glob = ["test_*.py"]
