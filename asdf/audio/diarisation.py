"""Speaker turns, found by the package pyannote.audio if it is installed.

Invariant: a recording is decoded by ASDF, as for its scores, so that the times of turns refer to
the scored samples.

Source: Bredin, "pyannote.audio 2.1 speaker diarization pipeline", Interspeech 2023.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from asdf.audio import read_audio
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE

Turns = dict[str, list[tuple[float, float]]]
"""Start and end of each turn in seconds, by speaker."""


def open_diariser(pipeline: str, device: str) -> Callable[[str], Turns]:
    """Open a pipeline; return a function from a recording to its turns.

    Args:
        pipeline: Name of a pipeline on the hub, or its local folder.
        device: 'auto', 'cpu', 'cuda' or the like.

    Raises:
        UsageError: pyannote.audio is not installed.
        AsdfError: the pipeline cannot be opened.
    """
    try:
        from pyannote.audio import Pipeline
    except ImportError as error:
        raise UsageError(
            "--diarise needs pyannote.audio: pip install 'asdf-antispoofing[diarisation]'; or give "
            f"the turns of another diariser as an RTTM, --rttm ({error})."
        ) from None
    try:
        opened = Pipeline.from_pretrained(pipeline)
    except Exception as error:  # whatever the hub and the package raise
        raise _cannot_open(pipeline, str(error)) from None
    if opened is None:
        raise _cannot_open(pipeline, "its conditions were not accepted, or a token is missing")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    opened.to(torch.device(device))

    def diarise(path: str) -> Turns:
        waveform = torch.from_numpy(read_audio(path))[None]
        return turns_of(opened({"waveform": waveform, "sample_rate": SAMPLE_RATE}))

    return diarise


def turns_of(output: Any) -> Turns:
    """Return the turns in a pipeline's output, which includes more since version 4."""
    annotation = getattr(output, "speaker_diarization", output)
    turns: Turns = {}
    for segment, _, speaker in annotation.itertracks(yield_label=True):
        turns.setdefault(str(speaker), []).append((float(segment.start), float(segment.end)))
    return turns


def _cannot_open(pipeline: str, reason: str) -> AsdfError:
    token = "" if os.environ.get("HF_TOKEN") else ", and set HF_TOKEN"
    return AsdfError(
        f"the diariser {pipeline} cannot be opened: {reason}. Accept its conditions on "
        f"huggingface.co{token}; or name a local folder, --diariser FOLDER."
    )
