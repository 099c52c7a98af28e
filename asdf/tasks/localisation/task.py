"""Localisation as a task, enabled by `localisation.enabled`: its loss term, files and results.

Invariant: every frame of a clip counts equally, and all clips have the same number of frames. The
mean over the clips of a step is thus the mean over frames, however the step is divided. Results are
computed from the files, as for score files. The threshold for F1 and intersection over union is
chosen on the first validation set with frame scores, and is reported.

Shapes: B utterances, F frames, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asdf.data.datasets import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.detection import eer
from asdf.metrics.validation import TaskMetric
from asdf.networks import frame_hop
from asdf.networks.extras import Extra
from asdf.networks.interface import Outputs
from asdf.runs.files import write_text
from asdf.runs.log import LOG
from asdf.segments import (
    COLUMN,
    FrameTable,
    frame_labels,
    read_frame_table,
    spoofed_parts,
    spoofed_parts_of,
    write_frame_table,
)
from asdf.settings.sections import Localisation as FrameSettings
from asdf.tables.renderers import as_json
from asdf.tasks.localisation.located_measures import Localisation as Measured
from asdf.tasks.localisation.located_measures import (
    LocatedRecording,
    localisation,
    localisation_intervals,
    located_record,
    located_text,
)
from asdf.training.losses.loss import ClipKey, Term
from asdf.training.task import ScoredSet, Task
from asdf.trials.table import read_trials
from asdf.trials.trial_list import TrialList, known_speakers

# Replicates for the intervals that a run reports; `evaluate` draws more.
_REPLICATES = 200


class FrameTerm(Term):
    """The mean cross-entropy over a clip's frames, weighted by class."""

    name = "frames"

    def __init__(self, settings: FrameSettings, frames: ClipFrames) -> None:
        self.weight = settings.weight
        self._class_weights = settings.class_weights
        self._frames = frames

    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return the labels of the clips' frames, (clips, F) int8."""
        return torch.from_numpy(self._frames.labels(keys))

    def counts(self, targets: Tensor) -> Tensor:
        """Return 1 for each clip."""
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        """Return the means, (B,).

        Raises:
            AsdfError: the network returns no frame logits, or more than a clip has frames.
        """
        logits_BF2 = outputs.extras.get("frames")
        count = 0 if logits_BF2 is None else logits_BF2.shape[1]
        if logits_BF2 is None or not 1 <= count <= targets.shape[1]:
            raise AsdfError(
                f"the network returns logits of {count} frames for a clip of {targets.shape[1]} "
                f"frames of {self._frames.hop} samples, which its frame_hop states. See "
                "asdf.networks.DetectorNetwork."
            )
        kind = torch.promote_types(logits_BF2.dtype, torch.float32)
        # The last frames of a clip may lie beyond the front end's last window.
        labels_BF = targets[:, :count].long()
        values_BF = cross_entropy(logits_BF2.to(kind).transpose(1, 2), labels_BF, reduction="none")
        spoofed, bona_fide = self._class_weights
        # Plain numbers avoid creating tensors here: a captured graph may not copy any to the
        # device.
        weights_BF = spoofed + (bona_fide - spoofed) * labels_BF.to(kind)
        return (weights_BF * values_BF).mean(dim=1)


def build_frame_term(
    network: nn.Module, settings: FrameSettings, frames: ClipFrames | None
) -> FrameTerm | None:
    """Return the term for a network with a frame-level head; None for one without.

    Args:
        frames: Labels of the frames of training clips.

    Raises:
        UsageError: the network has a frame-level head, but nothing trains it.
    """
    if frame_hop(network) is None:
        return None
    if not settings.enabled or frames is None:
        raise UsageError(
            f"{type(network).__qualname__} has a frame-level head, which only "
            "localisation.enabled = True trains, on a list with the column spoofed_s."
        )
    return FrameTerm(settings, frames)


