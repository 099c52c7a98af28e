"""Score recordings: the higher the score, the more bona fide.

    python -m asdf score call.mp3                                     # the shipped detector
    python -m asdf score network.pt recordings/ more.wav              # a folder and a file
    python -m asdf score network.pt dev_list.txt --csv scores.csv     # a list, to a table
    python -m asdf score network.pt call.mp3 --window 4 --hop 2       # over time, with a plot
    python -m asdf score network.pt call.mp3 --segments call          # the spoofed parts
    python -m asdf score network.pt call.mp3 --rttm call.rttm         # a verdict per speaker
    python -m asdf score network.pt dev_list.txt --scores dev.txt     # a score file, for calibrate
    python -m asdf score network.pt recordings/ --scores dev.txt      # labels from real/ and fake/
    python -m asdf score network.pt dev_list.txt --scores dev.txt --part 3/40    # one of 40 parts
    python -m asdf score network.pt calls/ --label bona-fide --scores calls.txt    # one class only
    ffmpeg -i talk.mkv -f wav - | python -m asdf score network.pt -   # standard input

Without NETWORK, `small` is used, the detector shipped with ASDF: it is weak, and says so.
Recordings may have any format that libsndfile or FFmpeg reads. A list (.txt, .lst) has one path per
line, or lines in ASDF's format, 'relative/path.flac 1'.

Whole recordings are scored: a long one as the mean over windows of the network's length. Lists in
ASDF's format, --scores and --trial give trial scores, of the length of the network's protocol.

With a threshold, recordings longer than about 8 s are also searched for spoofed parts. The verdict
is 'bona fide', 'spoof', 'mixed' (a part is clearly spoofed) or 'undecided' (the likelihood ratio
does not tell, or speech is in less than half of the windows). Without speech there is none.

Each recording has a line: path, score, verdict, remarks; with tabs in a pipe or file. After
`python -m asdf calibrate` scores are log-likelihood ratios (LLR). A recording that cannot be scored
is reported, and the others are still scored. After Ctrl-C, SIGTERM or a crash, the same command
resumes if --csv, --json or --scores is given.

Exit status: 0 all recordings scored, 1 some could not be scored, 2 error in the command line,
130 stopped by Ctrl-C, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from asdf.commands.options import Command
from asdf.commands.outputs import first_file, show, text_stream
from asdf.commands.score_options import (
    NO_OUTPUT,
    STANDARD_INPUT,
    DetectorOptions,
    NetworkOptions,
    ScoreOptions,
    check_division,
    check_speaker_options,
    name_network,
    split_sbatch,
    submit_list,
    window_option,
    without_division,
)
from asdf.errors import AsdfError, UsageError
from asdf.hub import find_published, parse_name
from asdf.runs.streams import show_error
from asdf.shipped import is_shipped
from asdf.text import PROGRAM, count_of

if TYPE_CHECKING:
    from asdf.commands.score_recordings import Recordings
    from asdf.commands.score_results import Results
    from asdf.scoring.detector import Detector
    from asdf.scoring.document import Heading
    from asdf.scoring.scored import Scored, WindowScore

COMMAND = Command(
    "score",
    __doc__,
    ScoreOptions,
    {".csv": "csv", ".json": "json", ".txt": "scores"},
    ("csv", "json", "scores", "label", "window", "segments", "rttm", "threshold", "device"),
)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends the work like Ctrl-C, but with another exit status."""


def main(arguments: list[str]) -> int:
    """Score the given recordings.

    Returns:
        0 if all are scored, 1 if one could not be, 130 or 143 if a signal stopped the work.

    Raises:
        UsageError: an option is wrong, or a path does not exist, before anything is scored.
        AsdfError: the network cannot be read, or an output cannot be written.
    """
    arguments, sbatch_options = split_sbatch(arguments)
    args = name_network(COMMAND.read(arguments))
    check_speaker_options(args)
    check_division(args, sbatch_options)
    if args.slurm is not None:
        _submit(args, arguments, sbatch_options)
        return 0
    if parse_name(args.network) is None and not is_shipped(args.network):
        find_published(Path(args.network))
    if sys.stderr.isatty():
        # Shown before slow imports: torch takes seconds.
        show("loading the network ...", sys.stderr)
    window = window_option(args)
    # Checked here, so that two outputs on standard output are refused before hours of scoring.
    screen = text_stream([args.csv, args.json, args.scores])
    # Saved to a file, because decoders seek, and a pipe cannot.
    with _saved_standard_input(args.recordings) as (names, stdin_path):
        # The undivided command reproduces the results.
        repeated = [word for word in arguments if word != "--merge"]
        command = f"{PROGRAM} score {shlex.join(repeated)}"
        # torch is needed from here on, and takes seconds to import.
        recordings = _find_recordings(args, names)
        return _score_into_outputs(args, recordings, screen, command, window, stdin_path)


