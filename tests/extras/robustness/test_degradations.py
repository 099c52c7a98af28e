"""Each degradation against a computation of its own."""

import io

import numpy as np
import pytest
import scipy.signal
import soundfile

from asdf.extras.robustness.degradations import DEGRADATIONS, Draw, Material, room_response
from tests.extras.robustness.conftest import tone

RATE = 16000
NOTHING = Material()


def noise(seconds: float = 2.0) -> np.ndarray:
    return (0.1 * np.random.default_rng(7).standard_normal(round(seconds * RATE))).astype(
        np.float32
    )


def degrade(
    name: str, waveform: np.ndarray, grade: float, material: Material = NOTHING
) -> np.ndarray:
    draw = Draw(np.random.default_rng(5), material, "itself.wav")
    return DEGRADATIONS[name].apply(waveform, grade, draw)


def power_db(waveform: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(waveform.astype(np.float64) ** 2)))


@pytest.mark.parametrize("name", ["white", "pink", "brown", "music"])
@pytest.mark.parametrize("snr", [20, 0, -5])
def test_the_ratio_of_a_mix_is_the_grade(name: str, snr: float) -> None:
    speech = tone()
    added = degrade(name, speech, snr).astype(np.float64) - speech
    assert power_db(speech) - power_db(added) == pytest.approx(snr, abs=0.01)


@pytest.mark.parametrize(("name", "slope"), [("white", 0), ("pink", -3.01), ("brown", -6.02)])
def test_noise_falls_by_its_decibels_per_octave(name: str, slope: float) -> None:
    quiet = tone(8.0) * 1e-3
    added = degrade(name, quiet, -40).astype(np.float64) - quiet
    hertz, density = scipy.signal.welch(added, RATE, nperseg=4096)
    band = (hertz > 100) & (hertz < 6000)
    fitted = np.polyfit(np.log2(hertz[band]), 10 * np.log10(density[band]), 1)[0]
    assert fitted == pytest.approx(slope, abs=0.3)


def test_babble_is_six_other_recordings_at_the_ratio(tmp_path) -> None:
    paths = []
    for number, hertz in enumerate((1000, 2000)):
        path = tmp_path / f"{number}.wav"
        wave = 0.1 * (1 + number) * np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE)
        soundfile.write(path, wave, RATE, subtype="FLOAT")
        paths.append(str(path))
    speech = noise(1.0)
    draw = Draw(np.random.default_rng(0), Material(speech=tuple(paths)), paths[0])
    added = DEGRADATIONS["babble"].apply(speech, 3, draw).astype(np.float64) - speech
    assert power_db(speech) - power_db(added) == pytest.approx(3, abs=0.01)
    spectrum = np.abs(np.fft.rfft(added))
    # Never the recording itself, which is the tone of 1,000 Hz.
    assert int(spectrum.argmax()) == 2000
    assert spectrum[1000] < 1e-3 * spectrum[2000]


@pytest.mark.parametrize("rt60", [0.3, 0.6, 1.2])
def test_a_room_dies_away_in_its_time(rt60: float) -> None:
    response = room_response(rt60, np.random.default_rng(2)).astype(np.float64)
    tail = response[1:]
    assert np.sum(tail**2) == pytest.approx(response[0] ** 2, rel=1e-6)
    # Schroeder 1965: the energy that is still to come, fitted from -5 to -25 dB.
    left = np.cumsum(tail[::-1] ** 2)[::-1]
    decay = 10 * np.log10(left / left[0])
    fitted = np.flatnonzero((decay < -5) & (decay > -25))
    slope = np.polyfit(fitted / RATE, decay[fitted], 1)[0]
    assert -60 / slope == pytest.approx(rt60, rel=0.08)


def test_speech_in_a_room_is_convolved_with_it() -> None:
    speech = noise(0.5)
    wet = degrade("room", speech, 0.3)
    response = room_response(0.3, np.random.default_rng(5))
    expected = scipy.signal.fftconvolve(speech.astype(np.float64), response)[: len(speech)]
    expected *= np.sqrt(np.sum(speech.astype(np.float64) ** 2) / np.sum(expected**2))
    np.testing.assert_allclose(wet, expected, atol=1e-6)