@dataclass(frozen=True)
class FramesOfSet:
    """The frame scores of a set, with its trials."""

    table: FrameTable
    trials: TrialList

    def eer(self) -> float:
        """Return the equal error rate of the frames of all trials.

        Raises:
            AsdfError: the spoofed parts of a trial are malformed or unknown.
        """
        hop = round(self.table.hop_s * SAMPLE_RATE)
        labels = []
        for index, duration_s in enumerate(self.table.durations_s):
            samples = round(duration_s * SAMPLE_RATE)
            labels.append(frame_labels(spoofed_parts(self.trials, index), samples, hop))
        is_bona_fide = np.concatenate(labels) == 1
        return eer(self.table.scores[is_bona_fide], self.table.scores[~is_bona_fide])[0]


class Localisation(Task):
    """Scores of frames, learnt next to detection."""

    key = "frames"

    @property
    def is_requested(self) -> bool:
        return self.settings.localisation.enabled

    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> FrameTerm | None:
        return build_frame_term(network, self.settings.localisation, frames)

    def scores_file(self, score_file: Path) -> Path:
        return score_file.with_suffix(".frames.npz")

    def write(
        self, score_file: Path, utterances: TrialList, values: FrameTable, extra: Extra
    ) -> FramesOfSet:
        write_frame_table(self.scores_file(score_file), values)
        return FramesOfSet(values, utterances)

    def read(self, score_file: Path) -> FrameTable | None:
        path = self.scores_file(score_file)
        return read_frame_table(path) if path.exists() else None

    def report(
        self, scored: Sequence[ScoredSet], validated: Sequence[ScoredSet], results: Path
    ) -> str:
        """Write the localisation metrics of each set whose spoofed parts are known."""
        entries: list[dict[str, Any]] = []
        # The sets of a network follow each other.
        for network, sets in groupby(scored, key=attrgetter("network")):
            threshold, chosen_on = None, ""
            for entry in (entry for entry in validated if entry.network == network):
                if measured := self._measure(entry, None):
                    threshold, chosen_on = measured[0].threshold, entry.corpus
                    break
            for entry in sets:
                measured = self._measure(entry, threshold)
                if measured is None:
                    continue
                result, recordings, speakers = measured
                # Without a validation set, each set has a threshold of its own.
                origin = chosen_on or entry.corpus
                intervals = None
                # A set that is too small has none.
                with suppress(AsdfError):
                    intervals = localisation_intervals(
                        recordings, result, speakers=speakers, replicates=_REPLICATES
                    )
                drawn = "speakers" if speakers else "recordings"
                entries.append(
                    located_record(network, entry.corpus, origin, result, intervals, drawn)
                )
        if not entries:
            return ""
        text = located_text(entries)
        write_text(results / "localisation.json", as_json(entries, indent=1))
        write_text(results / "localisation.txt", text + "\n")
        return f"localisation, of seconds but for the point EER, which is of frames:\n{text}"

    def _measure(
        self, entry: ScoredSet, threshold: float | None
    ) -> tuple[Measured, list[LocatedRecording], Sequence[str] | None] | None:
        """Return the result on a set, its recordings and their speakers (None if unknown).

        It is None if the set has no frame scores, or its spoofed parts are unknown.
        """
        table = self.read(entry.score_file)
        if table is None or not entry.trials_file.exists():
            return None
        trials = read_trials(entry.trials_file)
        if COLUMN not in trials.columns:
            return None
        if list(table.ids) != list(trials.ids):
            raise AsdfError(
                f"{self.scores_file(entry.score_file)} contains other trials than the list of the "
                "run: run stage 2 again (recipe.start_stage=2)."
            )
        recordings = []
        try:
            for index, spoofed in enumerate(spoofed_parts_of(trials)):
                # In float32, the threshold just above a rejected score would round to that score.
                scores = table.of_trial(index).astype("float64")
                duration_s = float(table.durations_s[index])
                recordings.append(LocatedRecording(scores, table.hop_s, spoofed, duration_s))
            result = localisation(recordings, threshold=threshold)
        except AsdfError as error:
            # It must not end the report on the other sets.
            LOG.warning("warning: the frames of %s are not evaluated: %s", entry.corpus, error)
            return None
        return result, recordings, known_speakers(trials.columns.get("speaker", []))


class FrameEER(TaskMetric):
    """The equal error rate of the frames of all trials, of a network with a frame-level head."""

    task = "frames"
    advice = "set localisation.enabled = True"

    def of_scores(self, scores: FramesOfSet) -> float:
        return scores.eer()
