"""Our vocoders: copies that are recognisable, of the same length and level, and not the voice."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio.vocoding import Vocoders, open_vocoders
from asdf.audio.vocoding.analysis import cut_for_vocoder, mel_filters
from asdf.audio.vocoding.classical import minimum_phases
from asdf.demo.voices import draw_speaker, speak
from asdf.settings.sections import VOCODERS, Sections

# Log-spectral distances in dB to the voice, measured on real speech, with a margin: 1.3, 5.8, 4.1
# and 3.8 at most. Two voices that are made or recorded alike are 11 dB and more apart.
BOUNDS_DB = {"griffin_lim": 2, "source_filter": 7.5, "lpc": 6, "phase": 5}
ANOTHER_VOICE_DB = 9


def vocoders(phase: str = "either") -> Vocoders:
    settings = Sections()
    settings.vocoding.vocoders = tuple(VOCODERS)
    settings.vocoding.phase = phase
    return open_vocoders(settings, None)


@pytest.fixture(scope="module")
def voices() -> list[np.ndarray]:
    """Three voices, at a level of -26 dB in 16 bits, as recordings have."""
    made = []
    for number in range(3):
        rng = np.random.default_rng(number)
        voice = speak(draw_speaker(rng), 1.5, rng)
        steps = np.rint(0.05 / voice.std() * voice * 2**15)
        made.append((steps / 2**15).astype(np.float32))
    return made


def log_spectral_distance(voice: np.ndarray, copy: np.ndarray) -> float:
    """Return the mean over frames of the distance in 40 mel bands, in dB."""
    filters = mel_filters(40, 257).T
    frames = len(voice) // 128 + 1
    levels = []
    for samples in (voice, copy):
        spectra = np.fft.rfft(cut_for_vocoder(samples.astype(float), frames))
        levels.append(np.abs(spectra) ** 2 @ filters)
    # Below, there is only what rounding has left.
    floor = 1e-4 * levels[0].mean()
    difference = 10 * np.log10((levels[0] + floor) / (levels[1] + floor))
    return float(np.sqrt((difference**2).mean(1)).mean())


@pytest.mark.parametrize("phase", ["minimum", "random"])
@pytest.mark.parametrize("name", VOCODERS)
def test_a_copy_is_recognisable_and_is_not_the_voice(voices, name, phase):
    for number, voice in enumerate(voices):
        copy = vocoders(phase).copy(name, voice, np.random.default_rng(number))
        assert copy.shape == voice.shape and copy.dtype == np.float32
        assert log_spectral_distance(voice, copy) < BOUNDS_DB[name]
        # The phases are others: the waveforms have little in common.
        assert abs(np.corrcoef(voice, copy)[0, 1]) < 0.5
        other = voices[number - 1][: len(voice)]
        assert log_spectral_distance(voice[: len(other)], other) > ANOTHER_VOICE_DB


def test_real_speech_is_recognisable_too(shared):
    folder = shared / "corpora" / "mini"
    lines = (folder / "train_list.txt").read_text().splitlines()
    bona_fide = [line[:-2] for line in lines if line.endswith(" 1")]
    for number, path in enumerate(bona_fide[::60]):
        speech, _ = soundfile.read(folder / path, dtype="float32", frames=32000)
        for name, bound_db in BOUNDS_DB.items():
            copy = vocoders().copy(name, speech, np.random.default_rng(number))
            assert log_spectral_distance(speech, copy) < bound_db


@pytest.mark.parametrize("name", VOCODERS)
def test_a_copy_has_the_level_and_the_bits_of_its_speech(voices, name):
    # Quiet and loud; a copy of loud speech may be clipped where its peaks are higher.
    for level in (0.002, 0.05):
        speech = (voices[0] * (level / voices[0].std())).astype(np.float32)
        copy = vocoders().copy(name, speech, np.random.default_rng(1))
        assert copy.std() == pytest.approx(speech.std(), rel=1e-3)
        assert_array_equal(copy * 2**15, np.rint(copy * 2**15))
    loud = vocoders().copy(name, voices[0] * 19, np.random.default_rng(1))
    assert loud.min() >= -1 and loud.max() < 1


@pytest.mark.parametrize("name", VOCODERS)
def test_a_copy_follows_from_the_speech_and_the_draws(voices, name):
    before = voices[0].copy()
    first = vocoders().copy(name, voices[0], np.random.default_rng(1))
    assert_array_equal(vocoders().copy(name, voices[0], np.random.default_rng(1)), first)
    assert not np.array_equal(vocoders().copy(name, voices[0], np.random.default_rng(2)), first)
    assert_array_equal(voices[0], before)


@pytest.mark.parametrize("samples", [1, 2, 100, 127, 128, 129, 400, 511, 2047, 2048, 4001])
@pytest.mark.parametrize("name", VOCODERS)
def test_any_length_will_do(voices, name, samples):
    for phase in ("minimum", "random"):
        speech = voices[0][3000 : 3000 + samples]
        copy = vocoders(phase).copy(name, speech, np.random.default_rng(1))
        assert copy.shape == (samples,) and np.isfinite(copy).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", VOCODERS)
@pytest.mark.parametrize("kind", ["silence", "constant", "click", "square", "half silent", "tone"])
def test_signals_that_are_no_speech_are_copied_too(name, kind):
    time = np.arange(6000)
    square = np.sign(np.sin(2 * np.pi * time / 100))
    signals = {
        "silence": np.zeros(6000),
        "constant": np.full(6000, 0.25),
        "click": 1.0 * (time == 3000),
        "square": square,
        "half silent": square * (time > 3000),
        "tone": 0.5 * np.sin(2 * np.pi * time / 16),
    }
    signal = signals[kind].astype(np.float32)
    for phase in ("minimum", "random"):
        copy = vocoders(phase).copy(name, signal, np.random.default_rng(1))
        assert copy.shape == signal.shape and np.isfinite(copy).all()
    if kind == "silence":
        assert_array_equal(copy, signal)


def test_minimum_phases_keep_the_period_and_move_the_energy_forward():
    # Pulses that grow and then end at once: reversed, a minimum phase's decay.
    grows = np.exp(np.arange(-60, 0) / 12)
    voice = np.zeros(8000)
    for start in range(100, 7800, 125):
        voice[start : start + 60] += grows
    voice -= voice.mean()
    copy = minimum_phases(voice / voice.std(), np.random.default_rng(1))
    middle = copy[2000:6000]
    correlation = np.correlate(middle, middle, "full")[len(middle) - 1 :]
    assert 80 + np.argmax(correlation[80:200]) == 125
    folded = (copy[2000 : 2000 + 31 * 125].reshape(31, 125) ** 2).mean(0)
    # The peak comes within 12 samples of a period's start; the voice's came 59 after its own.
    from_peak = np.roll(folded, -np.argmax(folded))
    assert from_peak[:40].sum() > 2 * from_peak[-40:].sum()


def test_random_phases_keep_the_magnitudes_on_average(voices):
    copies = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        copies.append(vocoders("random").copy("phase", voices[1], rng))
    # Their mean fades, as that of waves whose phases are independent.
    assert np.mean(copies, axis=0).std() < 0.4 * voices[1].std()
