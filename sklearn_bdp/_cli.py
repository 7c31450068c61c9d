"""``python -m sklearn_bdp``: look at ledgers, move them and check released scores, without a query.

Everything printed is public: released values, counts, information, digests. The sealed noise of the
current threshold is never read into the output; its commitment is.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys

import numpy as np
from sklearn import __version__ as sklearn_version

from sklearn_bdp._ledger_page import ledger_page
from sklearn_bdp._version import __version__
from sklearn_bdp.accounting.spending import code_length, final_code_length
from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.holdout.config import check_ledger
from sklearn_bdp.ledger._ledger_url import without_passwords
from sklearn_bdp.ledger.ledger import Ledger
from sklearn_bdp.ledger.maintenance import (
    copy_ledger,
    delete_ledger,
    list_ledgers,
    move_ledger,
    repair_ledger,
    upgrade_ledger,
)
from sklearn_bdp.ledger.postgresql import is_url
from sklearn_bdp.ledger.records import AnswerRecord, canonical, parse_json
from sklearn_bdp.release.batch_context import information_spent, next_code_length
from sklearn_bdp.release.calibration import Calibration

#: Of the table of answers.
_ROW = "{:>6} {:>9} {:>9} {:>9}  {:<9}{:<17} {:<12.12} {:<18.18} {:.40}"
_EPILOG = """exit codes:
  0  done
  1  a ledger cannot be used: the error's class is on stderr (with --json: on stdout)
  2  wrong usage
"""
_CHECK_EPILOG = """exit codes:
  0  the latest released score passes
  1  the ledger cannot be used: the error's class is on stderr (with --json: on stdout)
  2  wrong usage
  3  the score fails, or no score was released
