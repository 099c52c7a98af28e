"""The frame EER as a metric for choosing networks: `network.validation_metric`."""

from __future__ import annotations

from asdf.metrics.detection import eer
from asdf.metrics.validation import TaskMetric
from asdf.tasks.localisation.task import FramesOfSet


class FrameEER(TaskMetric):
    """The equal error rate of the frames of all trials, of a network with a frame-level head."""

    task = "frames"
    advice = "set localisation.enabled = True"

    def of_scores(self, scores: FramesOfSet) -> float:
        divided = scores.divided()
        return eer(divided.bona_fide, divided.spoof)[0]
