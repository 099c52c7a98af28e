"""A case: recordings, the network that scored them, and its validation on a set with known answers.

Invariant: the same files, network and options give the same case; no clock is read: its date is the
given one. A score is that of `python -m asdf score` for the same file and network; a recording that
cannot be read or scored is a result with its reason, and the others continue. Scores of the
validation set are mapped by the network's own calibration, as those of the case's recordings are,
so that ratios of both have the same meaning.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from asdf.audio import audio_length
from asdf.audio.reading import read_blocks
from asdf.audio.recording_files import open_recording
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.bootstrap import Interval, confidence_intervals
from asdf.metrics.calibration import Calibration
from asdf.metrics.detection import DetCurve
from asdf.metrics.intervals import proportion_bounds
from asdf.metrics.llr_maps import LlrQuality, Tippett, llr_quality
from asdf.places import file_size
from asdf.scoring.detector import Detector
from asdf.scoring.document import Heading, Provenance, make_heading, provenance_of, recording_digest
from asdf.scoring.scored import Scored, WindowScore
from asdf.trials.score_file import Scores

_POINTS = 480
_WINDOW_S = 4


@dataclass(frozen=True)
class FileFacts:
    """Facts that a recording's file states.

    Attributes:
        sha256: Digest of the file.
        size: Size of the file in bytes; None if its stream does not state it.
        format, codec: Container and number format or codec, in the decoder's terms.
        tags: Texts in the file, by name.
    """

    sha256: str
    size: int | None
    format: str
    codec: str
    channels: int
    sample_rate: int
    seconds: float
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Outline:
    """The lowest and the highest sample of equal parts of a recording, relative to full scale.

    Attributes:
        part_s: Length of a part, in seconds.
    """

    part_s: float
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Examined:
    """A recording of a case.

    Attributes:
        name: Path as given.
        facts: Facts about the file; None if it cannot be read.
        result: Score of the recording, or the reason why it has none.
        windows: Scores of consecutive windows.
        outline: Outline of the waveform; None if the file cannot be decoded.
    """

    name: str
    facts: FileFacts | None
    result: Scored
    windows: tuple[WindowScore, ...] = ()
    outline: Outline | None = None


def examine(
    detector: Detector, names: list[str], window: tuple[float, float]
) -> Iterator[Examined]:
    """Yield the result for each recording, in order.

    Args:
        window: Length of a window and distance between window starts, in seconds.
    """
    for index, name in enumerate(names):
        # What the file states is shown even if its score fails.
        facts = None
        try:
            facts = read_facts(name)
            result = detector.score_whole(name)
            # The windows of a search for parts are reused, if there was one.
            windows = result.windows_scores or detector.score_over_time(name, *window)
            outline = read_outline(name)
        except (AsdfError, OSError) as error:
            yield Examined(name, facts, Scored(index, Path(name), error=str(error), name=name))
            continue
        yield Examined(name, facts, result, tuple(windows), outline)


def read_facts(path: str) -> FileFacts:
    """Read the facts that a file states, and digest it.

    Raises:
        AsdfError: it is not a recording, or cannot be read.
    """
    digest = recording_digest(path)
    with open_recording(path) as file:
        # Only soundfile's files have tags.
        tags: dict[str, str] = getattr(file, "copy_metadata", dict)()
        # Sorted, since the same file gives the same page, byte by byte.
        known = {key: text for key, text in sorted(tags.items()) if text}
        return FileFacts(
            digest,
            file_size(path),
            str(file.format),
            str(file.subtype),
            int(file.channels),
            int(file.samplerate),
            file.frames / file.samplerate,
            known,
        )


def read_outline(path: str, points: int = _POINTS) -> Outline:
    """Read the outline of a recording, block by block: at most `points` parts.

    Raises:
        AsdfError: it cannot be decoded.
    """
    # A recording of fewer samples than points has a part for each sample.
    samples = max(1, math.ceil(audio_length(path) / points))
    low = []
    high = []
    for block in read_blocks(path, samples):
        low.append(round(float(block.min()), 4))
        high.append(round(float(block.max()), 4))
    return Outline(samples / SAMPLE_RATE, tuple(low), tuple(high))


def _error_rate(errors: int, trials: int) -> Interval:
    """Return the rate of errors among independent trials with its 95 % interval."""
    return Interval(errors / trials, *proportion_bounds(errors, trials))


@dataclass(frozen=True, eq=False)
class Validation:
    """Results on a set with known answers.

    Attributes:
        name: Name of the set.
        trials: Digest of the list of its trials.
        curve: Scores as shown in the case: likelihood ratios for a calibrated network.
        eer: Equal error rate with its interval.
        misses, false_alarms: Errors at the threshold of the network; None without one.
        quality: Quality of the likelihood ratios; None for an uncalibrated network, as for
            `tippett`.
        is_calibration_set: Whether the calibration was learnt from exactly these trials.
        is_checked: Whether the file states that the scores are this network's.
    """

    name: str
    trials: str
    curve: DetCurve
    eer: Interval
    misses: Interval | None
    false_alarms: Interval | None
    quality: LlrQuality | None
    tippett: Tippett | None
    is_calibration_set: bool
    is_checked: bool

    def describe(self) -> str:
        """Return the set and its EER in words."""
        return (
            f"{self.name}: {self.curve.bona_fide.size:,} bona fide and {self.curve.spoof.size:,} "
            f"spoofed recordings; EER {100 * self.eer.value:.1f} % (95 % interval "
            f"{100 * self.eer.low:.1f} to {100 * self.eer.high:.1f} %)"
        )

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        entry: dict[str, Any] = {
            "set": self.name,
            "trials": self.trials,
            "bona_fide": int(self.curve.bona_fide.size),
            "spoof": int(self.curve.spoof.size),
            "eer": _ends(self.eer),
            "is_calibration_set": self.is_calibration_set,
            "is_checked": self.is_checked,
            "misses": _ends(self.misses),
            "false_alarms": _ends(self.false_alarms),
            "quality": None if self.quality is None else vars(self.quality),
        }
        if self.tippett is not None:
            entry["misleading_bona_fide"] = self.tippett.misleading_bona_fide
            entry["misleading_spoof"] = self.tippett.misleading_spoof
        return entry


def _ends(rate: Interval | None) -> dict[str, float] | None:
    return None if rate is None else {"value": rate.value, "low": rate.low, "high": rate.high}


def validate(
    name: str,
    scores: Scores,
    calibration: Calibration | None,
    threshold: float | None,
    stated_network: str | None,
    network: str | None,
    replicates: int = 1000,
) -> Validation:
    """Compute the results of a network's own scores on a set.

    Args:
        scores: Scores of the network before calibration, as written by `score --scores`.
        threshold: Threshold of the displayed score; None: no decisions.
        stated_network: Digest of the network in the score file; None if it is not stated.
        network: Digest of the network of the case.

    Raises:
        AsdfError: the scores are another network's, or a class has no trial.
    """
    if stated_network is not None and network is not None and stated_network != network:
        raise AsdfError(
            f"the scores of {name} are of another network (SHA-256 {stated_network[:12]}..., not "
            f"{network[:12]}...): score the set with the network of the case."
        )
    values = scores.scores if calibration is None else calibration.llr(scores.scores)
    mapped = Scores.of(scores, np.asarray(values))
    curve = DetCurve.of_scores(mapped)
    misses = false_alarms = None
    if threshold is not None:
        # As for recordings: the bounds of a calibration limit claims, and not decisions.
        decided = scores
        if calibration is not None:
            decided = Scores.of(scores, calibration.unbounded_llr(scores.scores))
        missed = int(np.sum(decided.bona_fide < threshold))
        misses = _error_rate(missed, decided.bona_fide.size)
        passed = int(np.sum(decided.spoof >= threshold))
        false_alarms = _error_rate(passed, decided.spoof.size)
    digest = scores.digest()
    return Validation(
        name,
        digest,
        curve,
        confidence_intervals(mapped, replicates=replicates).eer,
        misses,
        false_alarms,
        # Both are of likelihood ratios, which scores without a calibration are not.
        None if calibration is None else llr_quality(curve),
        None if calibration is None else Tippett.of(curve),
        calibration is not None and calibration.trials == digest,
        stated_network is not None and stated_network == network,
    )


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        network: Name of the network.
        heading: Description of the scores.
        provenance: Versions, digest and options, with the date of the case.
        software: Further programs with their versions.
        remark: Limitation of all of the network's scores; ''.
        command: Command that reproduces the case.
        reference: Reference of the case, such as a file number; '' without one.
        examiner: Name of the examiner; ''.
        date: Date as displayed; ''.
    """

    recordings: tuple[Examined, ...]
    network: str
    heading: Heading
    provenance: Provenance
    software: dict[str, str]
    calibration: Calibration | None
    validation: Validation | None
    remark: str
    command: str
    window: tuple[float, float]
    title: str = ""
    reference: str = ""
    examiner: str = ""
    date: str = ""


def make_case(
    detector: Detector,
    names: list[str],
    command: str,
    validation: Validation | None = None,
    track: Callable[[Iterable[Examined]], Iterable[Examined]] = iter,
    **headings: str,
) -> Case:
    """Examine recordings and assemble the case.

    Args:
        track: Function that shows the progress.
        headings: Title, reference, examiner and date.

    Raises:
        AsdfError: the network's file is missing.
    """
    provenance = provenance_of(detector)
    # 4 s, or the network's input, and half of it.
    wanted = max(_WINDOW_S * detector.sample_rate, detector.length.min_samples)
    seconds = min(wanted, detector.window_samples) / detector.sample_rate
    window = (seconds, seconds / 2)
    # The number of threads may change the last digits of a score.
    options = {**provenance.options, "threads": detector.threads, "window": window}
    software = {
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "libsndfile": soundfile.__libsndfile_version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
    return Case(
        tuple(track(examine(detector, names, window))),
        detector.source,
        make_heading(detector, detector.source, False),
        # Not the date of now, which would change the page's bytes from day to day.
        replace(provenance, date=headings.get("date", ""), options=options),
        software,
        detector.calibration,
        validation,
        detector.remark,
        command,
        window,
        **headings,
    )
