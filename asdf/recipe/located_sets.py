"""Frame scores of whole sets: files of them, and how well they locate what is spoofed.

Invariant: what is reported is computed from the files, as of score files; the threshold for F1 and
intersection over union is chosen on the first validation set that has frame scores, and stated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asdf.errors import AsdfError
from asdf.recipe.run import Run
from asdf.runs.log import LOG
from asdf.runs.network_names import NetworkName
from asdf.text import aligned

if TYPE_CHECKING:
    import numpy as np

    from asdf.metrics.localisation import Localisation, LocatedRecording
    from asdf.metrics.localisation_intervals import LocalisationIntervals
    from asdf.segments import FrameTable
    from asdf.trials.trial_list import TrialList

# Of intervals that a run reports by itself; `python -m asdf localise` draws more.
_REPLICATES = 200


class FramesByClass(NamedTuple):
    """The scores of the frames of a set, pooled: (frames,) of each class."""

    bona_fide: np.ndarray
    spoof: np.ndarray


def replace_frames(path: Path, frames: FrameTable | None) -> None:
    """Write frame scores; None: remove those of a network that had a frame-level head."""
    from asdf.segments import write_frame_table

    path.unlink(missing_ok=True)
    if frames is not None:
        write_frame_table(path, frames)


def divide_frames(table: FrameTable, trials: TrialList) -> FramesByClass:
    """Divide the frames of a set by their labels.

    Raises:
        AsdfError: the spoofed parts of a trial are malformed or not known.
    """
    import numpy as np

    from asdf.facts import SAMPLE_RATE
    from asdf.segments import frame_labels, spoofed_parts

    hop = round(table.hop_s * SAMPLE_RATE)
    labels = []
    for index in range(len(table)):
        samples = round(table.durations_s[index] * SAMPLE_RATE)
        labels.append(frame_labels(spoofed_parts(trials, index), samples, hop))
    is_bona_fide = np.concatenate(labels) == 1
    return FramesByClass(table.scores[is_bona_fide], table.scores[~is_bona_fide])


def report_localisation(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Log and write how well frame scores locate what is spoofed, where a set's parts are known."""
    from asdf.report import located_record
    from asdf.runs.files import write_text

    names = list(sets)
    entries: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = [
        ("network", "set", "range EER %", "point EER %", "F1", "IoU", "threshold of")
    ]
    for network in networks:
        chosen = _choose_threshold(run, network)
        for corpus in names:
            located = _read_set(run, network, corpus)
            result = _measure(located, chosen.threshold)
            if located is None or result is None:
                continue
            origin = chosen.corpus or corpus
            name = str(NetworkName.parse(network))
            intervals = _intervals(located, result.threshold)
            entries.append(located_record(name, corpus, origin, result, intervals, located.drawn))
            rows.append(_row(name, corpus, origin, result))
    if not entries:
        return
    lines = aligned(rows, right=(2, 3, 4, 5))
    LOG.info("localisation, of seconds but for the point EER, which is of frames:")
    for line in lines:
        LOG.info("%s", line)
    write_text(run.folders.layout.localisation_json, json.dumps(entries, indent=1) + "\n")
    write_text(run.folders.layout.localisation_text, "\n".join(lines) + "\n")


@dataclass(frozen=True)
class _Threshold:
    """A threshold of frame scores, and the set that it was chosen on; None: of each set itself."""

    threshold: float | None = None
    corpus: str = ""


def _choose_threshold(run: Run, network: str) -> _Threshold:
    for corpus in run.validation_sets:
        result = _measure(_read_set(run, network, corpus), None)
        if result is not None:
            return _Threshold(result.threshold, corpus)
    return _Threshold()


class _LocatedSet(NamedTuple):
    """The frame scores of a set with its spoofed parts; `speakers` is None where one is unknown."""

    corpus: str
    recordings: list[LocatedRecording]
    speakers: list[str] | None

    @property
    def drawn(self) -> str:
        """What intervals are over."""
        return "speakers" if self.speakers else "recordings"


def _read_set(run: Run, network: str, corpus: str) -> _LocatedSet | None:
    """Return a set; None where it has no frame scores, or its parts are not known."""
    from asdf.segments import COLUMN, read_frame_table
    from asdf.trials.table import read_trials

    path = run.folders.frames(network, corpus)
    trials_path = run.folders.trials(corpus)
    if not path.exists() or not trials_path.exists():
        return None
    trials = read_trials(trials_path)
    if COLUMN not in trials.columns:
        return None
    table = read_frame_table(path)
    _check_same(path, table, trials)
    speakers = list(trials.columns.get("speaker", []))
    try:
        recordings = _locate(table, trials)
    except AsdfError as error:
        _warn(corpus, error)
        return None
    return _LocatedSet(corpus, recordings, speakers if speakers and all(speakers) else None)


def _measure(located: _LocatedSet | None, threshold: float | None) -> Localisation | None:
    """Return the result on a set; None where there is none."""
    from asdf.metrics.localisation import localisation

    if located is None:
        return None
    try:
        return localisation(located.recordings, threshold=threshold)
    except AsdfError as error:
        _warn(located.corpus, error)
        return None


def _warn(corpus: str, error: AsdfError) -> None:
    LOG.warning("warning: the frames of %s are not evaluated: %s", corpus, error)


def _intervals(located: _LocatedSet, threshold: float) -> LocalisationIntervals | None:
    """Return the intervals of a set; None where it is too small for them."""
    from asdf.metrics.localisation import pooled_stretches
    from asdf.metrics.localisation_intervals import localisation_intervals

    stretches = pooled_stretches(located.recordings)
    try:
        return localisation_intervals(
            stretches, threshold, speakers=located.speakers, replicates=_REPLICATES
        )
    except AsdfError:
        return None


def _locate(table: FrameTable, trials: TrialList) -> list[LocatedRecording]:
    from asdf.metrics.localisation import LocatedRecording
    from asdf.segments import spoofed_parts

    recordings = []
    for index in range(len(table)):
        scores = table.of_trial(index).astype("float64")
        duration_s = float(table.durations_s[index])
        parts = spoofed_parts(trials, index)
        recordings.append(LocatedRecording(scores, table.hop_s, parts, duration_s))
    return recordings


def _check_same(path: Path, table: FrameTable, trials: TrialList) -> None:
    if list(table.ids) != list(trials.ids):
        raise AsdfError(
            f"{path} is of other trials than the list of the run: run stage 2 again "
            "(recipe.start_stage=2)."
        )


def _row(network: str, corpus: str, origin: str, result: Localisation) -> tuple[str, ...]:
    return (
        network,
        corpus,
        f"{100 * result.range_eer.rate:.3f}",
        f"{100 * result.points[0].eer:.3f}",
        f"{result.agreement.f1:.4f}",
        f"{result.agreement.iou:.4f}",
        origin,
    )
