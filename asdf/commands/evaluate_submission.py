"""`evaluate --submission` of a list without labels, and `--check`: nothing is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np

from asdf.commands.evaluate import EvaluateOptions
from asdf.commands.evaluate_thresholds import read_threshold
from asdf.commands.judged_files import Protocol, System, read_system_scores
from asdf.commands.outputs import output_name, show
from asdf.errors import AsdfError, UsageError
from asdf.metrics.summary import known_columns
from asdf.runs.streams import input_name
from asdf.trials.formats import read_score_file
from asdf.trials.matching import match_file
from asdf.trials.submission_files import SUBMISSION_FORMATS, check_submission, write_submission
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import TrialList


def evaluate(args: EvaluateOptions, systems: Sequence[System], screen: TextIO) -> None:
    """Write or check a file.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read or written, or does not fit the list of trials.
    """
    if len(systems) != 1 or args.protocol is None or args.format is None:
        raise UsageError(
            "a submission needs one score file, --format, and the challenge's list of trials with "
            "--protocol."
        )
    if args.check == (args.submission is not None):
        raise UsageError("give either --submission OUT to write a file, or --check to check it.")
    path = systems[0].path
    if args.check:
        lines = check_submission(path, args.format, _read_trials(args.protocol).ids)
        show(f"{input_name(path)}: {lines} trials, in the format {args.format}", screen)
        return
    threshold = None if args.threshold is None else read_threshold(args.threshold)
    decides = SUBMISSION_FORMATS[args.format].decides
    if decides != (threshold is not None):
        raise UsageError(
            f"--threshold X is for formats with decisions only. {args.format} is "
            f"{'such a format: give it' if decides else 'not: leave it out'}."
        )
    trials = _read_trials(args.protocol)
    if args.format == "asvspoof2019":
        # Its lines have labels and attacks, which the label file of the set states.
        scores = read_system_scores(path, Protocol(trials, trials), ignore_others=False)
        columns = known_columns(input_name(path), scores, trials)
        scores = replace(scores, columns=columns)
    else:
        file = read_score_file(path, lambda utterance: trials.index_of(utterance) is not None)
        # Labels in it need not be those of the list, which states none.
        file = replace(file, labels=None)
        matched = match_file(path, file, trials, None, args.ignore_others, both_classes=False)
        scores = matched.scores
    assert args.submission is not None  # it was looked for above
    write_submission(args.submission, args.format, scores, trials, threshold)
    written = output_name(args.submission)
    show(f"written to {written}: {len(scores)} trials, format {args.format}", screen)


def _read_trials(path: Path) -> TrialList:
    """Read the utterances of a list without labels, or of a label file."""
    from asdf.corpora import read_protocol

    names = [line for _, line in numbered_lines(path)]
    # Names of utterances have no spaces or commas, so lines with several fields have labels.
    if any(len(name.split()) > 1 or "," in name for name in names):
        return read_protocol(path)
    repeated = len(names) - len(set(names))
    if repeated or not names:
        raise AsdfError(
            f"{input_name(path)}: {len(names)} trials, of which {repeated} are repeated. Check "
            "that it is the list of the challenge."
        )
    return TrialList(names, np.zeros(len(names), np.int8))
