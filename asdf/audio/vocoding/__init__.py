"""Vocoders that copy bona fide speech, with the copies used as spoofs in training.

Xin Wang and Junichi Yamagishi: Spoofed training data for speech spoofing countermeasure can be
efficiently created using neural vocoders. ICASSP 2023. Ours are not neural.
"""

from asdf.audio.vocoding.vocoder import Vocoder, Vocoders, open_vocoders, try_vocoders

__all__ = ["Vocoder", "Vocoders", "open_vocoders", "try_vocoders"]
