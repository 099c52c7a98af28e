"""Recordings: reading, cropping, speech activity, augmentation. Floor 1; torch is imported only where it is needed,
to resample and for Silero VAD."""

from asdf.audio.cropping import crop_start, random_crop, repeat_to
from asdf.audio.rawboost import augment
from asdf.audio.reading import audio_length, decoded_length, read_audio
from asdf.audio.resampling import SAMPLE_RATE
from asdf.audio.speech_activity import cut_to_speech, segments, speech_mask

__all__ = [
    "SAMPLE_RATE",
    "audio_length",
    "augment",
    "crop_start",
    "cut_to_speech",
    "decoded_length",
    "random_crop",
    "read_audio",
    "repeat_to",
    "segments",
    "speech_mask",
]