def band_db(waveform: np.ndarray, low: float, high: float) -> float:
    hertz, density = scipy.signal.welch(waveform.astype(np.float64), RATE, nperseg=2048)
    return float(10 * np.log10(density[(hertz > low) & (hertz < high)].mean()))


@pytest.mark.parametrize(
    ("name", "grade", "kept", "gone"),
    [
        ("low-pass", 3400, (100, 3200), (3600, 7900)),
        ("high-pass", 1000, (1200, 7900), (10, 850)),
        ("telephone-band", np.nan, (450, 3200), (3600, 7900)),
        ("telephone-band", np.nan, (450, 3200), (10, 180)),
        ("resampled", 8000, (100, 3300), (4700, 7900)),
        ("resampled", 4000, (100, 1600), (2300, 7900)),
    ],
)
def test_bands_end_where_they_should(name, grade, kept, gone) -> None:
    speech = noise()
    limited = degrade(name, speech, grade)
    assert len(limited) == len(speech)
    assert band_db(limited, *kept) == pytest.approx(band_db(speech, *kept), abs=0.5)
    assert band_db(limited, *gone) < band_db(speech, *gone) - 35


@pytest.mark.parametrize(("name", "kind"), [("butter-low", "low"), ("butter-high", "high")])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_butterworth_filters_are_those_of_scipy(name: str, kind: str, share: float) -> None:
    speech = noise(0.5)
    expected = scipy.signal.lfilter(*scipy.signal.butter(5, share, kind), speech.astype(np.float64))
    np.testing.assert_allclose(degrade(name, speech, share), expected, atol=2e-6)


