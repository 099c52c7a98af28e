"""Section of source tracing: which system, vocoder, language ... a recording is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.sections.fields import KnownNames, setting

SOURCE_HEADS = {
    "linear": "asdf.networks.LinearClassHead",
    "cosine": "asdf.networks.CosineClassHead",
}


@dataclass
class Source(KnownNames):
    """Source tracing: the classes of a column of the trial list, learnt next to detection."""

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
