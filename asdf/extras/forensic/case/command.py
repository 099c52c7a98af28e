"""Write a page for a case: scores of recordings, likelihood ratios, validation and limits.

    python -m asdf case net.pt call.wav --output case.html
    python -m asdf case net.pt call.wav --validation eval.txt --json case.json
    python -m asdf case net.pt a.wav b.wav -o case.html --title "Call of 3 May" --reference K-17/26

The page has, for each recording, the facts in its file, its waveform with window scores, and its
likelihood ratio in numbers and words; then the propositions, the calibration set, error rates and
plots of a validation set, limits, versions, digests, and the command that reproduces it. The
validation set is a score file of this network with labels (`score --scores`), of recordings on
which it was neither trained nor calibrated. The same input gives the same bytes.

Exit status: 0 all recordings scored, 1 some could not be scored, 2 error in the command line.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.judged_files import Protocol, read_system_scores
from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import check_overwriting, show, text_stream, write_outputs
from asdf.commands.score import DetectorOptions
from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.runs.log import track
from asdf.text import PROGRAM


@dataclass(frozen=True, kw_only=True)
class CaseOptions(DetectorOptions):
    """Options of the command."""

    recordings: tuple[str, ...] = argument(
        "recordings of the case, by file, folder or list", "FILE|FOLDER|LIST"
    )
    html: Path | None = option("write the page as HTML", metavar="OUT")
    json: Path | None = option(
        "write all numbers and sentences as JSON; - is standard output", metavar="OUT"
    )
    validation: Path | None = option(
        "score file of this network on a set with known labels, written by `score --scores`",
        metavar="SCORES",
    )
    title: str = option("title of the page", metavar="TEXT", default="")
    reference: str = option("reference of the case, such as its number", metavar="TEXT", default="")
    examiner: str = option("name of the examiner", metavar="TEXT", default="")
    date: str = option("date on the page, in any format", metavar="TEXT", default="")


FIRST = ("html", "json", "validation", "title", "reference", "examiner", "date")
COMMAND = Command("case", __doc__, CaseOptions, {".html": "html", ".json": "json"}, FIRST)


def main(arguments: list[str]) -> int:
    """Write a case; return 1 if a recording could not be scored, else 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: network or scores cannot be read, or an output cannot be written.
    """
    args = COMMAND.read(arguments)
    outputs = [args.html, args.json]
    if not any(outputs):
        raise UsageError("no output is given. Use --output case.html or --json.")
    stream = text_stream(outputs)
    from asdf.commands.score_recordings import find_recordings

    paths = find_recordings(args.recordings).paths
    check_overwriting([*map(Path, paths), *filter(None, [args.validation])], outputs)
    from asdf.commands.score import open_detector
    from asdf.commands.score_tables import Row, Screen
    from asdf.extras.forensic.case.examining import make_case, validate
    from asdf.extras.forensic.case.pages import case_page
    from asdf.extras.forensic.case.wording import case_json
    from asdf.interchange import network_digest
    from asdf.trials.scored_files import read_how_scored

    detector = open_detector(args)
    validation = None
    if args.validation is not None:
        stated = read_how_scored(args.validation)
        validation = validate(
            args.validation.stem,
            read_system_scores(args.validation, Protocol(), False),
            detector.calibration,
            detector.threshold,
            None if stated is None else stated.network,
            network_digest(detector.source),
        )
    case = make_case(
        detector,
        paths,
        f"{PROGRAM} case {shlex.join(arguments)}",
        validation,
        lambda examined: track(examined, len(paths), "examining", unit="recordings"),
        title=args.title,
        reference=args.reference,
        examiner=args.examiner,
        date=args.date,
    )
    write_outputs(
        [
            (args.html, lambda path: write_text(path, case_page(case))),
            (args.json, lambda path: write_text(path, case_json(case))),
        ]
    )
    screen = Screen(case.heading, stream, max(map(len, paths)))
    for one in case.recordings:
        screen.show(Row(None, one.result))
    for path in filter(None, outputs):
        show(f"written to {path}", sys.stderr)
    return int(any(one.result.error for one in case.recordings))
