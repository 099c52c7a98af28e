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

import math
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TextIO

from asdf.commands.journal import ArrayOptions, check_division, split_sbatch, submit_list
from asdf.commands.options import NETWORK_HELP, Command, WeightsOptions, argument, flag, option
from asdf.commands.outputs import STANDARD_INPUT, first_file, show, text_stream
from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.hub import PREFIX, SUFFIXES, find_published, parse_name
from asdf.places import split_part
from asdf.runs.layout import Layout
from asdf.runs.streams import show_error
from asdf.shipped import SMALL, is_shipped
from asdf.text import PROGRAM, count_of

if TYPE_CHECKING:
    from asdf.commands.score_recordings import Recordings
    from asdf.commands.score_results import Results
    from asdf.scoring.detector import Detector
    from asdf.scoring.document import Heading
    from asdf.scoring.scored import Scored, WindowScore

Precision = Literal["auto", "fp32", "tf32", "bf16"]
Engine = Literal["auto", "graph", "packed", "plain"]
SpeechCheck = Literal["built-in", "silero", "off"]
SMALL_HELP = f"{NETWORK_HELP}; default: the detector shipped with ASDF"


def check_threshold(threshold: float) -> None:
    """Raise a UsageError if a threshold is not a number."""
    if not math.isfinite(threshold):
        raise UsageError(
            f"a threshold of {threshold:g} would give every recording the same verdict. "
            "Give a finite number."
        )


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(WeightsOptions):
    """How the network scores."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    full_length: bool = flag(
        "score whole recordings up to 62.5 s, even with a network that was imported with the "
        "published length of 64,600 samples"
    )
    threshold: float | None = option(
        "lowest score that is called bona fide", "T", check=check_threshold
    )
    device: str = option("device: auto (a GPU if available), cpu, cuda or cuda:1", default="auto")
    threads: int | None = option(
        "number of CPU threads (1 for networks below 10 million parameters, else the number of"
        " usable cores)",
        "N",
    )


@dataclass(frozen=True, kw_only=True)
class DetectorOptions(NetworkOptions):
    """How the network scores, and how whole recordings are judged."""

    no_parts: bool = flag(
        "do not search long recordings for spoofed parts; the search makes scoring about three "
        "times slower"
    )
    speech_check: SpeechCheck = option(
        "speech detector for whole recordings (%(default)s: energy, modulation and voicing); "
        "recordings without speech get no verdict; silero needs the package silero-vad",
        default="built-in",
    )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(DetectorOptions, ArrayOptions):
    """Options of `python -m asdf score`."""

    network: str = argument(SMALL_HELP, "NETWORK", default=SMALL)
    recordings: tuple[str, ...] = argument(
        "recordings to score, by file, folder or list (.txt, .lst, .csv, .tsv); - is standard "
        "input",
        "FILE|FOLDER|LIST",
    )
    csv: Path | None = option("write the results as a CSV table; - is standard output", "OUT")
    json: Path | None = option("write the results as JSON; - is standard output", "OUT")
    scores: Path | None = option("write a score file; needs lists with labels, or --label", "OUT")
    label: str | None = option(
        "class of all given recordings, e.g. a folder of genuine calls; gives trial scores, and "
        "the labels for --scores",
        choices=("bona-fide", "spoof"),
    )
    trial: bool = flag(
        "compute trial scores: of the length that the network's protocol uses, even without labels"
    )
    window: float | None = option(
        "also score windows of S seconds; plotted as text, and as SVG next to OUT", "S"
    )
    hop: float | None = option("hop between windows in seconds (half a window)", "S")
    segments: Path | None = option(
        "mark spoofed parts: write OUT.rttm, OUT.json with frame scores, and plots; needs a "
        "network with a frame-level head",
        "OUT",
    )
    segment_threshold: float = option(
        "mark frames that score below T (%(default)s: spoof is more likely)",
        "T",
        default=0.0,
        check=check_threshold,
    )
    rttm: Path | None = option(
        "score each speaker of a conversation, with the turns in this RTTM file", "TURNS"
    )
    folder: Path | None = option(
        "folder that paths in lists are relative to (the folder of the list)"
    )
    precision: Precision = option(
        "number format of the network (%(default)s: tf32 on GPUs that support it, else fp32); tf32 "
        "and bf16 are faster and less precise",
        default="auto",
    )
    engine: Engine = option(
        "what computes the network (%(default)s): plain, as in training; packed, with weights "
        "rearranged for a CPU, which is faster; graph, ONNX Runtime, for the detector small alone; "
        "auto is the last of these that there is; scores agree within 1e-5",
        default="auto",
    )
    column: tuple[str, ...] = option(
        "class path of a column of your own, as 'my_column.Margin'; repeatable",
        "CLASS",
        default=(),
        repeated=True,
    )

    @property
    def windows(self) -> tuple[float, float] | None:
        """Length and hop of the windows for scores over time, in seconds; None: no such scores."""
        if self.window is None:
            return None
        # Half a window, so that shorter parts are complete in some window.
        return self.window, self.window / 2 if self.hop is None else self.hop


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
    of_whole = ("scores", "trial", "label", "window", "segments")
    unfit = [f"--{name}" for name in of_whole if getattr(args, name)]
    if args.rttm is not None and unfit:
        raise UsageError(f"{unfit[0]}: for whole recordings, not for the speakers of --rttm.")
    check_division(args, sbatch_options)
    outputs = [args.csv, args.json, args.scores]
    if args.slurm is not None:
        named = [args.network, *args.recordings, args.rttm, args.base, args.network_folder]
        submit_list(COMMAND, arguments, sbatch_options, first_file(outputs), named)
        return 0
    if parse_name(args.network) is None and not is_shipped(args.network):
        find_published(Path(args.network))
    if sys.stderr.isatty():
        # Shown before slow imports: torch takes seconds.
        show("loading the network ...", sys.stderr)
    check_windows(args)
    # Checked here, so that two outputs on standard output are refused before hours of scoring.
    screen = text_stream(outputs)
    # torch is needed from here on.
    from asdf.commands.score_recordings import saved_standard_input

    # Saved to a file, because decoders seek, and a pipe cannot.
    with saved_standard_input(args.recordings) as (names, stdin_path):
        # The undivided command reproduces the results.
        repeated = [word for word in arguments if word != "--merge"]
        command = f"{PROGRAM} score {shlex.join(repeated)}"
        recordings = _find_recordings(args, names)
        return _score_into_outputs(args, recordings, screen, command, stdin_path)


def name_network(args: ScoreOptions) -> ScoreOptions:
    """Return the options with the shipped detector if only recordings are given.

    Raises:
        UsageError: a network is given, but not before recordings.
    """
    # The most likely mistakes are found here, before the seconds for importing torch.
    for word in args.recordings:
        path = Path(word)
        is_network = path.suffix.lower() in SUFFIXES
        if path.exists():
            # An existing folder holds recordings, whatever its suffix.
            is_network = is_network and not path.is_dir()
        else:
            is_network = is_network or word == SMALL or word.startswith(PREFIX)
        if is_network:
            after = args.network if _is_recording(args.network) else "call.mp3"
            raise UsageError(
                f"{word} is a network, which comes before the recordings: "
                f"python -m asdf score {word} {after} ..."
            )
    if not _is_recording(args.network):
        return args
    return replace(args, network=SMALL, recordings=(args.network, *args.recordings))


def _is_recording(word: str) -> bool:
    """Whether an argument means recordings, such as a folder that is neither network nor run."""
    from asdf.commands.score_recordings import LIST_SUFFIXES

    path = Path(split_part(word)[0])
    if path.is_dir():
        # The folder of a network on the hub, and the folder of a run.
        marks = (path / "config.json", Layout(path).settings)
        return not any(mark.is_file() for mark in marks)
    return word in STANDARD_INPUT or path.suffix.lower() in AUDIO_SUFFIXES | LIST_SUFFIXES


def check_windows(args: ScoreOptions) -> None:
    """Raise a UsageError if windows leave parts of a recording out, or a hop has no windows."""
    from asdf.scoring.whole_recording import in_samples

    if args.windows is not None:
        in_samples(*args.windows)
    elif args.hop is not None:
        raise UsageError("--hop needs --window S, whose windows it spaces.")


def _score_into_outputs(
    args: ScoreOptions, recordings: Recordings, screen: TextIO | None, command: str, stdin_path: str
) -> int:
    """Score recordings into the requested outputs; return the exit status.

    Args:
        screen: Stream for the lines of recordings; None: they are not shown.
        command: Command that reproduces the results.
        stdin_path: Path of the copy of standard input; ''.

    Raises:
        AsdfError: the network cannot be read, or an output cannot be written.
    """
    from asdf.commands.score_results import Outputs, Results, segment_outputs
    from asdf.runs.log import track
    from asdf.trials.how_scored import HowScored

    detector = open_detector(args)
    written = args.csv, args.json, args.scores
    segments = None
    if args.segments is not None:
        segments = segment_outputs(args.segments, args.segment_threshold, written)
        # Refused before anything is scored or written, if the network gives no frames.
        detector.score_many([], frames=True)
    # Published error rates are on trials: only trial scores can be compared with them.
    are_trials = bool(args.trial or args.scores or recordings.are_labelled)
    heading = _heading(args, detector, recordings, are_trials, command)
    work = _work_of(args, detector, heading, are_trials)
    outputs = Outputs(*written, segments, args.part, args.merge)
    with closing(Results(recordings, heading, outputs, work, screen, stdin_path)) as results:
        try:
            with _termination_is_an_interrupt():
                results.put_out()
                scored = _score_all(args, detector, recordings, results, not are_trials)
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
        AsdfError: a score file could not have their names.
    """
    import numpy as np

    from asdf.commands.score_recordings import find_recordings, with_speakers
    from asdf.trials.lists import missing_files
    from asdf.trials.score_file import check_writable

    recordings = find_recordings(names, args.folder, bool(args.scores) and args.label is None)
    # Missing ones are named with the results; a folder that cannot be listed may be read.
    with suppress(AsdfError):
        missing_files(recordings.paths if len(recordings) > 1 else [], Path())
    if args.label is not None:
        recordings.set_label(int(args.label == "bona-fide"))
    if args.scores and not recordings.are_labelled:
        raise UsageError(
            "--scores needs the label of each recording: folders with real/ and fake/, lists in "
            "ASDF's format ('relative/path.flac 1' per line), or --label bona-fide or spoof."
        )
    if args.scores:
        # Otherwise refused when all are scored.
        check_writable(args.scores, recordings.names, np.zeros(len(recordings)))
    return recordings if args.rttm is None else with_speakers(recordings, args.rttm)


