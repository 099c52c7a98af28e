"""Scores of recordings: the higher, the more bona fide.

    python -m asdf score network.pt call.mp3                            one recording
    python -m asdf score network.pt recordings/ more.wav                all audio in a folder, and one more
    python -m asdf score network.pt dev_list.txt --csv scores.csv       a list, into a table
    python -m asdf score network.pt call.mp3 --window 4 --hop 2         over time, with a picture
    python -m asdf score network.pt dev_list.txt --scores dev.txt       a score file, for calibrate

Any sampling rate and length, and any format that libsndfile reads; with `pip install av` also mp4, m4a, aac, webm
and others. A list (.txt, .lst) holds a path a line, or is in ASDF's format, 'relative/path.flac 1'.

One line a recording: path, score and, with a threshold, verdict, separated by tabs. After `python -m asdf calibrate`
scores are log-likelihood ratios (LLR) and the network brings its threshold along. A recording that cannot be scored
is reported, and the rest go on.

Exit status: 0 all are scored, 1 some could not be, 2 a mistake in the command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.errors import AsdfError, UsageError

if TYPE_CHECKING:
    from asdf.detector import Detector, Scored
    from asdf.detector.recordings import Recording
    from asdf.detector.result_files import Heading, Line


def main(arguments: list[str]) -> int:
    """Score what is named; 1 if a recording could not be scored, else 0.

    Raises:
        UsageError: a mistake in the options, or something named that is not there, before anything is scored.
        AsdfError: the network cannot be read, or an output cannot be written.
    """
    given = _parser().parse_args(arguments)
    window = _window(given)
    # From here on torch is needed, which takes seconds to import.
    from asdf.audio import fallbacks
    from asdf.detector import Detector
    from asdf.detector.recordings import find_recordings
    from asdf.detector.result_files import write_csv, write_json, write_pictures

    recordings = find_recordings(given.recordings, given.folder)
    if given.scores and any(recording.label is None for recording in recordings):
        raise UsageError("--scores needs labels: name only lists in ASDF's format, 'relative/path.flac 1' a line.")
    fallbacks.take()  # those of checking the recordings: each is to be counted once
    detector = Detector(given.network, given.device, given.network_folder)
    heading = _heading(detector, given.network, given.threshold)
    lines: list[Line] = []
    results: list[Scored] = []
    for recording, result in _in_order(detector, recordings):
        line = _line(recording, result, heading)
        if window and not line.error:
            line = _over_time(detector, recording, line, window)
        _show(line, heading)
        lines.append(line)
        results.append(result)
    for write, path in ((write_csv, given.csv), (write_json, given.json)):
        if path:
            write(path, heading, lines)
    out = given.csv or given.json
    pictures = write_pictures(out, heading, lines) if out else []
    broken = sum(bool(line.error) for line in lines)
    if given.scores:
        _write_scores(given.scores, recordings, results, broken)
    told = [heading.decision, f"pictures beside {out}: {len(pictures)}" if pictures else ""]
    told.append(f"{broken} of {len(lines)} recordings could not be scored" if broken else "")
    told.append(fallbacks.describe(fallbacks.take(), [recording.path for recording in recordings], len(lines)))
    for words in filter(None, told):
        print(words, file=sys.stderr)
    return int(broken > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf score",
        usage="python -m asdf score NETWORK FILE|FOLDER|LIST ... [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", metavar="NETWORK", help="a network file of ASDF")
    parser.add_argument("recordings", nargs="+", metavar="FILE|FOLDER|LIST", help="what to score")
    parser.add_argument("--csv", type=Path, metavar="OUT", help="write a table: a row a recording and window")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the same as JSON")
    parser.add_argument("--scores", type=Path, metavar="OUT", help="write a score file of lists that have labels")
    parser.add_argument("--threshold", type=float, metavar="T", help="bona fide from this score on")
    parser.add_argument(
        "--window", type=float, metavar="S", help="score windows of S seconds too; plotted as text, and beside OUT"
    )
    parser.add_argument("--hop", type=float, metavar="S", help="seconds between windows; without it half a window")
    parser.add_argument("--folder", type=Path, help="what paths in lists are relative to; without it the list's folder")
    parser.add_argument("--device", default="auto", help="auto (a GPU where there is one), cpu, cuda, cuda:1")
    parser.add_argument("--network-folder", metavar="FOLDER", help="where the module of your own network class lies")
    return parser


def _window(given: argparse.Namespace) -> tuple[float, float] | None:
    from asdf.detector.windows import in_samples

    if given.window is None:
        if given.hop is not None:
            raise UsageError("--hop says how far windows are apart: give --window too.")
        return None
    hop = given.window / 2 if given.hop is None else given.hop
    in_samples(given.window, hop)
    return given.window, hop


def _heading(detector: Detector, network: str, threshold: float | None) -> Heading:
    from asdf.detector.result_files import Heading

    kind = "score" if detector.calibration is None else "llr"
    if threshold is not None:
        name = "a score" if detector.calibration is None else "an LLR"
        return Heading(network, kind, threshold, f"bona fide from {name} of {threshold:g} on")
    if detector.calibration is None:
        return Heading(network, kind, None, "")
    return Heading(network, kind, detector.calibration.threshold, detector.calibration.describe())


def _in_order(detector: Detector, recordings: list[Recording]) -> Iterator[tuple[Recording, Scored]]:
    """Results come by length; they go out in the order of the recordings, each as soon as it can."""
    from asdf.runs.progress import track

    waiting: dict[int, Scored] = {}
    place = 0
    results = detector.score_many(recording.path for recording in recordings)
    for result in track(results, len(recordings), "scoring", unit="recordings"):
        waiting[result.place] = result
        while place in waiting:
            yield recordings[place], waiting.pop(place)
            place += 1


def _line(recording: Recording, result: Scored, heading: Heading) -> Line:
    from asdf.detector.result_files import Line

    verdict = ""
    if result.score is not None and heading.threshold is not None:
        verdict = "bona fide" if result.score >= heading.threshold else "spoof"
    return Line(_printable(str(recording.path)), recording.label, result.score, verdict, result.error)


def _over_time(detector: Detector, recording: Recording, line: Line, window: tuple[float, float]) -> Line:
    try:
        return replace(line, windows=detector.score_over_time(recording.path, *window))
    except (AsdfError, OSError) as error:
        return replace(line, score=None, verdict="", error=str(error))


def _show(line: Line, heading: Heading) -> None:
    """The line on stdout, above the progress bar, if there is one; what is wrong with a recording on stderr."""
    from tqdm import tqdm

    from asdf.detector.pictures import text_plot

    if line.error:
        tqdm.write(f"{line.path}\terror")
        sys.stdout.flush()
        tqdm.write(f"error: {line.error}", file=sys.stderr)
        return
    verdict = f"\t{line.verdict}" if line.verdict else ""
    tqdm.write(f"{line.path}\t{line.score:.4f}{verdict}")
    if line.windows:
        tqdm.write(text_plot(line.windows, heading.threshold))
    sys.stdout.flush()


def _write_scores(path: Path, recordings: list[Recording], results: list[Scored], broken: int) -> None:
    from asdf.evaluation import write_scores

    if broken:
        print(f"{path} is not written: a score file without some of its trials has another EER.", file=sys.stderr)
        return
    # The network's own scores, also when it is calibrated: a calibration is fitted on these.
    raw = [result.raw for result in results if result.raw is not None]
    labels = [recording.label for recording in recordings if recording.label is not None]
    write_scores(path, [recording.name for recording in recordings], labels, raw)


def _printable(path: str) -> str:
    """A name that is one field of one line: file names may hold anything, even what is no text."""
    text = path.encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
