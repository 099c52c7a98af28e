"""Which settings a frame-level head does not fit.

Invariant: the label of a frame is that of the samples in it. What moves speech in time, so that
this would no longer be known, is refused; the reason is a part of the message.
"""

from __future__ import annotations

from collections.abc import Iterator

from asdf.settings.contradiction import Contradiction
from asdf.settings.sections import BACK_ENDS, Sections

_ENABLED = "localisation.enabled"
# Of the project's back ends those without frames; their classes know it as well, but to ask them
# would import torch.
_WITHOUT_TIME = ("aasist", "aasist_l", "sls", "mlp")
_NETWORKS_WITHOUT_TIME = (
    "asdf.networks.AASIST",
    "asdf.networks.AASIST_L",
    "asdf.networks.RawNet2",
    "asdf.networks.SSL_AASIST",
    "asdf.networks.SSL_AASIST_L",
    "asdf.networks.SSL_SLS",
)
THAT_KEEP_TIME = ", ".join(name for name in BACK_ENDS if name not in _WITHOUT_TIME)


def frames_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield what contradicts `localisation.enabled`, in scoring as well."""
    if sections.network.max_cut_proportion:
        relation = "cuts the last frames of recordings off, and contradicts"
        yield Contradiction("network.max_cut_proportion", relation, _ENABLED)
    if sections.sad.mode != "off":
        relation = "cuts parts out of recordings, so that frames would be at other times, against"
        yield Contradiction("sad.mode", relation, _ENABLED)


def frames_training_contradictions(sections: Sections) -> Iterator[Contradiction]:
    """Yield what contradicts `localisation.enabled` in training."""
    yield from _contradictions_of_ends(sections)
    if "silence" in sections.augmentation.chain:
        relation = (
            "names 'silence', which cuts off lengths that are known only when a clip is read, and "
            "contradicts"
        )
        yield Contradiction("augmentation.chain", relation, _ENABLED)
    if sections.network.score == "llr":
        relation = (
            "needs the proportion of bona fide examples in training, which depends on the drawn "
            "crops with"
        )
        yield Contradiction("network.score", relation, _ENABLED)


def _contradictions_of_ends(sections: Sections) -> Iterator[Contradiction]:
    network_class = sections.network.network_class
    back_end = sections.back_end.back_end_class
    reason = f"keeps no frames that could be judged one by one ({THAT_KEEP_TIME} do)"
    if network_class in _NETWORKS_WITHOUT_TIME:
        relation = f"{reason[:-1]}, behind asdf.networks.ComposedDetector), and contradicts"
        yield Contradiction("network.network_class", relation, _ENABLED)
    without_time = {*_WITHOUT_TIME, *(BACK_ENDS[name] for name in _WITHOUT_TIME)}
    if back_end in without_time:
        yield Contradiction("back_end.back_end_class", f"{reason}, and contradicts", _ENABLED)
