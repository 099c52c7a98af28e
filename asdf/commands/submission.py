"""Write scores in the format of a challenge, or check a file before submission.

    python -m asdf submission scores.txt --trials trials.txt --format asvspoof5 --output score.zip
    python -m asdf submission scores.txt --trials trials.txt --format at-add --threshold 0.2 \\
        --output predict.csv
    python -m asdf submission --check predict.csv --trials trials.txt --format at-add

LIST is the challenge's list of trials: an utterance per line, or any label file that ASDF supports;
only asvspoof2019 needs labels and attacks. Every trial needs exactly one score. If OUT ends in
.zip, the file is put in a zip under the name that the challenge requires. Scores for track 2 of
ASVspoof 5 are written by `sasv --output`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from pathlib import Path

import numpy as np

from asdf.commands.judged_files import Protocol, read_system_scores
from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import check_inputs, input_name, output_name, show
from asdf.errors import AsdfError, UsageError
from asdf.metrics.summary import known_columns
from asdf.runs.streams import STREAM
from asdf.text import quoted_and_more
from asdf.trials.formats import read_score_file
from asdf.trials.score_file import Scores
from asdf.trials.submission_files import check_submission, write_submission
from asdf.trials.submission_formats import FORMATS, SUBMISSION_FORMATS, formats_table
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import TrialList, values_at

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class SubmissionOptions:
    """Options of the command."""

    scores: Path | None = argument("score file in any format", "SCORES", default=None)
    trials: Path = option("list of the challenge's trials", "LIST", default=MISSING)
    format: str = option("format of the challenge, see above", default=MISSING, choices=FORMATS)
    output: Path | None = option("file or .zip to write", "OUT", short="-o", needed=True)
    threshold: float | None = option("lowest score that is called real", "X")
    check: Path | None = option("check this file instead of writing one", "FILE")


COMMAND = Command("submission", f"{__doc__}\nformats:\n{formats_table()}", SubmissionOptions)


def main(arguments: list[str]) -> int:
    """Write or check a file; return 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read or written, or does not fit the list of trials.
    """
    args = COMMAND.read(arguments)
    _check(args)
    trials = _read_trials(args.trials)
    if args.check:
        lines = check_submission(args.check, args.format, trials.ids)
        show(f"{input_name(args.check)}: {lines} trials, in the format {args.format}")
        return 0
    assert args.scores is not None and args.output is not None  # as `_check` requires
    if args.format == "asvspoof2019":
        # Its lines have labels and attacks, which the label file of the set states.
        scores = read_system_scores(args.scores, Protocol(trials, trials), ignore_others=False)
        columns = known_columns(input_name(args.scores), scores, trials)
        scores = replace(scores, columns=columns)
    else:
        scores = _read_scores(args.scores, trials)
    write_submission(args.output, args.format, scores, trials, args.threshold)
    show(f"written to {output_name(args.output)}: {len(scores)} trials, format {args.format}")
    return 0


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


def _read_scores(path: Path, trials: TrialList) -> Scores:
    file = read_score_file(path, lambda utterance: trials.index_of(utterance) is not None)
    indices = [trials.index_of(utterance) for utterance in file.ids]
    used = np.array([i for i, index in enumerate(indices) if index is not None], np.intp)
    scored = np.bincount([index for index in indices if index is not None], minlength=len(trials))
    # One more than is shown, so that the message ends in '...'.
    missing = values_at(trials.ids, np.flatnonzero(scored == 0)[: _SHOWN + 1])
    if missing or (scored > 1).any():
        raise AsdfError(
            f"{input_name(path)}: of {len(trials)} trials {(scored == 0).sum()} have no score "
            f"({quoted_and_more(missing, _SHOWN)}) and {(scored > 1).sum()} have several. Score "
            "the complete list of the challenge."
        )
    if used.size < len(file.ids):
        raise AsdfError(
            f"{input_name(path)}: {len(file.ids) - used.size} of {len(file.ids)} scored trials are "
            "not in the list of the challenge. Check that scores and list are for the same set."
        )
    # Unknown labels may be any value: only asvspoof2019 writes labels, and it is read elsewhere.
    labels = np.zeros(len(file.ids), np.int8) if file.labels is None else file.labels
    columns = {} if file.attacks is None else {"attack": file.attacks}
    return Scores(file.ids, labels, file.scores, columns=columns)


def _check(args: SubmissionOptions) -> None:
    """Raise UsageError for contradictory options."""
    if bool(args.scores) == bool(args.check):
        raise UsageError("give either a score file to convert, or a file to check with --check.")
    if args.scores and not args.output:
        raise UsageError("the output file is missing. Give it with --output.")
    decides = SUBMISSION_FORMATS[args.format].decides
    if args.scores and decides != (args.threshold is not None):
        raise UsageError(
            f"--threshold X is for formats with decisions only. {args.format} is "
            f"{'such a format: give it' if decides else 'not: leave it out'}."
        )
    check_inputs([args.scores, args.check, args.trials])
    read = [path.resolve() for path in (args.scores, args.trials) if path and str(path) != STREAM]
    if args.output and args.output.resolve() in read:
        raise UsageError("--output would overwrite an input. Give another file.")
