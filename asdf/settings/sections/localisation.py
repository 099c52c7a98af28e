"""The section of the frame-level head, which locates the spoofed parts of a recording."""

from __future__ import annotations

from dataclasses import dataclass

from asdf.settings.sections.fields import (
    MAX_CLIP_SAMPLES,
    KnownNames,
    setting,
)


@dataclass
class Localisation(KnownNames):
    """Frame scores next to the score of the utterance, for speech of which parts are spoofed."""

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
