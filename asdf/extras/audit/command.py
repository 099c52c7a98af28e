"""Search a corpus for shortcuts, which separate the classes without speech, and for mistakes.

    python -m asdf audit train.txt dev.txt                  # the lists of one corpus
    python -m asdf audit train.txt -o audit.html --json audit.json
    python -m asdf audit asvspoof19-train --folder /data    # a corpus by name
    python -m asdf audit train.txt dev.txt --rebalance balanced

A detector for each single feature (length, silence, level, noise, codec, file, speaker etc.), and
one for all audible features, are cross-validated by speaker. A feature whose EER is significantly
below --limit is a shortcut: a network may learn it instead of speech. The audit also finds
duplicates, speakers and texts in more than one list, labels that shortcuts contradict, and damaged,
silent or short files. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.journal import Journal, stamp_of
from asdf.commands.lists import read_recordings
from asdf.commands.options import Command, argument, flag, option, replicates_option
from asdf.commands.outputs import check_overwriting, show, text_stream, write_outputs
from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.runs.log import track
from asdf.runs.streams import is_stdout
from asdf.tables.renderers import as_json
from asdf.tables.table import each
from asdf.text import numbered
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.extras.audit.measuring import Measured


def _check_limit(limit: float) -> None:
    if not 0 < limit < 50:
        raise UsageError(f"--limit {limit:g}: give an EER above 0 and below 50 %.")


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Options of the command."""

    lists: tuple[str, ...] = argument(
        "splits of one corpus: lists, tables of trials, protocols or names of corpora",
        metavar="LIST",
        default=(),
    )
    folder: Path | None = option(
        "folder that paths in lists are relative to (their own folders), or that contains the "
        "recordings of a protocol or corpus"
    )
    html: Path | None = option("write an HTML page with plots", metavar="OUT")
    json: Path | None = option("write all results as JSON; - is standard output", metavar="OUT")
    rebalance: Path | None = option(
        "write lists to this folder in which the shortcuts' features are balanced between classes",
        metavar="FOLDER",
    )
    limit: float = option(
        "EER in percent below which a feature is a shortcut",
        metavar="P",
        default=40.0,
        check=_check_limit,
    )
    replicates: int = replicates_option("number of bootstrap replicates", may_be_none=False)
    workers: int = option(
        "number of additional processes that read recordings", metavar="N", default=2
    )
    no_joint: bool = flag("omit the detector for all features, which needs scikit-learn")


COMMAND = Command("audit", __doc__, AuditOptions, {".html": "html", ".json": "json"})


def main(arguments: list[str]) -> int:
    """Audit lists; return 1 if something was found, else 0.

    Raises:
        UsageError: a mistake in the options, or a package is missing.
        AsdfError: a list cannot be read, or an output cannot be written.
    """
    args = COMMAND.read(arguments)
    if not args.lists:
        raise UsageError("no list is given. Give the lists of a corpus, or the name of a corpus.")
    stream = text_stream([args.html, args.json])
    check_overwriting([Path(name) for name in args.lists], [args.html, args.json])
    lists = [read_recordings(name, args.folder, classes=True) for name in args.lists]
    names = [f"{name}.tsv" for name in numbered(each(lists, "name"))]
    if args.rebalance is not None:
        # A rebalanced list in the folder of its origin could have its name.
        check_overwriting(map(Path, args.lists), map(args.rebalance.joinpath, names))
    from asdf.extras.audit.auditing import Options, audit_recordings, check_classes, rebalance
    from asdf.extras.audit.showing import audit_page, audit_record, audit_text, rebalanced_text

    # Checked before the recordings are read, so that a mistake does not cost an hour.
    labels = [label for trials in lists for label in trials.labels.tolist()]
    check_classes(labels.count(1), labels.count(0))
    if not args.no_joint and find_spec("sklearn") is None:
        raise UsageError(
            "the detector of all features needs scikit-learn: "
            "pip install 'asdf-antispoofing[audit]'. Without it: --no-joint."
        )
    options = Options(
        limit=args.limit / 100,
        replicates=args.replicates,
        joint=not args.no_joint,
        progress=lambda what: show(f"comparing: {what}", sys.stderr),
    )
    with open_journal(lists, args) as journal:
        measured = measure_lists(lists, journal, args.workers)
        audit = audit_recordings(lists, measured, options)
        rebalanced = None
        if args.rebalance is not None and audit.shortcuts:
            rebalanced = rebalance(lists, measured, audit, options)
            args.rebalance.mkdir(parents=True, exist_ok=True)
            for name, trials in zip(names, rebalanced.selected, strict=True):
                # Paths relative to the folder of the list.
                paths = [os.path.relpath(path, args.rebalance) for path in _paths([trials])]
                of_list = TrialList(paths, trials.labels, columns=dict(trials.columns))
                write_trials(args.rebalance / name, of_list)
        command = f"asdf-antispoofing audit {shlex.join(arguments)}"
        made_by = {"ASDF": VERSION, "command": command}
        page = audit_page(
            audit, [f"{name}: {value}" for name, value in made_by.items()], rebalanced
        )
        record = as_json({"made_by": made_by, **audit_record(audit, rebalanced)})
        contents = ((args.html, page), (args.json, record))
        write_outputs([(path, partial(write_text, text=content)) for path, content in contents])
        # Removed only now, because the measurements are worth more than what is computed from them.
        journal.remove()
    show(audit_text(audit).rstrip("\n"), stream)
    if rebalanced is not None:
        show(f"\n{rebalanced_text(rebalanced)}\nlists are in {args.rebalance}", stream)
    elif args.rebalance is not None:
        show("no shortcut was found, so there is nothing to rebalance: no list was written", stream)
    return int(not audit.is_clean)


def _paths(lists: Sequence[TrialList]) -> list[str]:
    return [str(trials.path(index)) for trials in lists for index in range(len(trials))]


def open_journal(lists: Sequence[TrialList], args: AuditOptions) -> closing[Journal]:
    """Open the journal of measurements, from which the same command resumes."""
    paths = _paths(lists)
    digest = hashlib.sha256(repr([(path, stamp_of(path)) for path in paths]).encode()).hexdigest()
    outputs = [path for path in (args.html, args.json) if path is not None and not is_stdout(path)]
    # Without an output, the journal lies in the working folder.
    output = outputs[0] if outputs else Path("asdf-audit")
    work = {"command": "audit", "version": 1, "paths": digest}
    return closing(Journal(output, work, len(paths), lambda entry: "values" in entry))


def measure_lists(
    lists: Sequence[TrialList], journal: Journal, workers: int
) -> list[list[Measured]]:
    """Measure the recordings of all lists, except those in the journal."""
    from asdf.extras.audit.measuring import Measured, measure_all

    paths = _paths(lists)
    left = [index for index in range(len(paths)) if index not in journal]
    if len(left) < len(paths):
        show(f"resuming: {len(paths) - len(left):,} recordings were measured before", sys.stderr)
    results = measure_all([paths[index] for index in left], workers)
    for position, one in track(results, len(left), "reading", unit="recordings"):
        journal.add(left[position], asdict(one))
    measured = []
    for index in range(len(paths)):
        entry = journal[index]
        del entry["index"]
        measured.append(Measured(**entry))
    bounds = accumulate(map(len, lists))
    return [measured[end - len(trials) : end] for trials, end in zip(lists, bounds, strict=True)]
