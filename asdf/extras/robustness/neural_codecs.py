"""EnCodec, a neural codec: speech is coded to tokens and decoded, with a transformers folder.

Invariant: length and level are preserved: a model that normalises the level restores it. A folder
is read once per process; nothing is downloaded, and no code of a folder is executed.

Source: Défossez et al., "High Fidelity Neural Audio Compression", TMLR 2023.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from asdf.arrays import Floats
from asdf.checkpoint.plain_values import read_json
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE

_KIND = "encodec"
WITHOUT_FOLDER = "--encodec FOLDER names the model: hf download facebook/encodec_24khz has one"


def encodec_missing(folder: str) -> str:
    """Return why the model in a folder cannot code recordings; '' if it can."""
    if not folder:
        return WITHOUT_FOLDER
    try:
        importlib.import_module("transformers")
    except ImportError:
        return "transformers is not installed: pip install 'asdf-antispoofing[transformers]'"
    path = Path(folder) / "config.json"
    if not path.is_file():
        return f"there is no {path}: name a folder of transformers' EncodecModel"
    kind = read_json(path).get("model_type")
    if kind != _KIND:
        return f"{path} has the model_type {kind!r}, not {_KIND!r}"
    return ""


def code_and_decode(waveform: Floats, folder: str, kbps: float) -> Floats:
    """Return a waveform (T,) at 16 kHz after coding and decoding, (T,).

    Args:
        folder: Folder of the model.
        kbps: Bit rate in kbit/s, one of the model's.

    Raises:
        AsdfError: the model does not support this bit rate, or takes several channels.
    """
    import torch
    from torchaudio.functional import resample

    model = _open(folder)
    rates = model.config.target_bandwidths
    if kbps not in rates:
        known = ", ".join(f"{rate:g}" for rate in rates)
        raise AsdfError(f"encodec={kbps:g}: the model in {folder} only has {known} kbit/s.")
    samples = torch.from_numpy(waveform)
    with torch.inference_mode():
        higher = resample(samples, SAMPLE_RATE, model.config.sampling_rate)
        # (1 recording, 1 channel, samples)
        decoded = model(higher[None, None], bandwidth=kbps).audio_values[0, 0]
        back = resample(decoded, model.config.sampling_rate, SAMPLE_RATE)
    # Resampling rounds lengths up in both directions.
    result: Floats = back[: len(waveform)].numpy()
    return result


# A study has one model, which each worker process reads once.
@lru_cache(1)
def _open(folder: str) -> Any:
    from transformers import EncodecModel
    from transformers.utils import logging

    # A progress bar of the layers would disturb that of the recordings.
    logging.disable_progress_bar()
    try:
        # Safetensors alone: the other format of weights is a pickle, which can execute code.
        model = EncodecModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise AsdfError(f"{folder} cannot be read as an EncodecModel: {error}.") from error
    if model.config.audio_channels != 1:
        raise AsdfError(
            f"the model in {folder} takes {model.config.audio_channels} channels; recordings here "
            "have one: facebook/encodec_24khz takes one."
        )
    return model.eval()
