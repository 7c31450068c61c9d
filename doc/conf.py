"""Sphinx configuration: ``make docs`` builds the site, warnings are errors."""

import contextlib
import importlib
import inspect
import io
import os
import re
import warnings
from pathlib import Path

import sklearn_bdp
from sklearn_bdp.metrics.table import metric_table

# What is drawn goes into files; nobody waits at a window.
os.environ.setdefault("MPLBACKEND", "agg")
warnings.filterwarnings("ignore", category=UserWarning, module="matplotlib")

project = "sklearn_bdp"
author = "the sklearn_bdp developers"
copyright = "the sklearn_bdp developers, BSD-3-Clause"
release = version = sklearn_bdp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "sg_execution_times.rst", "**/sg_execution_times.rst"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
# Docstrings inherited from scikit-learn cite its glossary and its guide.
suppress_warnings = ["config.cache", "ref.ref", "ref.term"]

autosummary_generate = True
autodoc_default_options = {"inherited-members": None}
autodoc_typehints = "none"  # the docstrings say it, with shapes and units
toc_object_entries_show_parents = "hide"  # fit(), not ReusableHoldoutSearchCV.fit()
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = None

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"(demo|simulated|__init__)\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "reset_argv": lambda gallery_conf, script_vars: [],
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_bdp"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["wear.js"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}

html_copy_source = False
html_show_sourcelink = False

PACKAGES = (
    "sklearn_bdp",
    "sklearn_bdp.model_selection",
    "sklearn_bdp.feature_selection",
    "sklearn_bdp.holdout",
    "sklearn_bdp.ledger",
    "sklearn_bdp.correlation",
    "sklearn_bdp.metrics",
    "sklearn_bdp.inspection",
    "sklearn_bdp.planning",
    "sklearn_bdp.accounting",
    "sklearn_bdp.mechanisms",
    "sklearn_bdp.exceptions",
)


#: The API page: what a user wants to do, and the names for it.
TASKS = {
    "Search": """
        sklearn_bdp.ReusableHoldoutSearchCV sklearn_bdp.HoldoutConfig
        sklearn_bdp.model_selection.HalvingReusableHoldoutSearchCV sklearn_bdp.HoldoutScorer""",
    "Select features": """
        sklearn_bdp.feature_selection.HoldoutFeatureSelector
        sklearn_bdp.feature_selection.HoldoutCorrelationFilter
        sklearn_bdp.feature_selection.SelectionReport""",
    "Query a holdout and report": """
        sklearn_bdp.ReusableHoldout sklearn_bdp.holdout.FinalReport
        sklearn_bdp.holdout.HoldoutCertificate sklearn_bdp.holdout.Preview
        sklearn_bdp.holdout.HoldoutAnswers
        sklearn_bdp.holdout.History sklearn_bdp.holdout.AnswerRecord
        sklearn_bdp.holdout.ExpertSettings sklearn_bdp.ledger.read_notes""",
    "Plan before data": """
        sklearn_bdp.plan_search sklearn_bdp.planning.SearchPlan sklearn_bdp.plan_holdout
        sklearn_bdp.certify sklearn_bdp.accounting.Certificate""",
    "Declare dependence": """
        sklearn_bdp.correlation.Independent sklearn_bdp.correlation.Groups
        sklearn_bdp.correlation.MarkovChain sklearn_bdp.correlation.TimeOrdered
        sklearn_bdp.correlation.DependencyGraph
        sklearn_bdp.correlation.MarkovNetwork sklearn_bdp.correlation.BayesianNetwork
        sklearn_bdp.correlation.CorrelationModel sklearn_bdp.correlation.SamplingScheme
        sklearn_bdp.correlation.check_correlation""",
    "Test a declaration": """
        sklearn_bdp.correlation.independence_test sklearn_bdp.correlation.group_independence_test
        sklearn_bdp.correlation.autocorrelation_time_test
        sklearn_bdp.correlation.DependenceReport""",
    "Choose a metric": "sklearn_bdp.metrics",
    "Draw": "sklearn_bdp.inspection",
    "Account and calibrate": "sklearn_bdp.accounting sklearn_bdp.mechanisms",
    "Errors and warnings": "sklearn_bdp.exceptions",
}


def public_names(package):
    """Return the names of the callables that a package exports, and what they stand for."""
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in module.__all__}
    return {f"{package}.{name}": member for name, member in public.items() if callable(member)}


def write_api_page():
    """Write one page with a table for each task; every public name is in one of them."""
    packages_of_names = {}
    listed_members = set()
    for package in PACKAGES:
        for name, member in public_names(package).items():
            if member not in listed_members:  # a name that two packages export is listed once
                listed_members.add(member)
                packages_of_names[name] = package
    lines = ["API", "===", ""]
    unlisted = dict(packages_of_names)
    for task, entries in (TASKS | {"More": " ".join(PACKAGES)}).items():
        names = [
            name
            for entry in entries.split()
            for name, package in unlisted.items()
            if entry in (name, package)
        ]
        if not names:
            continue
        unlisted = {name: package for name, package in unlisted.items() if name not in names}
        lines += [task, "-" * len(task), ""]
        if task == "Errors and warnings":
            lines += exception_entries(names)
            continue
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [*(f"   ~{name}" for name in names), ""]
        if task == "Choose a metric":
            lines += metric_table_entry()
    folder = Path(__file__).parent
    folder.joinpath("api.rst").write_text("\n".join(lines), encoding="utf-8")
    for page in folder.glob("api_*.rst"):
        page.unlink()
    for page in folder.joinpath("generated").glob("*.rst"):
        if page.stem not in packages_of_names or ".exceptions." in page.stem:
            page.unlink()


def metric_table_entry():
    """Write the table of all metrics, from the classes that define them, and return its entry."""
    folder = Path(__file__).with_name("generated")
    folder.mkdir(exist_ok=True)
    folder.joinpath("metric_table.txt").write_text(metric_table(), "utf-8")
    title = "All metrics by name"
    return [
        ".. _metrics-by-name:",
        "",
        title,
        "~" * len(title),
        "",
        ".. include:: generated/metric_table.txt",
        "   :parser: myst_parser.sphinx_",
        "",
    ]


def exception_entries(names):
    """Return an entry for each exception or warning: name, and first paragraph of the docstring."""
    entries = []
    for name in names:
        package, _, class_name = name.rpartition(".")
        docstring = inspect.getdoc(getattr(importlib.import_module(package), class_name))
        summary = " ".join(docstring.partition("\n\n")[0].split())
        entries += [f".. py:exception:: {name}", "", f"   {summary}", ""]
    return entries


def write_card():
    """Write the card of the search on the page that explains it."""
    page = Path(__file__).with_name("start") / "read_a_result.md"
    names = {}
    block = re.search(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)[1]
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, str(page), "exec"), names)
    folder = Path(__file__).with_name("generated")
    folder.mkdir(exist_ok=True)
    (folder / "card.html").write_text(names["search"].certificate_._repr_html_(), "utf-8")


# Here, not in an event: Sphinx looks for pages before its first event.
write_api_page()
write_card()


def first_line_of_int(app, what, name, obj, options, lines):
    """Keep the first line where ``int`` documents a method: its markup is no reStructuredText."""
    if name.endswith((".from_bytes", ".to_bytes")):
        lines[:] = lines[:1]


def setup(app):
    """Connect what is above."""
    app.connect("autodoc-process-docstring", first_line_of_int, priority=1)