@pytest.mark.parametrize("percent", [90, 110])
def test_speed_changes_length_and_pitch_together(percent: float) -> None:
    played = degrade("speed", tone(1.0, 200), percent)
    assert len(played) == -(-RATE * 100 // percent)
    assert pitch_of(played) == pytest.approx(200 * percent / 100, rel=0.01)


@pytest.mark.parametrize("speed", [0.7, 0.9, 1.3])
def test_tempo_changes_length_alone(speed: float) -> None:
    played = degrade("tempo", tone(1.0, 200), speed)
    assert len(played) == round(RATE / speed)
    assert pitch_of(played) == pytest.approx(200, rel=0.01)


@pytest.mark.parametrize("semitones", [-4, 2, 7])
def test_pitch_changes_pitch_alone(semitones: float) -> None:
    shifted = degrade("pitch", tone(1.0, 200), semitones)
    assert len(shifted) == RATE
    assert pitch_of(shifted) == pytest.approx(200 * 2 ** (semitones / 12), rel=0.01)


def pitch_of(waveform: np.ndarray) -> float:
    """Return the pitch in Hz by the peak of the autocorrelation, between 80 and 500 Hz."""
    middle = waveform[len(waveform) // 4 : -len(waveform) // 4].astype(np.float64)
    correlation = np.correlate(middle, middle, "full")[len(middle) - 1 :]
    lags = np.arange(RATE // 500, RATE // 80)
    peak = int(lags[correlation[lags].argmax()])
    left, top, right = correlation[peak - 1 : peak + 2]
    return RATE / (peak + (left - right) / (2 * (left - 2 * top + right)))


@pytest.mark.parametrize("share", [1, 5, 20])
def test_so_many_samples_are_clipped(share: float) -> None:
    speech = noise()
    clipped = degrade("clipping", speech, share)
    limit = np.abs(clipped).max()
    assert np.mean(np.abs(speech) > limit) == pytest.approx(share / 100, abs=1e-3)
    inside = np.abs(speech) < limit
    np.testing.assert_array_equal(clipped[inside], speech[inside])


def test_level_quantisation_echo_and_smoothing() -> None:
    speech = noise(0.5)
    assert power_db(degrade("gain", speech, -20)) == pytest.approx(power_db(speech) - 20, abs=1e-4)
    quantised = degrade("quantised", speech, 16)
    assert len(np.unique(quantised)) <= 16
    step = (float(speech.max()) - float(speech.min())) / 15
    assert np.abs(quantised - speech).max() <= step / 2 + 1e-6
    click = np.zeros(4000, np.float32)
    click[100] = 0.5
    echoed = degrade("echo", click, 0.4)
    assert np.flatnonzero(echoed).tolist() == [100, 100 + 1599]
    assert echoed[1699] == pytest.approx(0.4 * echoed[100])
    smoothed = degrade("smooth", click, 6)
    assert np.count_nonzero(smoothed) == 6 and smoothed.sum() == pytest.approx(0.5)


def test_cuts_are_parts_and_silence_is_removed() -> None:
    speech = noise(2.0)
    part = degrade("cut", speech, 0.5)
    starts = [i for i in range(len(speech) - 8000 + 1) if speech[i] == part[0]]
    assert any(np.array_equal(speech[i : i + 8000], part) for i in starts)
    assert len(degrade("cut", speech[:4000], 1)) == 4000
    silence = np.zeros(RATE // 2, np.float32)
    padded = np.concatenate([silence, speech, silence, speech, silence])
    trimmed = degrade("trimmed", padded, np.nan)
    assert len(trimmed) == 2 * len(speech) + len(silence)
    assert len(degrade("no-pauses", padded, np.nan)) == 2 * len(speech)


@pytest.mark.parametrize("name", ["mp3", "opus"])
def test_a_codec_is_at_its_bit_rate(name: str) -> None:
    """By another writer: a file of that bit rate, decoded, is as near to the speech as ours."""
    speech = tone(2.0)
    content = io.BytesIO()
    container, subtype = {"mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}[name]
    level = {"mp3": (160 - 32) / 152, "opus": 1 - (32 - 6) / 250}[name]
    soundfile.write(
        content, speech, RATE, format=container, subtype=subtype, compression_level=level,
        bitrate_mode="CONSTANT" if name == "mp3" else None,
    )  # fmt: skip
    assert 8 * len(content.getvalue()) / 2 / 1000 == pytest.approx(32, rel=0.25)
    coded = degrade(name, speech, 32)
    error = power_db(coded.astype(np.float64) - speech) - power_db(speech)
    assert len(coded) == len(speech) and -60 < error < -10


def test_a_chain_is_its_codecs_in_a_row() -> None:
    speech = tone(1.0)
    once = degrade("opus", speech, 16)
    np.testing.assert_array_equal(
        degrade("messenger-twice", speech, np.nan), degrade("opus", once, 16)
    )
    landline = degrade("landline", speech, np.nan)
    expected = degrade("a-law", degrade("telephone-band", speech, np.nan), 64)
    np.testing.assert_array_equal(landline, expected)


def test_a_replay_has_the_loudspeakers_band_and_the_microphones_noise() -> None:
    speech = noise()
    speech[RATE:] = 0
    replayed = degrade("replay", speech, 0.3)
    # Below 150 Hz the loudspeaker gives nothing; what is there is the microphone's noise.
    assert band_db(replayed[:RATE], 10, 90) < band_db(speech[:RATE], 10, 90) - 20
    # The room rings on where speech has ended.
    assert power_db(replayed[RATE : RATE + 800]) > power_db(replayed[-4000:]) + 10
    assert power_db(replayed[-4000:]) == pytest.approx(power_db(replayed) - 40, abs=4)


@pytest.mark.parametrize("name", sorted(DEGRADATIONS))
def test_every_degradation_stands_short_and_silent_recordings(name: str) -> None:
    row = DEGRADATIONS[name]
    if row.missing(Material()):
        pytest.skip(row.missing(Material()))
    for speech in (tone(0.03), np.zeros(1600, np.float32)):
        grade = row.grades[-1] if row.grades else np.nan
        degraded = degrade(name, speech, grade)
        assert len(degraded) and np.isfinite(degraded).all()
