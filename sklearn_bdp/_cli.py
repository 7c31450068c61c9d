"""``python -m sklearn_bdp``: show ledgers, move them and check released scores, without a query.

All printed results may be shown to users. The secret noise of the current threshold is not printed,
only its digest.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import math
import os
import sys

import numpy as np
from sklearn import __version__ as sklearn_version

from sklearn_bdp._ledger_page import ledger_page
from sklearn_bdp._version import __version__
from sklearn_bdp.exceptions import LedgerError
from sklearn_bdp.holdout.config import check_ledger
from sklearn_bdp.ledger._ledger_url import without_passwords
from sklearn_bdp.ledger.ledger import Ledger, SystemNote
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

#: Format of a row in the table of answers.
_ROW_FORMAT = "{:>6} {:>9} {:>9} {:>9}  {:<9}{:<17} {:<12.12} {:<18.18} {:.40}"
_EPILOG = """exit codes:
  0  done
  1  a ledger cannot be used: the error's class is on stderr (with --json: on stdout)
  2  wrong usage
"""
_CHECK_EPILOG = """exit codes:
  0  the best score of the latest search passes
  1  the ledger cannot be used: the error's class is on stderr (with --json: on stdout)
  2  wrong usage
  3  the score or its age fails, or no released score matches
"""
#: Environment variable with the location of the ledger that ``check`` reads by default.
LEDGER_VARIABLE = "SKLEARN_BDP_LEDGER"
_LOCATION_HELP = "a file, or postgresql://user@host/database?holdout=name"


def main(arguments=None):
    """Run the command line, and return the exit code.

    The codes are those of ``_EPILOG`` and ``_CHECK_EPILOG``. Wrong usage that argparse finds ends
    the process with code 2, ``--help`` and ``--version`` end it with code 0. ``arguments``: list of
    str. None: the arguments of this process.
    """
    options = _parser().parse_args(arguments)
    exit_code = 0
    try:
        exit_code = options.run(options) or 0
    except UsageError as error:
        print(_clean(error), file=sys.stderr)
        return 2
    except (LedgerError, NotImplementedError) as error:
        return _print_error(options, type(error).__name__, str(error))
    except (KeyError, TypeError, ValueError, AttributeError):  # another package wrote the header
        return _print_error(options, "LedgerCorruptedError", "the header cannot be read")
    except BrokenPipeError:  # the reader of the output closed it, such as ``head``
        sys.stderr.close()
    return exit_code


def _print_error(options, class_name, message):
    """Print an error to stderr, or to stdout as JSON, and return the exit code 1."""
    if getattr(options, "json", False):
        print(canonical({"error": class_name, "message": _clean(message)}))
    else:
        print(f"{class_name}: {_clean(message)}", file=sys.stderr)
    return 1


class UsageError(Exception):
    """Wrong usage that argparse does not find, such as an argument that does not name a ledger."""


class _Parser(argparse.ArgumentParser):
    """Argument parser whose error messages omit the passwords of URLs."""

    def error(self, message):
        """Print usage and an error message to stderr, and exit with code 2."""
        super().error(without_passwords(message))


def _location(text):
    """Return a text as the path or the URL of a ledger; raise UsageError if it is neither."""
    try:
        return check_ledger(text)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _parser():
    """Return the parser of the command line.

    Parsed options have an attribute ``run``: a function that takes the options, executes the
    command and returns an exit code or None.
    """
    parser = _Parser(prog="python -m sklearn_bdp", description="Reusable holdouts.")
    versions = f"sklearn_bdp {__version__}, scikit-learn {sklearn_version}, numpy {np.__version__}"
    parser.add_argument("--version", action="version", version=versions)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    formatter_class = argparse.RawDescriptionHelpFormatter
    ledger_command = commands.add_parser(
        "ledger", help="ledgers of holdouts", epilog=_EPILOG, formatter_class=formatter_class
    )
    actions = ledger_command.add_subparsers(required=True, metavar="ACTION")
    for name, run, help_text in (
        ("list", _list, "ledgers of a folder or of a database"),
        ("show", _show, "state, information spent and the latest released values"),
        ("export", _export, "header and all entries as JSON lines, or the answers as CSV"),
        ("verify", _verify, "check every entry and the chain of digests"),
        ("copy", _copy, "copy a ledger with its answers and its secret state"),
        ("move", _move, "move a ledger; the source answers nothing from then on"),
        ("upgrade", _upgrade, "write a ledger of an older format in that of this version"),
        ("repair", _repair, "move the head to the last entry if all entries are intact"),
        ("delete", _delete, "delete a ledger and its recorded answers"),
    ):
        action = actions.add_parser(name, help=help_text, description=help_text)
        action.set_defaults(run=run)
        if name == "list":
            action.add_argument("path", help="a folder, or postgresql://user@host/database")
        else:
            action.add_argument("path", help=f"the ledger: {_LOCATION_HELP}")
        if name in ("copy", "move"):
            action.add_argument("target", help=f"a place without a ledger: {_LOCATION_HELP}")
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
    _add_check(commands, formatter_class)
    return parser


def _add_check(commands, formatter_class):
    """Add the parser of the command ``check`` to ``commands``, the subparsers of argparse.

    ``formatter_class``: argparse class that formats the help.
    """
    help_text = "compare the best score of the latest search with a limit or with cross-validation"
    check_parser = commands.add_parser(
        "check",
        help=help_text,
        description=help_text,
        epilog=_CHECK_EPILOG,
        formatter_class=formatter_class,
    )
    check_parser.set_defaults(run=_check)
    check_parser.add_argument(
        "path",
        nargs="?",
        default=os.environ.get(LEDGER_VARIABLE),
        help=f"the ledger: {_LOCATION_HELP} (default: the environment variable {LEDGER_VARIABLE})",
    )
    check_parser.add_argument(
        "--min", type=float, help="smallest score that passes, in score units"
    )
    check_parser.add_argument(
        "--against",
        choices=("cv",),
        help="cv: fail if the holdout corrected the cross-validated score downward",
    )
    check_parser.add_argument("--metric", help="metric of the score (default: the first one)")
    check_parser.add_argument("--model", help="a part of the model's name (default: any model)")
    check_parser.add_argument(
        "--max-age", type=float, help="hours since the latest search after which the check fails"
    )
    check_parser.add_argument("--json", action="store_true", help="print JSON")


def _print_result(options, json_result, text):
    """Print ``json_result``, a dict, as JSON if the options have ``--json``, or else ``text``."""
    print(canonical(json_result) if options.json else _clean(text))


# -- actions that read ledgers --------------------------------------------------------------------


def _list(options):
    """Print the location and the state of each ledger in a folder or a database."""
    if is_url(options.path):
        try:
            locations = list_ledgers(options.path)
        except ValueError as error:
            raise UsageError(str(error)) from None
    else:
        locations = list_ledgers(options.path)
    summaries = [_summarize(location) for location in locations]
    if options.json:
        print(canonical(summaries))
        return
    for summary in summaries:
        if "error" in summary:
            state_text = summary["error"]
        else:
            state_text = f"{summary['records']:,} records, {summary['answers']:,} answers"
            state_text += ", closed" if summary["closed"] else ""
            state_text += f", moved to {summary['moved_to']}" if summary["moved_to"] else ""
        print(_clean(f"{summary['ledger']}: {state_text}"))


def _summarize(location):
    """Return a JSON dict with location and state of a ledger, or with the class of its error."""
    try:
        with Ledger(location).transaction() as ledger_state:
            return {
                "ledger": str(location),
                "records": ledger_state.header["settings"]["n"],
                "format": ledger_state.header["format"],
                "answers": ledger_state.totals.n_answered,
                "last_answer": ledger_state.totals.time,
                "closed": ledger_state.totals.closed,
                "moved_to": ledger_state.moved_to(),
            }
    except LedgerError as error:
        return {"ledger": str(location), "error": type(error).__name__}


def _public_state(ledger_state, location):
    """Return the public state of a ledger as a JSON dict, with the names of ``show --json``."""
    header = ledger_state.header
    totals = ledger_state.totals
    parameters = header["parameters"]
    n_holdout = header["settings"]["n"]
    budget = header["settings"]["budget"]
    calibration = Calibration.from_header(header)
    correlation_text = header["described"].removeprefix(f"{n_holdout} records ")
    spent_nats, _ = information_spent(totals, calibration)
    next_total_nats, _ = next_code_length(totals, calibration)
    return {
        "ledger": str(location),
        "records": n_holdout,
        "correlation": correlation_text,
        "confidence_level": 1.0 - parameters["beta"],
        "answers": totals.n_answered,
        "batches": totals.number,
        "corrected": totals.n_above,
        "information_spent": spent_nats,
        "next_code_length": next_total_nats,  # includes the information spent
        "dp_epsilon": totals.dp_epsilon,
        "budget": budget,
        "budget_left": None if budget is None else budget - totals.n_rounds,
        # The largest distance from an answer to an end of its interval, as a fraction of the range.
        "widest_interval": totals.widest if totals.number else None,
        "last_answer": totals.time or None,  # or of a later check of training rows
        "users": _count_batches_by_user(ledger_state),
        "closed": totals.closed,
        "moved_to": ledger_state.moved_to(),
        "is_seeded": totals.seeded,
        "epsilon": parameters["epsilon"],
        "calibration": parameters["calibration"],
        "format": header["format"],
        "made_by": header["made_by"],
        "data": header["data"],
        "entries": ledger_state.head[0],
        "digest": ledger_state.head[1],
    }


def _count_batches_by_user(ledger_state):
    """Return the number of batches by user name; without a user it is "not recorded"."""
    counts: dict[str, int] = {}
    for record in ledger_state.records():
        user = record.user or "not recorded"
        counts[user] = counts.get(user, 0) + 1
    return counts


def _show(options):
    """Print the public state and the latest answers of a ledger as text, JSON or HTML."""
    location = _location(options.path)
    with Ledger(location).transaction() as ledger_state:
        public_state = _public_state(ledger_state, location)
        history = ledger_state.history()
        if options.html:
            spending = _spending_over_time(ledger_state)
            forecast = _forecast(ledger_state)
            print(ledger_page(public_state, history, spending=spending, forecast=forecast))
            return
    latest_answers = history[-options.last :] if options.last > 0 else ()
    if options.json:
        fields = (*AnswerRecord.SHOWN, "source")
        answers = [{name: getattr(answer, name) for name in fields} for answer in latest_answers]
        print(canonical(public_state | {"latest": answers}))
        return
    for label, text in _texts_by_label(public_state).items():
        print(f"{label + ':':<24}{_clean(text)}")
    if latest_answers:
        titles = (
            "batch",
            "value",
            "lower",
            "upper",
            "from",
            "time",
            "user",
            "metric",
            "model or key",
        )
        print(f"\nLatest answers:\n{_ROW_FORMAT.format(*titles)}")
    for answer in latest_answers:
        score_texts = [f"{score:.4g}" for score in (answer.value, answer.lower, answer.upper)]
        names = [answer.user or "-", answer.metric or "-", answer.model or answer.key or "-"]
        clean_names = map(_clean, names)
        print(
            _ROW_FORMAT.format(
                answer.batch, *score_texts, answer.source, answer.time[:16], *clean_names
            )
        )


def _texts_by_label(state):
    """Return the lines that ``show`` prints on the public state of a ledger: text by label."""
    dp_epsilon = state["dp_epsilon"]
    users_text = ", ".join(f"{user} ({count:,})" for user, count in state["users"].items())
    text_by_label = {
        "ledger of": f"{state['records']:,} records, {state['correlation']}",
        "confidence": f"at least {100 * state['confidence_level']:g}% for all intervals together",
        "answers": f"{state['answers']:,}, batches: {state['batches']:,}, corrected by the "
        f"holdout: {state['corrected']:,}",
        "information spent": f"{state['information_spent']:.4g} nats, revealed by the answers",
        "next query": f"code length {state['next_code_length']:.4g} nats",
        "DP level spent": "no finite level" if dp_epsilon is None else f"{dp_epsilon:.4g}",
        "settings": f"epsilon {state['epsilon']}, {state['calibration']}",
        "made by": f"{state['made_by']}, format {state['format']}",
        "data": state["data"],
        "chain": f"intact, ends in {state['digest']}",
    }
    if state["closed"]:
        text_by_label["closed"] = f"by the final report of {state['last_answer']}; no new queries"
    if state["moved_to"]:
        text_by_label["moved"] = f"to {state['moved_to']}; no new queries here"
    if state["budget"] is not None:
        text_by_label["budget left"] = f"{state['budget_left']:,} of {state['budget']:,}"
    if state["batches"]:
        text_by_label["widest interval"] = f"±{state['widest_interval']:.4g} of the range"
        text_by_label["last answer"] = state["last_answer"]
        text_by_label["batches by user"] = users_text
    if state["is_seeded"]:
        text_by_label["WARNING"] = "noise from a fixed random_state: for tests only"
    return text_by_label


def _spending_over_time(ledger_state):
    """Return time, failure probability spent so far and user of each batch, as tuples."""
    calibration = Calibration.from_header(ledger_state.header)
    spent_probability = 0.0
    spending = []
    for record in ledger_state.records():
        spent_probability += calibration.sampling_failure * record.spending.get("weight", 0.0)
        spending.append((record.totals.time, spent_probability, record.user))
    return spending


def _forecast(ledger_state):
    """Return pairs of label and half-width, in units of [0, 1], for later queries and a report.

    Half-widths follow from Hoeffding's bound for the effective number of records, without noise, as
    if later batches spent 0 nats. The list is empty for a closed holdout.
    """
    totals = ledger_state.totals
    calibration = Calibration.from_header(ledger_state.header)
    if totals.closed:
        return []

    def half_width(length_in_nats):
        """Return the interval half-width in units of [0, 1] for a code length."""
        log_inverse_alpha = length_in_nats + math.log(2.0 / calibration.sampling_failure)
        return min(1.0, math.sqrt(log_inverse_alpha / (2.0 * calibration.n_effective)))

    def length_after(n_more_batches):
        """Return the code length in nats of a query after further batches, without its rank."""
        later_totals = dataclasses.replace(totals, number=totals.number + n_more_batches)
        length, _ = next_code_length(later_totals, calibration)
        return length

    n_attempts = len(ledger_state.notes(SystemNote.CLOSING))
    report_length, _ = next_code_length(totals, calibration, is_report=True, n_attempts=n_attempts)
    return [
        ("the next query", half_width(length_after(0))),
        ("a query after 10 more batches", half_width(length_after(10))),
        ("a query after 100 more batches", half_width(length_after(100))),
        ("a final report now", half_width(report_length)),
    ]


def _verify(options):
    """Check every entry of a ledger, and print the number of batches and the last digest."""
    location = _location(options.path)
    ledger_state = Ledger(location).verify()
    n_batches = ledger_state.totals.number
    last_digest = ledger_state.head[1]
    json_result = {
        "ledger": str(location),
        "batches": n_batches,
        "digest": last_digest,
        "intact": True,
    }
    text = f"{location}: intact, batches: {n_batches:,}, chain ends in {last_digest}"
    _print_result(options, json_result, text)


def _export(options):
    """Print answers as CSV, or header and entries without secret states as JSON lines."""
    ledger = Ledger(_location(options.path))
    with ledger.transaction() as ledger_state:
        if options.format == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            fields = (*AnswerRecord.SHOWN, "source")
            writer.writerow(fields)
            for answer in ledger_state.history():
                writer.writerow([_spreadsheet_value(getattr(answer, name)) for name in fields])
            return
        print(canonical({"header": ledger_state.header}))
        for row in ledger_state.rows():
            json_entry = {
                "commitment": row.commitment,
                "digest": row.digest,
                row.kind: parse_json(row.content),
            }
            if row.kind == "batch":
                json_entry["answers"] = parse_json(row.answers)
            print(canonical(json_entry))


def _spreadsheet_value(value):
    """Return a value for a CSV file, an empty text for None.

    A text that a spreadsheet would read as a formula is returned with an apostrophe before it.
    """
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return "" if value is None else value


# -- the command that checks a score --------------------------------------------------------------


def _check(options):
    """Check the best verified score of the latest search, print the result, return the exit code.

    The score is compared with ``--min``, its cross-validated score, or both, and the age of the
    search with ``--max-age``. The code is 0 if all pass, and 3 if one fails or no released score
    matches ``--metric`` and ``--model``. Raise UsageError for wrong options.
    """
    _check_usage(options)
    with Ledger(_location(options.path)).transaction() as ledger_state:
        reuse_notes = ledger_state.notes(SystemNote.SEARCH)  # of searches with recorded answers
        answer, search_time = _latest_best(
            ledger_state.history(), reuse_notes, options.metric, options.model
        )
    if answer is None:
        _print_result(
            options, {"passed": False, "score": None}, "FAILED: no released score matches."
        )
        return 3
    reasons = list(_reasons_to_fail(options, answer, search_time))
    verdict = f"FAILED, {' and '.join(reasons)}" if reasons else "passed"
    text = (
        f"{verdict}: {answer.metric or 'score'} {answer.value:.4g}, "
        f"confidence interval [{answer.lower:.4g}, {answer.upper:.4g}] ({answer.interval}), "
        f"batch {answer.batch} of {answer.time[:16]}, {answer.model or answer.key or 'no name'}"
    )
    if search_time != answer.time:
        text += f" (recorded answer, search of {search_time[:16]})"
    fields = ("metric", "model", "key", "value", "lower", "upper", "interval", "cv_score")
    json_result = {name: getattr(answer, name) for name in (*fields, "source", "batch", "time")}
    json_result |= {"search_time": search_time, "passed": not reasons, "reasons": reasons}
    _print_result(options, json_result, text)
    return 3 if reasons else 0


def _check_usage(options):
    """Raise UsageError if options of ``check`` are invalid or do not ask for a comparison."""
    if not options.path:
        raise UsageError(f"Name a ledger, or set the environment variable {LEDGER_VARIABLE}.")
    if options.min is None and options.against is None:
        raise UsageError("Nothing to check: pass --min SCORE, --against cv, or both.")
    if options.min is not None and not math.isfinite(options.min):
        raise UsageError(f"--min must be a finite number, got {options.min}.")
    if options.max_age is not None and not options.max_age > 0.0:
        raise UsageError(f"--max-age must be a positive number of hours, got {options.max_age}.")


def _reasons_to_fail(options, answer, search_time):
    """Yield the reasons for which an answer fails ``check``, as clauses.

    ``search_time``: time of the search in ISO 8601.
    """
    if options.min is not None and not answer.value >= options.min:
        yield f"the score is below {options.min:g}"
    if options.against == "cv" and answer.corrected and answer.value < answer.cv_score:
        yield f"the holdout corrected the cross-validated score {answer.cv_score:.4g}"
    if options.max_age is not None and _age_in_hours(search_time) > options.max_age:
        yield f"the latest search is older than {options.max_age:g} hours"


def _age_in_hours(time):
    """Return the hours since a time in ISO 8601."""
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(time)
    return age.total_seconds() / 3600.0


def _matches(answer, metric, model):
    """Return whether an answer has the metric, and the model name contains the text ``model``.

    None matches all. Without a name of the model, its query key counts.
    """
    if metric is not None and answer.metric != metric:
        return False
    return model is None or model in (answer.model or answer.key or "")


def _is_noted(answer, note):
    """Return whether the note of a search, a dict, names a recorded answer that the search took."""
    is_key_noted = answer.key is None or answer.key in note["keys"]
    return is_key_noted and answer.batch in note["batches"]


def _latest_best(history, search_notes, metric, model):
    """Return the answer with the highest score in the latest search, and the time of that search.

    Both are None if no answer matches. The latest search is the latest batch with a matching
    answer, or a search after it that took recorded answers that match. ``search_notes``: contents
    of the notes on searches that took recorded answers. ``metric``: name, or None for the metric of
    the first matching answer of the search. ``model``: part of a model's name, or of the query key
    of a model without a name. None: all models.
    """
    matching_answers = [answer for answer in history if _matches(answer, metric, model)]
    if not matching_answers:
        return None, None
    latest_batch = matching_answers[-1].batch
    search_answers = [answer for answer in matching_answers if answer.batch == latest_batch]
    search_time = search_answers[0].time
    for note in search_notes:  # the latest one decides
        recorded_answers = [answer for answer in matching_answers if _is_noted(answer, note)]
        if recorded_answers and note["after"] >= latest_batch:
            search_answers = recorded_answers
            search_time = note["time"]
    first_metric = search_answers[0].metric
    metric_answers = [answer for answer in search_answers if answer.metric == first_metric]
    return max(metric_answers, key=lambda answer: answer.value), search_time


# -- actions that change ledgers ------------------------------------------------------------------


def _copy(options):
    """Copy a ledger, and print the digest of the last copied entry."""
    target = _location(options.target)
    n_entries, digest = copy_ledger(_location(options.path), target)
    text = (
        f"copied, chain ends in {digest}.\n"
        "Use one of the two from now on: each does not know the other's answers."
    )
    json_result = {"copied_to": str(target), "entries": n_entries, "digest": digest}
    lines = [text] if options.json else text.splitlines()  # JSON is printed once
    for line in lines:
        _print_result(options, json_result, line)


def _move(options):
    """Move a ledger, and print the digest of the last moved entry."""
    target = _location(options.target)
    n_entries, digest = move_ledger(_location(options.path), target)
    json_result = {"moved_to": str(target), "entries": n_entries, "digest": digest}
    _print_result(options, json_result, f"moved to {target}, chain ends in {digest}.")


def _upgrade(options):
    """Upgrade a ledger to the format of this version, and print the location of the older one."""
    location = _location(options.path)
    older_location = upgrade_ledger(location)
    json_result = {"ledger": str(location), "older": older_location}
    _print_result(
        options, json_result, f"{location}: upgraded. The older ledger is {older_location}."
    )


def _repair(options):
    """Set the stored head of a ledger to its last entry, if it differs, and print the outcome."""
    location = _location(options.path)
    head = repair_ledger(location)
    json_result = {"ledger": str(location), "repaired": head is not None}
    outcome = "nothing to repair" if head is None else f"its head is entry {head[0]} again"
    _print_result(options, json_result, f"{location}: {outcome}.")


def _delete(options):
    """Delete a ledger, if the option ``--yes`` is set; raise UsageError otherwise."""
    location = _location(options.path)
    if not options.yes:
        raise UsageError(
            f"{location} was not deleted. Its answers and their cost would be lost, and "
            "the records must not be used as a holdout again. Add --yes to delete it."
        )
    delete_ledger(location)
    _print_result(options, {"deleted": str(location)}, f"{location}: deleted.")


def _clean(text):
    """Return a text without passwords, and with each unprintable character replaced."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in without_passwords(text)
    )
