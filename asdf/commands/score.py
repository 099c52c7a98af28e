"""Scores of recordings: the higher, the more bona fide.

    python -m asdf score network.pt call.mp3                            one recording
    python -m asdf score network.pt recordings/ more.wav                all audio in a folder, and one more
    python -m asdf score network.pt dev_list.txt --csv scores.csv       a list, into a table
    python -m asdf score network.pt call.mp3 --window 4 --hop 2         over time, with a picture
    python -m asdf score network.pt dev_list.txt --scores dev.txt       a score file, for calibrate
    ffmpeg -i talk.mkv -f wav - | python -m asdf score network.pt -     standard input

Any sampling rate and length, and any format that libsndfile reads; with `pip install av` also mp4, m4a, aac, webm
and others. A list (.txt, .lst) holds one path per line, or is in ASDF's format, 'relative/path.flac 1'.

Scores are of whole recordings: of one that is longer than what the network hears at a time, the mean over windows of
that length, with the lowest of them. Of lists in ASDF's format, and with --scores or --trial, they are trial scores,
of as much of each recording as the network's protocol hears. The first line on standard error says which.

One line per recording: path, score, with a threshold the verdict, and what there is to remark, separated by tabs.
After `python -m asdf calibrate` scores are log-likelihood ratios (LLR) and the network brings its threshold along. A
recording that cannot be scored is reported, and the rest go on. Stopped, by Ctrl-C, SIGTERM or a crash, the same
command with --csv, --json or --scores goes on where it was.

Exit status: 0 all are scored, 1 some could not be, 2 a mistake in the command, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from asdf.commands.outputs import show, text_stream
from asdf.commands.score_options import check, parser, window_of
from asdf.errors import AsdfError, UsageError
from asdf.runs.streams import STREAM, show_error

if TYPE_CHECKING:
    from asdf.commands.score_recordings import Recordings
    from asdf.commands.score_result_files import Heading
    from asdf.commands.score_results import Results
    from asdf.scoring.detector import Detector
    from asdf.scoring.scored import Scored, WindowScore

_STDIN = (STREAM, "/dev/stdin")


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends the work as Ctrl-C does, with another exit status."""


def main(arguments: list[str]) -> int:
    """Score what is named; 1 if a recording could not be scored, 130 or 143 if it was stopped, else 0.

    Raises:
        UsageError: a mistake in the options, or something named that is not there, before anything is scored.
        AsdfError: the network cannot be read, or an output cannot be written.
    """
    given = parser(__doc__).parse_args(arguments)
    window = window_of(given)
    check(given)
    screen = text_stream([given.csv, given.json, given.scores])
    with _standard_input(given.recordings) as (named, from_stdin):
        return _score(given, named, from_stdin, window, screen)


def _score(
    given: argparse.Namespace,
    named: list[str],
    from_stdin: str,
    window: tuple[float, float] | None,
    screen: TextIO,
) -> int:
    # From here on torch is needed, which takes seconds to import.
    from asdf.audio import fallbacks
    from asdf.commands.score_recordings import find_recordings
    from asdf.commands.score_results import Outputs, Results
    from asdf.scoring.detector import Detector
    from asdf.scoring.windows import in_samples
    from asdf.trials.how_scored import HowScored

    recordings = find_recordings(named, given.folder)
    if given.scores and not recordings.are_labelled:
        raise UsageError(
            "--scores needs labels: name only lists in ASDF's format, 'relative/path.flac 1' a line."
        )
    fallbacks.take()  # those of checking the recordings: each is to be counted once
    detector = Detector(
        given.network,
        given.device,
        given.network_folder,
        given.threads,
        given.full_length,
        given.precision,
    )
    scored = HowScored(detector.length, detector.precision)
    if window:
        in_samples(*window, detector.length.max_samples)
    trials = bool(given.trial or given.scores or recordings.are_labelled)
    heading = _heading(detector, given.network, given.threshold, trials)
    show(heading.scores, sys.stderr)
    length = detector.length
    work = {
        "scores": heading.scores,
        "length": [length.min_samples, length.max_samples],
        "window": window,
        "network_folder": given.network_folder,
    }
    outputs = Outputs(given.csv, given.json, given.scores)
    with closing(Results(recordings, heading, outputs, work, screen, from_stdin)) as results:
        try:
            with _termination_is_an_interrupt():
                _score_all(detector, recordings, results, not trials, window)
                results.finish(scored)
        except KeyboardInterrupt as stop:
            return _stopped(results, len(recordings), stop)
        decoded = fallbacks.describe(fallbacks.take(), recordings.paths, len(recordings))
        if decoded:
            show_error(decoded)
        return int(results.failed > 0)


