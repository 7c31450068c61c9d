"""``python -m sklearn_bdp ledger``: look at a ledger without asking anything.

Everything printed is public: released values, counts, information, digests. The sealed noise of the
current threshold is never read into the output; its commitment is.
"""

import argparse
import csv
import dataclasses
import json
import sys

import numpy as np
from sklearn import __version__ as sklearn_version

from sklearn_bdp._version import __version__
from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.holdout import Settings, next_code_length
from sklearn_bdp.ledger import AnswerRecord, Ledger, canonical


def main(arguments=None):
    """Run the command line."""
    options = _parser().parse_args(arguments)
    try:
        ledger = Ledger(options.path, read_only=True, timeout=options.timeout)
        with ledger.transaction() as transaction:
            options.run(transaction, options, sys.stdout)
    except (KeyError, TypeError, ValueError, AttributeError):  # a header that we did not write
        print(f"{_clean(options.path)}: its header says nothing that can be shown", file=sys.stderr)
        return 1
    except LedgerError as error:
        print(f"{type(error).__name__}: {_clean(error)}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m sklearn_bdp", description="Reusable holdouts.")
    versions = f"sklearn_bdp {__version__}, scikit-learn {sklearn_version}, numpy {np.__version__}"
    parser.add_argument("--version", action="version", version=versions)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ledger = commands.add_parser("ledger", help="inspect the ledger of a holdout")
    actions = ledger.add_subparsers(required=True, metavar="ACTION")
    for name, run, text in (
        ("show", _show, "state, information spent and the latest released values"),
        ("verify", _verify, "check the file and its chain of digests"),
        ("export", _export, "everything released, as JSON lines or CSV"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("path", help="the ledger file")
        action.add_argument("--timeout", type=float, default=60.0, help="longest wait, in seconds")
        action.set_defaults(run=run)
        if name == "show":
            action.add_argument("--last", type=int, default=10, help="answers to print")
        if name == "export":
            action.add_argument("--format", choices=("json", "csv"), default="json")
    return parser


def _show(transaction, options, out):
    """Print state and information."""
    for label, text in _facts(transaction):
        print(f"{label + ':':<24}{_clean(text)}", file=out)
    latest = list(transaction.answers())[-options.last :] if options.last > 0 else []
    if latest:
        print(f"\nLast {len(latest)} answer(s), in [0, 1]:", file=out)
        print(f"{'batch':>6} {'value':>8} {'lower':>8} {'upper':>8}  {'from':<9} key", file=out)
    for answer in latest:
        print(
            f"{answer.batch:>6} {answer.value:>8.4f} {answer.lower:>8.4f} {answer.upper:>8.4f}  "
            f"{answer.source:<9} {_clean(answer.key or '-'):.24}",
            file=out,
        )


def _facts(transaction):
    """Return labels and texts of the public state."""
    header, last = transaction.header, transaction.last
    settings, parameters = header["settings"], header["parameters"]
    above, level = last.n_above, last.dp_epsilon
    lead = f"{settings['n']} records "
    facts = [
        ("ledger of", f"{settings['n']:,} records, {header['described'].removeprefix(lead)}"),
        ("confidence", f"at least {100 * (1 - parameters['beta']):g}% for all intervals together"),
        (
            "answers",
            f"{last.n_answered:,} in {last.number:,} batch(es), {above:,} of them corrected by the "
            "holdout",
        ),
    ]
    if settings["budget"] is not None:
        facts.append(("budget left", f"{settings['budget'] - above:,} of {settings['budget']:,}"))
    facts.append(
        ("information spent", f"{next_code_length(last, Settings.recorded(header)):.4g} nats")
    )
    if last.number:
        facts.append(("widest interval", f"± {last.widest:.4g}"))
        facts.append(("last answer", last.time))
        if last.seeded:
            facts.append(("WARNING", "noise from a fixed random_state: for tests only"))
    facts.append(("DP level spent", "no finite level" if level is None else f"{level:.4g}"))
    facts.append(("settings", f"epsilon {parameters['epsilon']}, {parameters['calibration']}"))
    facts.append(("made by", header["made_by"]))
    facts.append(("data", header["data"]))
    facts.append(("chain", f"intact, ends in {transaction.head[1]}"))
    return facts


def _verify(transaction, options, out):
    """Say that the chain is whole; the walk happened when the ledger was opened."""
    batches = transaction.last.number
    link = transaction.head[1]
    print(f"{_clean(options.path)}: intact, {batches:,} batch(es), chain ends in {link}", file=out)


def _export(transaction, options, out):
    """Write everything released."""
    if options.format == "csv":
        names = [field.name for field in dataclasses.fields(AnswerRecord)]
        table = csv.writer(out)
        table.writerow(names)
        table.writerows(
            [_shown(getattr(answer, name)) for name in names] for answer in transaction.answers()
        )
        return
    print(canonical({"header": transaction.header}), file=out)
    for entry in transaction.entries:
        line = {"commitment": entry.commitment, "digest": entry.digest}
        if entry.note is not None:
            line["note"] = dict(zip(("name", "content"), entry.note, strict=True))
        else:
            line["batch"] = json.loads(entry.record.to_json())
            line["answers"] = [dataclasses.asdict(answer) for answer in entry.answers]
        print(canonical(line), file=out)


def _shown(value):
    """Return a value of the CSV export; a key without control characters."""
    return _clean(value) if isinstance(value, str) else value


def _clean(text):
    """Return text without control characters: a crafted ledger must not drive the terminal."""
    return "".join(
        each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in str(text)
    )
