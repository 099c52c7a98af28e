from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio.augmentation.codecs import CODECS, Coding, check_codecs, transcode
from asdf.errors import UsageError
from tests.augmentations import augmentation

CODINGS = [(name, quality) for name, codec in CODECS.items() for quality in codec.qualities]
ALL_16_BIT = np.arange(-(2**15), 2**15)


def needs(name: str) -> None:
    if CODECS[name].kind is None:
        pytest.importorskip("av", reason="PyAV is not installed")


def mu_law(samples: np.ndarray) -> np.ndarray:
    """ITU-T G.711, table 2: what 16-bit samples are after 14-bit mu-law."""
    biased = np.minimum(np.abs(samples) // 4 + 33, 8191)
    width = 2 ** (np.floor(np.log2(biased)).astype(int) - 4)
    return np.sign(samples) * 4 * (biased // width * width + width // 2 - 33)


def a_law(samples: np.ndarray) -> np.ndarray:
    """ITU-T G.711, table 1: what 16-bit samples are after 13-bit A-law."""
    size = np.minimum(np.abs(samples), 2**15 - 1)
    width = 16 * 2 ** np.maximum(np.floor(np.log2(np.maximum(size, 1))).astype(int) - 8, 0)
    return np.where(samples < 0, -1, 1) * (size // width * width + width // 2)


@pytest.mark.parametrize("kbps", CODECS["amr-nb"].qualities)
def test_amr_is_not_shifted(speech, kbps):
    needs("amr-nb")
    decoded = transcode(speech, "amr-nb", kbps)
    # Of a coder that keeps no waveform the course of the energy, over 10 ms, shows where it is.
    envelopes = []
    for waveform in (speech, decoded):
        energy = np.convolve(waveform.astype(np.float64) ** 2, np.ones(160), "same")
        envelopes.append(energy - energy.mean())
    correlation = np.correlate(envelopes[1], envelopes[0][400:-400])
    assert abs(int(correlation.argmax()) - 400) <= 16


@pytest.mark.parametrize(("name", "table"), [("mu-law", mu_law), ("a-law", a_law)])
def test_companding_is_that_of_the_standard(name, table):
    decoded = CODECS[name].code((ALL_16_BIT / 2**15).astype(np.float32), 64) * 2**15
    assert_array_equal(decoded, table(ALL_16_BIT))
    assert len(np.unique(decoded)) == {"mu-law": 255, "a-law": 256}[name]


@pytest.mark.parametrize(("name", "quality"), CODINGS)
@pytest.mark.parametrize("length", [32000, 5121, 400])
def test_length_and_position_stay(speech, name, quality, length):
    needs(name)
    clip = speech[1000 : 1000 + length]
    decoded = transcode(clip, name, quality)
    assert decoded.shape == clip.shape and decoded.dtype == np.float32
    assert not np.array_equal(decoded, clip)
    if name == "amr-nb":
        # It keeps no waveform: see below.
        return
    reach = min(200, length // 8)
    correlation = np.correlate(decoded, clip[reach:-reach])
    # At its lowest rate Opus goes down to 8 kHz inside, and takes out the delay of that to about a
    # sample.
    assert abs(int(correlation.argmax()) - reach) <= ((name, quality) == ("opus", 8))
    assert np.corrcoef(decoded, clip)[0, 1] > (0.6 if name == "opus" else 0.9)


@pytest.mark.parametrize(
    "name",
    # AMR keeps no waveform, at any rate.
    [name for name, codec in CODECS.items() if len(codec.qualities) > 1 and name != "amr-nb"],
)
def test_a_higher_rate_is_a_smaller_error(speech, name):
    needs(name)
    errors = [
        np.linalg.norm(transcode(speech, name, quality) - speech)
        for quality in CODECS[name].qualities
    ]
    assert errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 1.5


@pytest.mark.parametrize("name", CODECS)
def test_peaks_are_scaled_instead_of_clipped(speech, name):
    needs(name)
    quality = CODECS[name].qualities[-1]
    loud = transcode(40 * speech, name, quality)
    assert np.abs(40 * speech).max() > 10 and np.abs(loud).max() < 1.2
    if name == "amr-nb":
        # It keeps no waveform.
        return
    # Clipping would have made it another sound.
    assert np.corrcoef(loud, speech)[0, 1] > 0.95


@pytest.mark.parametrize("name", ["mu-law", "a-law", "gsm"])
def test_telephone_codecs_pass_no_more_than_4_khz(name):
    noise = 0.1 * np.random.default_rng(1).standard_normal(16000, np.float32)
    power = np.square(np.abs(np.fft.rfft(transcode(noise, name, 64))))
    assert power[4500:].sum() < 1e-3 * power[:3500].sum()


def test_a_recording_of_minutes_can_be_coded():
    length = 3_000_000
    decoded = transcode(np.sin(np.arange(length, dtype=np.float32) / 10), "vorbis", 0)
    assert len(decoded) == length


def test_every_codec_and_every_quality_is_drawn():
    rng = np.random.default_rng(0)
    names = ("gsm", "opus", "mp3")
    part = Coding(augmentation(codecs=names), Path())
    drawn = {part.draw(rng) for _ in range(500)}
    assert drawn == {coding for coding in CODINGS if coding[0] in names}


def test_what_ffmpeg_cannot_code_is_refused(monkeypatch):
    check_codecs([name for name in CODECS if CODECS[name].kind])
    monkeypatch.setattr("asdf.audio.augmentation.codecs.is_available", lambda name: False)
    with pytest.raises(UsageError) as caught:
        check_codecs(["opus", "g722"])
    assert str(caught.value) == (
        "augmentation.codecs names 'g722', for which PyAV's FFmpeg has no encoder. Leave it out."
    )