"""
#: Names the ledger that ``check`` reads if no argument does.
LEDGER_VARIABLE = "SKLEARN_BDP_LEDGER"
_LEDGER = "a file, or postgresql://user@host/database?holdout=name"


def main(arguments=None):
    """Run the command line, and return the exit code."""
    options = _parser().parse_args(arguments)
    exit_code = 0
    try:
        exit_code = options.run(options) or 0
    except LocationError as error:
        print(_clean(error), file=sys.stderr)
        return 2
    except (LedgerError, NotImplementedError) as error:
        return _failed(options, type(error).__name__, str(error))
    except (KeyError, TypeError, ValueError, AttributeError):  # a header that we did not write
        return _failed(options, "LedgerCorruptedError", "the header cannot be read")
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
    return exit_code


def _failed(options, kind, message):
    """Report an error, and return the exit code."""
    if getattr(options, "json", False):
        print(canonical({"error": kind, "message": _clean(message)}))
    else:
        print(f"{kind}: {_clean(message)}", file=sys.stderr)
    return 1


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
    layout = argparse.RawDescriptionHelpFormatter
    ledger = commands.add_parser(
        "ledger", help="ledgers of holdouts", epilog=_EPILOG, formatter_class=layout
    )
    actions = ledger.add_subparsers(required=True, metavar="ACTION")
    for name, run, text in (
        ("list", _list, "ledgers of a folder or of a database"),
        ("show", _show, "state, information spent and the latest released values"),
        ("export", _export, "header and all entries as JSON lines, or the answers as CSV"),
        ("verify", _verify, "check every entry and the chain of digests"),
        ("copy", _copy, "copy a ledger with all that is sealed in it"),
        ("move", _move, "move a ledger; the source answers nothing from then on"),
        ("upgrade", _upgrade, "write a ledger of an older format in that of this version"),
        ("repair", _repair, "move the head to the last entry if all entries are intact"),
        ("delete", _delete, "delete a ledger and its recorded answers"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.set_defaults(run=run)
        if name == "list":
            action.add_argument("path", help="a folder, or postgresql://user@host/database")
        else:
            action.add_argument("path", help=f"the ledger: {_LEDGER}")
        if name in ("copy", "move"):
            action.add_argument("target", help=f"a place without a ledger: {_LEDGER}")
        if name == "show":
            action.add_argument("--last", type=int, default=10, help="answers to print")
            action.add_argument("--html", action="store_true", help="print a page of HTML")
        if name == "export":
            formats = ("jsonl", "csv")
            action.add_argument("--format", choices=formats, default="jsonl", help="default: jsonl")
        else:
            action.add_argument("--json", action="store_true", help="print JSON")
        if name == "delete":
            action.add_argument("--yes", action="store_true", help="without it nothing is deleted")
    _add_check(commands, layout)
    return parser


def _add_check(commands, layout):
    """Add the command that fails a build because of a released score."""
    text = "compare the latest released score with a limit or with cross-validation"
    check = commands.add_parser(
        "check", help=text, description=text, epilog=_CHECK_EPILOG, formatter_class=layout
    )
    check.set_defaults(run=_check)
    check.add_argument(
        "path",
        nargs="?",
        default=os.environ.get(LEDGER_VARIABLE),
        help=f"the ledger: {_LEDGER} (default: the environment variable {LEDGER_VARIABLE})",
    )
    check.add_argument("--min", type=float, help="smallest score that passes, in score units")
    check.add_argument(
        "--against",
        choices=("cv",),
        help="cv: fail if the holdout corrected the cross-validated score downward",
    )
    check.add_argument("--metric", help="metric of the score (default: the first one)")
    check.add_argument("--model", help="a part of the model's name (default: any model)")
    check.add_argument("--json", action="store_true", help="print JSON")


def _print_result(options, facts, text):
    """Print a result as JSON or as text."""
    print(canonical(facts) if options.json else _clean(text))


# -- looking --------------------------------------------------------------------------------------


def _list(options):
    """Print the ledgers of a folder or a database."""
    if is_url(options.path):
        try:
            locations = list_ledgers(options.path)
        except ValueError as error:
            raise LocationError(str(error)) from None
    else:
        locations = list_ledgers(options.path)
    lines = [_summary(location) for location in locations]
    if options.json:
        print(canonical(lines))
        return
    for line in lines:
        if "error" in line:
            state = line["error"]
        else:
            state = f"{line['records']:,} records, {line['answers']:,} answers"
            state += ", closed" if line["closed"] else ""
            state += f", moved to {line['moved_to']}" if line["moved_to"] else ""
        print(_clean(f"{line['ledger']}: {state}"))


def _summary(location):
    """Return a line of a list of ledgers."""
    try:
        with Ledger(location).transaction() as book:
            return {
                "ledger": str(location),
                "records": book.header["settings"]["n"],
                "format": book.header["format"],
                "answers": book.last.n_answered,
                "last_answer": book.last.time,
                "closed": book.last.closed,
                "moved_to": book.moved_to(),
            }
    except LedgerError as error:
        return {"ledger": str(location), "error": type(error).__name__}


def _facts(book, location):
    """Return the public state of a ledger by name."""
    header, last = book.header, book.last
    settings, parameters = header["settings"], header["parameters"]
    n, budget = settings["n"], settings["budget"]
    calibration = Calibration.from_header(header)
    described = header["described"].removeprefix(f"{n} records ")
    return {
        "ledger": str(location),
        "records": n,
        "correlation": described,
        "confidence_level": 1.0 - parameters["beta"],
        "answers": last.n_answered,
        "batches": last.number,
        "corrected": last.n_above,
        "information_spent": information_spent(last, calibration)[0],
        "next_code_length": next_code_length(last, calibration)[0],
        "dp_epsilon": last.dp_epsilon,
        "budget": budget,
        "budget_left": None if budget is None else budget - last.n_rounds,
        "widest_interval": last.widest if last.number else None,
        "last_answer": last.time or None,
        "users": _users(book),
        "closed": last.closed,
        "moved_to": book.moved_to(),
        "is_seeded": last.seeded,
        "epsilon": parameters["epsilon"],
        "calibration": parameters["calibration"],
        "format": header["format"],
        "made_by": header["made_by"],
        "data": header["data"],
        "entries": book.head[0],
        "digest": book.head[1],
    }


def _users(book):
    """Return numbers of answers by user."""
    counts: dict[str, int] = {}
    for record in book.records():
        user = record.user or "not recorded"
        counts[user] = counts.get(user, 0) + 1
    return counts


def _show(options):
    """Print the public state, and the latest answers."""
    location = _location(options.path)
    with Ledger(location).transaction() as book:
        facts = _facts(book, location)
        history = book.history()
        if options.html:
            rows = _spending_over_time(book)
            print(ledger_page(facts, history, spending=rows, forecast=_forecast(book)))
            return
    latest = history[-options.last :] if options.last > 0 else ()
    if options.json:
        answers = [
            {name: getattr(answer, name) for name in (*AnswerRecord.SHOWN, "source")}
            for answer in latest
        ]
        print(canonical(facts | {"latest": answers}))
        return
    for label, text in _in_words(facts).items():
        print(f"{label + ':':<24}{_clean(text)}")
    if latest:
        names = "batch", "value", "lower", "upper", "from", "time", "user", "metric", "model or key"
        print(f"\nLatest answers:\n{_ROW.format(*names)}")
    for answer in latest:
        numbers = [f"{number:.4g}" for number in (answer.value, answer.lower, answer.upper)]
        texts = answer.user or "-", answer.metric or "-", answer.model or answer.key or "-"
        words = map(_clean, texts)
        print(_ROW.format(answer.batch, *numbers, answer.source, answer.time[:16], *words))


def _in_words(facts):
    """Return labels and texts of the public state."""
    level = facts["dp_epsilon"]
    users = ", ".join(f"{user} ({count:,})" for user, count in facts["users"].items())
    words = {
        "ledger of": f"{facts['records']:,} records, {facts['correlation']}",
        "confidence": f"at least {100 * facts['confidence_level']:g}% for all intervals together",
        "answers": f"{facts['answers']:,}, batches: {facts['batches']:,}, corrected by the "
        f"holdout: {facts['corrected']:,}",
        "information spent": f"{facts['information_spent']:.4g} nats, revealed by the answers",
        "next query": f"code length {facts['next_code_length']:.4g} nats",
        "DP level spent": "no finite level" if level is None else f"{level:.4g}",
        "settings": f"epsilon {facts['epsilon']}, {facts['calibration']}",
        "made by": f"{facts['made_by']}, format {facts['format']}",
        "data": facts["data"],
        "chain": f"intact, ends in {facts['digest']}",
    }
    if facts["closed"]:
        words["closed"] = f"by the final report of {facts['last_answer']}; no new queries"
    if facts["moved_to"]:
        words["moved"] = f"to {facts['moved_to']}; no new queries here"
    if facts["budget"] is not None:
        words["budget left"] = f"{facts['budget_left']:,} of {facts['budget']:,}"
    if facts["batches"]:
        words["widest interval"] = f"±{facts['widest_interval']:.4g} of the range"
        words["last answer"] = facts["last_answer"]
        words["batches by user"] = users
    if facts["is_seeded"]:
        words["WARNING"] = "noise from a fixed random_state: for tests only"
    return words


def _spending_over_time(book):
    """Return ``(time, spent, user)`` of each batch: failure probability spent up to then."""
    settings = Calibration.from_header(book.header)
    spent, rows = 0.0, []
    for record in book.records():
        spent += settings.sampling_failure * record.spending.get("weight", 0.0)
        rows.append((record.totals.time, spent, record.user))
    return rows


def _forecast(book):
    """Return ``(label, half-width)``: sampling errors of later queries, for scores near 1/2.

    From the header alone: Hoeffding's bound for the effective number of records, without noise.
    """
    last, settings = book.last, Calibration.from_header(book.header)
    if last.closed:
        return []

    def half_width(length):
        log_failure = length + math.log(2.0 / settings.sampling_failure)
        return min(1.0, math.sqrt(log_failure / (2.0 * settings.n_effective)))

    def length_after(n_batches):
        return code_length(
            released=last.released,
            batch_index=last.number + 1 + n_batches,
            spending=settings.spending,
        )

    report_length = final_code_length(
        released=last.released, n_batches=last.number, spending=settings.spending
    )
    return [
        ("the next query", half_width(length_after(0))),
        ("a query after 10 more batches", half_width(length_after(10))),
        ("a query after 100 more batches", half_width(length_after(100))),
        ("a final report now", half_width(report_length)),
    ]


def _verify(options):
    """Check every entry."""
    location = _location(options.path)
    book = Ledger(location).verify()
    facts = {"ledger": str(location), "batches": book.last.number, "digest": book.head[1]}
    text = f"{location}: intact, batches: {book.last.number:,}, chain ends in {book.head[1]}"
    _print_result(options, facts | {"intact": True}, text)


def _export(options):
    """Write the answers as CSV, or header and all entries (without sealed states) as JSON lines."""
    ledger = Ledger(_location(options.path))
    with ledger.transaction() as book:
        if options.format == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            names = (*AnswerRecord.SHOWN, "source")
            writer.writerow(names)
            for answer in book.history():
                writer.writerow([_spreadsheet_value(getattr(answer, name)) for name in names])
            return
        print(canonical({"header": book.header}))
        for row in book.rows():
            line = {
                "commitment": row.commitment,
                "digest": row.digest,
                row.kind: parse_json(row.content),
            }
            if row.kind == "batch":
                line["answers"] = parse_json(row.answers)
            print(canonical(line))


def _spreadsheet_value(value):
    """Return a value for a spreadsheet: text that would be read as a formula gets an apostrophe."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return "" if value is None else value


