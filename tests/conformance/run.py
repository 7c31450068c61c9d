"""Run scikit-learn's own tests of searches with this package's search swapped in.

Without a holdout nothing may fail that passes with scikit-learn's classes. With every candidate
verified, the tests that fail must be listed in ``differences.txt`` with the reason.

    python tests/conformance/run.py [identity] [verified]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
MODULES = {
    "identity": (
        "sklearn.model_selection.tests.test_search",
        "sklearn.tests.test_metaestimators",
        "sklearn.tests.test_metaestimators_metadata_routing",
        "sklearn.metrics.tests.test_score_objects",
    ),
    "verified": ("sklearn.model_selection.tests.test_search", "sklearn.tests.test_metaestimators"),
}


def outcomes(mode, modules, *, only=()):
    """Return the names of the tests that passed and of those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        paths = [str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")]
        command = [
            *(sys.executable, "-m", "pytest", "-p", "swapped_searches", "-p", "no:cacheprovider"),
            *("-q", "-n", "2", "-W", "ignore", "--tb=line", "-c", os.devnull, "--rootdir", folder),
            *("--junitxml", str(report), "--pyargs", *modules),
        ]
        if only:
            command += ["-k", " or ".join(sorted({name.split("[")[0] for name in only}))]
        subprocess.run(
            command,
            env={**os.environ, "SEARCHES": mode, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {c.get("name") for c in cases if {e.tag for e in c} & {"failure", "error"}}
    skipped = {c.get("name") for c in cases if c.find("skipped") is not None}
    return {case.get("name") for case in cases} - failed - skipped, failed


def listed():
    """Return the patterns of the differences."""
    lines = (HERE / "differences.txt").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    return [re.compile(re.split(r"\t|  ", line)[0].removesuffix("$") + "$") for line in lines]


def identity():
    """Return the tests that fail with this package's classes only."""
    passed, failed = outcomes("identity", MODULES["identity"])
    if failed:  # some fail with scikit-learn's own classes, too
        failed &= outcomes("plain", MODULES["identity"], only=failed)[0]
    print(f"identity: {len(passed)} passed, {len(failed)} fail that pass with scikit-learn's own")
    return failed


def verified():
    """Return the tests that fail and are not listed."""
    passed, failed = outcomes("verified", MODULES["verified"])
    patterns = listed()
    unlisted = {name for name in failed if not any(p.match(name) for p in patterns)}
    idle = [p.pattern for p in patterns if not any(p.match(name) for name in failed)]
    print(
        f"verified: {len(passed)} passed, {len(failed) - len(unlisted)} listed differences, "
        f"{len(unlisted)} others"
    )
    if idle:
        print("listed but not different here:", ", ".join(idle))
    return unlisted


def main():
    """Print the failures; exit with 1 if there are any."""
    wrong = set()
    for mode in sys.argv[1:] or ("identity", "verified"):
        wrong |= {f"{mode}: {name}" for name in globals()[mode]()}
    print("\n".join(sorted(wrong)))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
