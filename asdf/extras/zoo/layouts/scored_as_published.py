"""Scored lengths and scoring rules of published programs, as settings of a network.

Invariant: a published detector is scored as its authors score it, unless the user chooses lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asdf.networks.back_ends.sls import SLSSizes
from asdf.settings.sections import FRAME_SAMPLES, Sections, assign
from asdf.trials.how_scored import PUBLISHED, ScoredLength

_MIN_SCORED = "network.min_evaluation_utterance_length_in_samples"
_MAX_SCORED = "network.max_evaluation_utterance_length_in_samples"
# Their data sets use another length than all others.
_CONFORMER_SAMPLES = 66800
_SCORE = "network.score"
_LOSS = "network.loss"
_NORMALIZE = "front_end.normalize_waveforms"


def published_length(
    settings: Sections, kind: str, chosen: Mapping[str, Any], samples: int | None = None
) -> list[str]:
    """Set the scored length of recordings to that of the published programs; return notes.

    The data sets of AASIST, SSL_Anti-spoofing, SLS and Nes2Net-X (`data_utils.py`,
    `data_utils_SSL.py`) and RawNet2 return the first 64,600 samples of a trial, and repeat a
    shorter one from its start; those of the Conformers and of XLSR-Mamba (`data_utils.py`) the
    first 66,800. An SLS of another size takes its own length.

    Args:
        kind: Name of the network's class.
        chosen: Settings that the user chose, by full name.
        samples: Number of samples that its program scores; None: as above.
    """
    published = samples or PUBLISHED.min_samples
    if kind == "SSL_SLS":
        published = SLSSizes.of(settings).sls_samples
    elif kind in ("SSL_Conformer", "SSL_ConformerTCM", "SSL_Mamba"):
        published = _CONFORMER_SAMPLES
    # lab260's programs repeat shorter recordings after the pre-emphasis, as the network does.
    repeats = kind.startswith("SSL_Spectra")
    shortest = FRAME_SAMPLES if repeats else published
    # Limits that the user did not choose are made consistent with the chosen one.
    lengths = {}
    if _MIN_SCORED not in chosen:
        lengths[_MIN_SCORED] = min(shortest, chosen.get(_MAX_SCORED, published))
    if _MAX_SCORED not in chosen:
        lengths[_MAX_SCORED] = max(published, chosen.get(_MIN_SCORED, published))
    if not lengths:
        return []
    assign(settings, lengths)
    scored = ScoredLength(
        settings.network.min_evaluation_utterance_length_in_samples,
        settings.network.max_evaluation_utterance_length_in_samples,
    )
    words = scored.describe()
    if repeats:
        words = f"first {published:,} samples, shorter ones repeated after the pre-emphasis"
    is_published = (scored.min_samples, scored.max_samples) == (shortest, published)
    reason = ", as published" if is_published else ""
    names = " and ".join(f"{name} = {value}" for name, value in lengths.items())
    return [f"scored{reason}: {words} ({names})"]


def antideepfake_scoring(
    settings: Sections, one_class: str | None, chosen: Mapping[str, Any]
) -> list[str]:
    """Set the processing and the score of AntiDeepfake's program; return notes.

    Its `dataio.py` tests whole recordings, each scaled to zero mean and unit variance, and its
    `evaluation.py` uses the probability of real speech: the sigmoid of the difference of the two
    logits. A one-class detector gives a cosine.

    Args:
        one_class: Loss of a one-class detector; None for two logits.
        chosen: Settings that the user chose, by full name.
    """
    values: dict[str, Any] = {_NORMALIZE: True, _SCORE: "difference"}
    if one_class is not None:
        values |= {_SCORE: "bona_fide", _LOSS: one_class}
    notes = []
    for name, value in values.items():
        if name not in chosen:
            assign(settings, {name: value})
            notes.append(f"{name} = {value!r}, as published")
    return notes + whole_recordings(settings, chosen)


def whole_recordings(settings: Sections, chosen: Mapping[str, Any]) -> list[str]:
    """Set that recordings are scored as a whole; return notes.

    Args:
        chosen: Settings that the user chose, by full name.
    """
    # Networks need at least one frame. Our limit of a minute exceeds the tested lengths.
    if _MIN_SCORED in chosen:
        return []
    assign(settings, {_MIN_SCORED: FRAME_SAMPLES})
    scored = ScoredLength(
        FRAME_SAMPLES, settings.network.max_evaluation_utterance_length_in_samples
    )
    reason = "" if _MAX_SCORED in chosen else ", as published"
    return [f"scored{reason}: {scored.describe()} ({_MIN_SCORED} = {FRAME_SAMPLES})"]