# -- checking -------------------------------------------------------------------------------------


def _check(options):
    """Compare the best score of the latest batch with a limit, and return the exit code."""
    if not options.path:
        raise LocationError(f"Name a ledger, or set the environment variable {LEDGER_VARIABLE}.")
    if options.min is None and options.against is None:
        raise LocationError("Nothing to check: pass --min SCORE, --against cv, or both.")
    if options.min is not None and not math.isfinite(options.min):
        raise LocationError(f"--min must be a finite number, got {options.min}.")
    with Ledger(_location(options.path)).transaction() as book:
        answer = _latest_best(book.history(), options.metric, options.model)
    if answer is None:
        _print_result(options, {"passed": False, "score": None}, "FAILED: no score was released.")
        return 3
    reasons = []
    if options.min is not None and not answer.value >= options.min:
        reasons.append(f"the score is below {options.min:g}")
    if options.against == "cv" and answer.corrected and answer.value < answer.cv_score:
        reasons.append(f"the holdout corrected the cross-validated score {answer.cv_score:.4g}")
    verdict = f"FAILED, {' and '.join(reasons)}" if reasons else "passed"
    text = (
        f"{verdict}: {answer.metric or 'score'} {answer.value:.4g}, "
        f"confidence interval [{answer.lower:.4g}, {answer.upper:.4g}] ({answer.interval}), "
        f"batch {answer.batch} of {answer.time[:16]}, {answer.model or answer.key or 'no name'}"
    )
    names = ("metric", "model", "key", "value", "lower", "upper", "interval", "cv_score")
    facts = {name: getattr(answer, name) for name in (*names, "source", "batch", "time")}
    _print_result(options, facts | {"passed": not reasons, "reasons": reasons}, text)
    return 3 if reasons else 0


