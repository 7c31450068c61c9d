"""The contract of mechanisms, kept by the peers that answer pairs of numbers."""

from benchmarks.mechanisms import DataSplitting, Ladder, NoiseAddition, SparseValidate

from ..mechanisms.contract import MechanismContract


class TestNoiseAddition(MechanismContract):
    def make(self):
        return NoiseAddition(0.01, n_queries=60, random_state=0)


class TestDataSplitting(MechanismContract):
    def make(self):
        return DataSplitting(60, resolution=0.01)


class TestSparseValidate(MechanismContract):
    def make(self):
        return SparseValidate(0.1, budget=5)


class TestLadder(MechanismContract):
    def make(self):
        return Ladder(0.02)