def _score_all(
    detector: Detector,
    recordings: Recordings,
    results: Results,
    whole: bool,
    window: tuple[float, float] | None,
) -> None:
    from asdf.runs.progress import track

    results.put_out()
    left = len(recordings) - results.done
    scored = detector.score_many(recordings.paths, whole, progress=True, is_known=results.is_known)
    with closing(track(scored, left, "scoring", unit="recordings")) as tracked:
        for result in tracked:
            over_time: list[WindowScore] = []
            if window and not result.error:
                result, over_time = _over_time(detector, result, window)
            results.add(result.place, result, over_time)


def _stopped(results: Results, count: int, stop: KeyboardInterrupt) -> int:
    cause, status = ("SIGTERM", 143) if isinstance(stop, Terminated) else ("Ctrl-C", 130)
    how = results.stop()
    show_error(f"stopped by {cause}: {results.done} of {count} recordings are done; {how}")
    return status


@contextmanager
def _termination_is_an_interrupt() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does: between two operations, with what is open closed."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _standard_input(named: list[str]) -> Iterator[tuple[list[str], str]]:
    """What is named, with a file in place of '-'; and its path, '' where it is not needed.

    Raises:
        AsdfError: standard input cannot be read.
    """
    if not any(name in _STDIN for name in named):
        yield named, ""
        return
    with tempfile.NamedTemporaryFile(prefix="asdf-") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.flush()
        except OSError as error:
            raise AsdfError(f"cannot read standard input: {error.strerror or error}.") from None
        yield [file.name if name in _STDIN else name for name in named], file.name


def _heading(detector: Detector, network: str, threshold: float | None, trials: bool) -> Heading:
    from asdf.commands.score_result_files import Heading
    from asdf.trials.how_scored import in_precision

    kind = "score" if detector.calibration is None else "llr"
    decision = ""
    if threshold is not None:
        name = "a score" if detector.calibration is None else "an LLR"
        decision = f"bona fide from {name} of {threshold:g} on"
    elif detector.calibration is not None:
        threshold = detector.calibration.threshold
        decision = detector.calibration.describe()
    scores = f"{_what_is_scored(detector, trials)}{in_precision(detector.precision)}"
    return Heading(scores, network, kind, threshold, decision, detector.precision)


def _what_is_scored(detector: Detector, trials: bool) -> str:
    from asdf.audio.resampling import SAMPLE_RATE

    least, most = detector.length.min_samples, detector.length.max_samples or 0
    length = f"{most:,} samples ({round(most / SAMPLE_RATE, 2):g} s)"
    if not trials:
        return f"scores of whole recordings; of one longer than {length}, the mean over windows of that length"
    if least == most:
        return f"trial scores of the first {length}, shorter recordings repeated"
    return f"trial scores of whole recordings up to {length}, of longer ones the beginning"


def _over_time(
    detector: Detector, result: Scored, window: tuple[float, float]
) -> tuple[Scored, list[WindowScore]]:
    from asdf.scoring.scored import Scored

    assert result.path is not None
    try:
        return result, detector.score_over_time(result.path, *window, progress=True)
    except (AsdfError, OSError) as error:
        return Scored(result.place, result.path, error=str(error)), []
