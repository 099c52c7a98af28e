"""Recordings: reading, cropping, speech activity, augmentation.

torch is imported only on demand, for resampling and for Silero VAD.
"""

from asdf.audio.reading import audio_length, decoded_length, read_audio
from asdf.audio.speech import (
    crop_start,
    cut_to_speech,
    measure_speech,
    read_speech,
    repeat_to,
    speech_mask,
)

__all__ = [
    "audio_length",
    "crop_start",
    "cut_to_speech",
    "decoded_length",
    "measure_speech",
    "read_audio",
    "read_speech",
    "repeat_to",
    "speech_mask",
]