def _submit(args: ScoreOptions, arguments: list[str], sbatch_options: list[str]) -> None:
    """Submit the scoring to Slurm.

    Raises:
        UsageError: there is no output next to which parts could be saved, or an option is wrong.
        AsdfError: Slurm refuses.
    """
    if any(name in STANDARD_INPUT for name in args.recordings):
        raise UsageError(
            "--slurm starts several processes, which cannot share standard input ('-'). Give "
            "files, folders or lists."
        )
    output = first_file([args.csv, args.json, args.scores])
    if output is None:
        raise UsageError(NO_OUTPUT)
    words = without_division(arguments)
    # Each part would divide the work again.
    if COMMAND.read(words).ways:
        raise UsageError(
            "an option is abbreviated. Write --slurm, --max-running and --dry-run in full: each "
            "part would otherwise divide the work again."
        )
    named = [args.network, *args.recordings, args.rttm, args.base, args.network_folder]
    submit_list(args, words, sbatch_options, output, named)


def _score_into_outputs(
    args: ScoreOptions,
    recordings: Recordings,
    screen: TextIO | None,
    command: str,
    window: tuple[float, float] | None,
    stdin_path: str,
) -> int:
    """Score recordings into the requested outputs; return the exit status.

    Args:
        screen: Stream for the lines of recordings; None: they are not shown.
        command: Command that reproduces the results.
        window: Length and hop of the windows, in seconds; None: no scores over time.
        stdin_path: Path of the copy of standard input; ''.

    Raises:
        AsdfError: the network cannot be read, or an output cannot be written.
    """
    from asdf.commands.score_results import Results, segment_outputs
    from asdf.runs.log import track
    from asdf.trials.how_scored import HowScored

    detector = open_detector(args, window)
    segments = segment_outputs(args, detector)
    # Published error rates are on trials: only trial scores can be compared with them.
    are_trials = bool(args.trial or args.scores or recordings.are_labelled)
    heading = _heading(args, detector, recordings, are_trials, window, command)
    work = _describe_work(args, detector, heading, window, are_trials)
    outputs = (args, segments, work, screen, stdin_path)
    with closing(Results(recordings, heading, *outputs)) as results:
        try:
            with _termination_is_an_interrupt():
                results.put_out()
                scored = _score_all(args, detector, recordings, results, not are_trials, window)
                shown = track(scored, results.remaining, "scoring", unit="recordings")
                with closing(shown) as tracked:
                    for result, over_time in tracked:
                        results.add(result, over_time)
                results.finish(HowScored(detector.length, detector.precision, detector.engine))
        except KeyboardInterrupt as stop:
            how_to_continue = results.stop()
            cause = "SIGTERM" if isinstance(stop, Terminated) else "Ctrl-C"
            show_error(
                f"stopped by {cause}: {results.done} of {len(recordings)} recordings are done; "
                f"{how_to_continue}"
            )
            # 128 plus the signal's number, as in shells.
            return 143 if isinstance(stop, Terminated) else 130
        return int(results.failed > 0)


def _find_recordings(args: ScoreOptions, names: Sequence[str]) -> Recordings:
    """Return the recordings to score.

    Raises:
        UsageError: as `find_recordings`; or a score file is requested and they have no labels, or a
            list contradicts --label.
    """
    from asdf.commands.score_recordings import find_recordings, with_speakers

    recordings = find_recordings(names, args.folder, bool(args.scores) and args.label is None)
    if len(recordings) > 1:
        from asdf.trials.lists import missing_files

        # Missing ones are named with the results; a folder that cannot be listed may be read.
        with suppress(AsdfError):
            missing_files(recordings.paths, Path())
    if args.label is not None:
        recordings.set_label(int(args.label == "bona-fide"))
    if args.scores and not recordings.are_labelled:
        raise UsageError(
            "--scores needs the label of each recording. Give folders with real/ and fake/ in "
            "them, or lists in ASDF's format ('relative/path.flac 1' per line), or --label "
            "bona-fide or --label spoof if all recordings have the same class."
        )
    return recordings if args.rttm is None else with_speakers(recordings, args.rttm)