def _latest_best(history, metric, model):
    """Return the answer with the best score in the latest batch that has the metric and model."""
    answers = [
        answer
        for answer in history
        if (metric is None or answer.metric == metric)
        and (model is None or model in (answer.model or answer.key or ""))
    ]
    if not answers:
        return None
    batch = [answer for answer in answers if answer.batch == answers[-1].batch]
    ranking = [answer for answer in batch if answer.metric == batch[0].metric]
    return max(ranking, key=lambda answer: answer.value)


# -- changing -------------------------------------------------------------------------------------


def _copy(options):
    """Copy a ledger."""
    target = _location(options.target)
    number, digest = copy_ledger(_location(options.path), target)
    text = (
        f"copied, chain ends in {digest}.\n"
        "Use one of the two from now on: each does not know the other's answers."
    )
    facts = {"copied_to": str(target), "entries": number, "digest": digest}
    for line in [text] if options.json else text.splitlines():
        _print_result(options, facts, line)


def _move(options):
    """Move a ledger."""
    target = _location(options.target)
    number, digest = move_ledger(_location(options.path), target)
    facts = {"moved_to": str(target), "entries": number, "digest": digest}
    _print_result(options, facts, f"moved to {target}, chain ends in {digest}.")


def _upgrade(options):
    """Upgrade a ledger."""
    location = _location(options.path)
    kept = upgrade_ledger(location)
    facts = {"ledger": str(location), "older": kept}
    _print_result(options, facts, f"{location}: upgraded. The older ledger is {kept}.")


def _repair(options):
    """Repair the head of a ledger."""
    location = _location(options.path)
    head = repair_ledger(location)
    facts = {"ledger": str(location), "repaired": head is not None}
    outcome = "nothing to repair" if head is None else f"its head is entry {head[0]} again"
    _print_result(options, facts, f"{location}: {outcome}.")


def _delete(options):
    """Delete a ledger."""
    location = _location(options.path)
    if not options.yes:
        raise LocationError(
            f"{location} was not deleted. Its answers and their cost would be lost, and "
            "the records must not be used as a holdout again. Add --yes to delete it."
        )
    delete_ledger(location)
    _print_result(options, {"deleted": str(location)}, f"{location}: deleted.")


def _clean(text):
    """Return text without passwords and control characters, which could drive the terminal."""
    return "".join(
        each if each.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for each in without_passwords(text)
    )
