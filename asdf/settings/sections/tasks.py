"""Sections of the tasks that come with ASDF: frame-level head, source tracing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import (
    MAX_CLIP_SAMPLES,
    setting,
)


@dataclass
class Localisation(KnownNames):
    """Frame scores in addition to the utterance score, for partially spoofed speech."""

    enabled: bool = setting(
        False,
        "True: the network has a frame-level head, trained by the labels of the frames (column "
        "spoofed_s); its back end has to keep time",
    )
    resolution: int | None = setting(
        None,
        "length of a frame, a multiple of the back end's frames, of which means are taken; None: "
        "the back end's frames",
        unit="samples",
        at_least=1,
        at_most=MAX_CLIP_SAMPLES,
    )
    weight: float = setting(
        1.0, "factor of the frames' loss next to that of the utterance", above=0
    )
    class_weights: tuple[float, float] = setting(
        (1.0, 1.0), "weights of (spoofed, bona fide) frames in their loss", above=0
    )


SOURCE_HEADS = {
    "linear": "asdf.networks.LinearClassHead",
    "cosine": "asdf.networks.CosineClassHead",
}


@dataclass
class Source(KnownNames):
    """Source tracing: classes of a column of the trial list, learnt in addition to detection."""

    column: str | None = setting(
        None,
        "column of the trial list whose values are the classes, such as 'attack', 'vocoder' or "
        "'language'; None: no source tracing",
    )
    classes: tuple[str, ...] | None = setting(
        None,
        "the classes; trials of other values are not learnt from, and unknown when they are "
        "scored; None: all values of the training list, sorted",
        check="unique",
    )
    bona_fide: Literal["left_out", "class", "by_column"] = setting(
        "left_out",
        "bona fide trials are 'left_out', a 'class' of their own, or of the class that the column "
        "says, as for languages",
    )
    weight: float = setting(
        1.0,
        "weight of the classes' loss next to that of detection (loss.detection_weight)",
        above=0,
    )
    head: str = setting(
        "linear",
        "what computes the classes from embeddings: a linear layer by cross-entropy; cosines with "
        "a vector per class by additive-margin softmax; or the class path of your own",
        check="class_path",
        names=SOURCE_HEADS,
    )
    scale: float = setting(32.0, "cosine: factor of the cosines", above=0)
    margin: float = setting(
        0.2,
        "cosine: subtracted from the cosine of the true class in training",
        at_least=0,
        at_most=2,
    )