def _heading(
    args: ScoreOptions,
    detector: Detector,
    recordings: Recordings,
    are_trials: bool,
    window: tuple[float, float] | None,
    command: str,
) -> Heading:
    """Return the description of the scores, for display and JSON."""
    from asdf.scoring.document import made_by, make_heading, provenance_of

    heading = make_heading(detector, detector.source, are_trials)
    columns = [column.with_options(args) for column in heading.columns]
    scores = "; ".join([heading.scores, *recordings.notes])
    heading = replace(heading, scores=scores, columns=(*columns, *recordings.columns))
    if heading.network != args.network:
        # The commit on the hub, with which the scores can be reproduced.
        show(f"network: {heading.network}", sys.stderr)
    on_cpu = detector.pipeline.scorer.device_type == "cpu"
    where = count_of(detector.threads, "thread") if on_cpu else str(detector.device)
    show(f"{heading.scores}; higher: more bona fide; {where}", sys.stderr)
    for column in columns:
        if column.describe():
            show(column.describe(), sys.stderr)
    if not args.json:
        return heading
    made = made_by(provenance_of(detector), are_trials, window, command)
    return replace(heading, made_by=made)


def _describe_work(
    args: ScoreOptions,
    detector: Detector,
    heading: Heading,
    window: tuple[float, float] | None,
    are_trials: bool,
) -> dict[str, Any]:
    """Return what a journal must match: everything that changes a score belongs here."""
    folder = args.network_folder
    work: dict[str, Any] = {
        "scores": heading.scores,
        "length": [detector.length.min_samples, detector.length.max_samples],
        "window": window,
        "network_folder": None if folder is None else str(folder),
        "engine": detector.engine,
        # Entries of a journal without a column have no value of it; so with frames and digests.
        "columns": {column.key: column.work() for column in heading.columns},
    }
    if args.segments is not None:
        work["frames"] = True
    if args.json is not None:
        work["sha256"] = True
    # A recording without speech is not judged.
    if not are_trials and detector.speech_check != "off":
        work["speech_check"] = detector.speech_check
    return work


def open_detector(args: NetworkOptions, window: tuple[float, float] | None = None) -> Detector:
    """Build the detector of a command line.

    Raises:
        UsageError: the network does not hear windows of that length whole.
        AsdfError: the network cannot be read.
    """
    from asdf.scoring.detector import Detector
    from asdf.scoring.whole_recording import in_samples

    judging: dict[str, Any] = {}
    if isinstance(args, DetectorOptions):
        judging = {"parts": not args.no_parts, "speech_check": args.speech_check}
    if isinstance(args, ScoreOptions):
        judging |= {"columns": args.column, "precision": args.precision, "engine": args.engine}
    detector = Detector(
        args.network,
        args.device,
        args.network_folder,
        args.threads,
        args.full_length,
        base=args.base,
        threshold=args.threshold,
        **judging,
    )
    if window:
        # A window longer than the network's input is refused before anything is scored.
        in_samples(*window, detector.window_samples)
    return detector


def _score_all(
    args: ScoreOptions,
    detector: Detector,
    recordings: Recordings,
    results: Results,
    whole: bool,
    window: tuple[float, float] | None,
) -> Iterator[tuple[Scored, list[WindowScore]]]:
    """Score recordings, grouped by their references if the network takes some."""
    from asdf.scoring.scored import Scored
    from asdf.scoring.speakers import conclude_speaker

    groups: dict[str, Sequence[int]] = {"": range(len(recordings))}
    if detector.takes_references:
        groups = recordings.by_reference()
    for reference, indices in groups.items():
        sources = recordings.sources
        if len(indices) < len(sources):
            sources = [sources[index] for index in indices]
        beside = detector.with_reference(reference) if reference else detector

        def is_known(position: int, indices: Sequence[int] = indices) -> bool:
            return results.is_known(indices[position])

        for scored in beside.score_many(
            sources, whole, progress=True, is_known=is_known, frames=args.segments is not None
        ):
            result = replace(scored, index=indices[scored.index])
            over_time: list[WindowScore] = []
            speaker = recordings.speaker(result.index)
            if speaker is not None:
                result = conclude_speaker(result, speaker)
            if window and result.path is not None and not result.error:
                try:
                    over_time = beside.score_over_time(result.path, *window, progress=True)
                except (AsdfError, OSError) as error:
                    result = Scored(result.index, result.path, error=str(error), name=result.name)
            yield result, over_time


@contextmanager
def _termination_is_an_interrupt() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C: between two operations, closing open files."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    # Schedulers send SIGTERM before SIGKILL; Python would end without closing anything.
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _saved_standard_input(names: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    """Copy standard input to a file, if '-' is among the names.

    Yields:
        Names, with '-' replaced by the path of that file; and the path, '' without one.

    Raises:
        AsdfError: standard input cannot be read.
    """
    if not any(name in STANDARD_INPUT for name in names):
        yield names, ""
        return
    with tempfile.NamedTemporaryFile(prefix="asdf-") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.flush()
        except OSError as error:
            raise AsdfError(f"cannot read standard input: {error.strerror or error}.") from None
        yield [file.name if name in STANDARD_INPUT else name for name in names], file.name
