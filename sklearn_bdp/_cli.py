"""``python -m sklearn_bdp ledger``: look at a ledger without asking anything.

Everything printed is public: released values, counts, information, digests. The sealed noise of the
current threshold is never read into the output; its commitment is.
"""

import argparse
import json
import sys

import numpy as np
from sklearn import __version__ as sklearn_version

from sklearn_bdp._version import __version__
from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.holdout.config import check_ledger
from sklearn_bdp.ledger._ledger_url import without_passwords
from sklearn_bdp.ledger.ledger import Fact, Ledger, backend_at
from sklearn_bdp.ledger.records import canonical
from sklearn_bdp.release.batch import route
from sklearn_bdp.release.calibration import Calibration

#: Of the table of answers.
_ROW = "{:>6} {:>9} {:>9} {:>9}  {:<9}{:<17} {:<18.18} {:.40}"


def main(arguments=None):
    """Run the command line."""
    options = _parser().parse_args(arguments)
    try:
        options.path = _location(options.path)
        options.ledger = Ledger(options.path)
        with options.ledger.seen() as book:
            options.run(book, options)
    except LedgerError as error:
        print(f"{type(error).__name__}: {_clean(error)}", file=sys.stderr)
        return 1
    except LocationError as error:
        print(_clean(error), file=sys.stderr)
        return 2
    except (KeyError, TypeError, ValueError, AttributeError):  # a header that we did not write
        print(f"{_clean(options.path)}: its header cannot be read", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
    return 0


class LocationError(Exception):
    """An argument does not name a ledger."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors show no password of a URL."""

    def error(self, message):
        """Print usage and message, and exit with 2."""
        super().error(without_passwords(message))


def _location(text):
    """Return the path or URL of a ledger."""
    try:
        return check_ledger(text)
    except (TypeError, ValueError) as error:
        raise LocationError(str(error)) from None


def _parser():
    parser = _Parser(prog="python -m sklearn_bdp", description="Reusable holdouts.")
    versions = f"sklearn_bdp {__version__}, scikit-learn {sklearn_version}, numpy {np.__version__}"
    parser.add_argument("--version", action="version", version=versions)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ledger = commands.add_parser("ledger", help="inspect the ledger of a holdout")
    actions = ledger.add_subparsers(required=True, metavar="ACTION")
    for name, run, text in (
        ("show", _show, "state, information spent and the latest released values"),
        ("verify", _verify, "check the file and its chain of digests"),
        ("export", _export, "everything released, as JSON lines"),
        ("copy", _copy, "the whole ledger to another place, for instance from a file to a server"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("path", help="the ledger: a file, or postgresql://...?holdout=name")
        action.set_defaults(run=run)
        if name == "copy":
            action.add_argument("target", help="where there is none yet")
        if name == "show":
            action.add_argument("--last", type=int, default=10, help="answers to print")
    return parser


def _show(book, options):
    """Print the public state, and the latest answers."""
    header, last = book.header, book.last
    settings, parameters = header["settings"], header["parameters"]
    n, budget, level = settings["n"], settings["budget"], last.dp_epsilon
    spent = route(last, Calibration.from_header(header))[0]
    facts = {
        "ledger of": f"{n:,} records, {header['described'].removeprefix(f'{n} records ')}",
        "confidence": f"at least {100 * (1 - parameters['beta']):g}% for all intervals together",
        "answers": f"{last.n_answered:,}, batches: {last.number:,}, corrected by the holdout: "
        f"{last.n_above:,}",
        "information spent": f"{spent:.4g} nats",
        "DP level spent": "no finite level" if level is None else f"{level:.4g}",
        "settings": f"epsilon {parameters['epsilon']}, {parameters['calibration']}",
        "made by": header["made_by"],
        "data": header["data"],
        "chain": f"intact, ends in {book.head[1]}",
    }
    if last.closed:
        facts["closed"] = f"by the final report of {last.time}; no new queries"
    if budget is not None:
        facts["budget left"] = f"{budget - last.n_rounds:,} of {budget:,}"
    if last.number:
        facts["widest interval"] = f"±{last.widest:.4g} of the range"
        facts["last answer"] = last.time
    if last.seeded:
        facts["WARNING"] = "noise from a fixed random_state: for tests only"
    for label, text in facts.items():
        print(f"{label + ':':<24}{_clean(text)}")
    latest = book.history()[-options.last :] if options.last > 0 else ()
    if latest:
        names = "batch", "value", "lower", "upper", "from", "time", "metric", "model or key"
        print(f"\nLatest answers:\n{_ROW.format(*names)}")
    for answer in latest:
        ends = [f"{end:.4g}" for end in (answer.value, answer.lower, answer.upper)]
        words = _clean(answer.metric or "-"), _clean(answer.model or answer.key or "-")
        print(_ROW.format(answer.batch, *ends, answer.source, answer.time[:16], *words))


def _verify(book, options):
    """Report that the chain is whole; the walk happened when the ledger was opened."""
    batches = f"batches: {book.last.number:,}, chain ends in {book.head[1]}"
    print(f"{_clean(options.path)}: intact, {batches}")


def _export(book, options):
    """Write everything released, as recorded."""
    print(canonical({"header": book.header}))
    for entry in book.entries:
        line = {"commitment": entry.commitment, "digest": entry.digest}
        if entry.note is not None:
            name, content = entry.note
            kind, name = ("fact", name.value) if isinstance(name, Fact) else ("note", name)
            line[kind] = {"name": name, "content": content}
        else:
            line["batch"] = json.loads(entry.record.to_json())
            line["answers"] = json.loads(entry.answers.to_json()) if entry.answers else []
        print(canonical(line))


def _copy(book, options):
    """Copy header and entries as they are, what is sealed with them, and walk the copy."""
    target = backend_at(_location(options.target))
    backend = options.ledger.backend
    with backend.lock(options.ledger.timeout):
        stored = backend.read(0)
        if not target.create(stored.header, stored.start, stored.rows):
            raise LedgerError(f"there is a ledger at {target} already. Nothing was copied.")
    if Ledger(target).head != book.head:
        raise LedgerError(f"the copy at {target} differs, because the ledger was in use.")
    print(f"copied, chain ends in {book.head[1]}.")
    print("Use one of the two from now on: each knows nothing of what the other answers.")


def _clean(text):
    """Return text without passwords and control characters, which could drive the terminal."""
    return "".join(
        each if each.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for each in without_passwords(text)
    )
