"""Fingerprints of correlation models: ledgers hold them, so they never change."""

import numpy as np
import pytest
from scipy import sparse

from sklearn_bdp.correlation import (
    BayesianNetwork,
    CorrelationModel,
    DependencyGraph,
    Groups,
    Independent,
    MarkovChain,
    MarkovNetwork,
    TimeOrdered,
    check_correlation,
)
from sklearn_bdp.correlation.sequences import ChainSequences

TRANSITION = [[0.9, 0.1], [0.2, 0.8]]
LABELS = [0, 0, 1, 1, 1, 2, 3, 3, 4, 5, 5, 5]
PAIRS = sparse.csr_array((np.ones(3), ([0, 2, 4], [1, 3, 5])), shape=(12, 12))

#: Beginning of the fingerprint that ledgers of format 5 and later hold.
RECORDED = [
    ("Independent", lambda: Independent(), "6cbf0605ed3d9f53"),
    ("Groups", lambda: Groups(LABELS), "4bd7a8eed7e1bb57"),
    ("MarkovChain", lambda: MarkovChain(TRANSITION), "4063c8fbd43aade5"),
    (
        "Interpolation",
        lambda: MarkovChain(TRANSITION, observed=True, interpolation=True),
        "10a8eec8b07a4d49",
    ),
    ("ChainSequences", lambda: ChainSequences(MarkovChain(TRANSITION), LABELS), "7ead4b83fa8859b6"),
    ("DependencyGraph", lambda: DependencyGraph(PAIRS), "5ff95f482a4622a3"),
    ("MarkovNetwork", lambda: MarkovNetwork(PAIRS, influence=0.5), "19d74ea9e1a810b9"),
    ("AnyStrength", lambda: MarkovNetwork(PAIRS), "c61baab158109f9d"),
    ("GivenRest", lambda: MarkovNetwork(PAIRS).conditional_on_rest([0, 2, 4]), "359f251aa01764aa"),
    (
        "BayesianNetwork",
        lambda: BayesianNetwork([[], [0]], [[0.5, 0.5], TRANSITION]),
        "b6d4d7b976948247",
    ),
    ("TimeOrdered", lambda: TimeOrdered(), "ae26aec12f10a83c"),
    (
        "WorstOf",
        lambda: check_correlation([Groups(LABELS), DependencyGraph(PAIRS)]),
        "6026eeea487d2a85",
    ),
]


#: Base classes, which only their subclasses instantiate.
BASES = {"NetworkModel"}


@pytest.mark.parametrize(("name", "make_model", "beginning"), RECORDED)
def test_fingerprint_is_the_recorded_one(name, make_model, beginning):
    model = make_model()
    assert model.fingerprint_name == name
    assert model.fingerprint().startswith(beginning)


def concrete_models(base):
    """Yield the classes of the package that can be instantiated, each once."""
    for model_class in base.__subclasses__():
        is_of_package = model_class.__module__.startswith("sklearn_bdp.")
        if is_of_package and not model_class.__abstractmethods__:
            yield model_class
        yield from concrete_models(model_class)


def test_every_model_of_the_package_has_a_recorded_fingerprint():
    names = {model_class.fingerprint_name for model_class in concrete_models(CorrelationModel)}
    assert names - BASES == {name for name, *_ in RECORDED}


def test_fingerprint_does_not_depend_on_the_name_of_the_class():
    renamed = type("Unrelated", (Independent,), {"fingerprint_name": "Independent"})()
    assert renamed.fingerprint() == Independent().fingerprint()
    assert renamed != Independent()


def test_subclass_without_a_fingerprint_name_has_a_fingerprint_of_its_own():
    subclass = type("Mine", (Independent,), {})
    assert subclass.fingerprint_name == "Mine"
    assert subclass().fingerprint() != Independent().fingerprint()