def _heading(
    args: ScoreOptions, detector: Detector, recordings: Recordings, are_trials: bool, command: str
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
    made = made_by(provenance_of(detector), are_trials, args.windows, command)
    return replace(heading, made_by=made)


def _work_of(
    args: ScoreOptions, detector: Detector, heading: Heading, are_trials: bool
) -> dict[str, Any]:
    """Return what a journal must match: everything that changes a score belongs here."""
    folder = args.network_folder
    work = {
        "scores": heading.scores,
        "length": [detector.length.min_samples, detector.length.max_samples],
        "window": args.windows,
        "network_folder": None if folder is None else str(folder),
        "engine": detector.engine,
        # Entries of a journal without a column have no value of it; so with frames and digests.
        "columns": {column.key: column.work() for column in heading.columns},
    }
    # A recording without speech is not judged.
    checks = not are_trials and detector.speech_check != "off"
    asked = {
        "frames": args.segments is not None,
        "sha256": args.json is not None,
        "speech_check": checks and detector.speech_check,
    }
    return {**work, **{name: value for name, value in asked.items() if value}}


def open_detector(args: NetworkOptions) -> Detector:
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
    if isinstance(args, ScoreOptions) and args.windows:
        # A window longer than the network's input is refused before anything is scored.
        in_samples(*args.windows, detector.window_samples, detector.sample_rate)
    return detector


def _score_all(
    args: ScoreOptions, detector: Detector, recordings: Recordings, results: Results, whole: bool
) -> Iterator[tuple[Scored, list[WindowScore]]]:
    """Score recordings, grouped by their references if the network takes some."""
    from asdf.scoring.scored import Scored
    from asdf.scoring.speakers import conclude_speaker

    groups: dict[str, Sequence[int]] = {"": range(len(recordings))}
    if detector.takes_references:
        groups = recordings.by_reference()
    for reference, indices in groups.items():
        sources: Sequence[Any] = recordings.speakers or recordings.paths
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
            if recordings.speakers:
                speaker = recordings.speakers[result.index].speaker
                result = conclude_speaker(result, speaker)
            if args.windows and result.path is not None and not result.error:
                try:
                    over_time = beside.score_over_time(result.path, *args.windows, progress=True)
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
