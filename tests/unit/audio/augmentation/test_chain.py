from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import read_audio
from asdf.audio.augmentation import Chain, open_chain, source_samples
from asdf.audio.augmentation.acoustics import mix, reverberate
from asdf.audio.augmentation.codecs import transcode
from asdf.audio.augmentation.filtering import at_speed
from asdf.errors import UsageError
from asdf.settings.sections import Sections
from asdf.settings.sections.recordings import AUGMENTATIONS
from tests.augmentations import augmentation

PARTS = tuple(AUGMENTATIONS)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    for folder, length in (("noises", 20000), ("rooms", 2000)):
        (tmp_path / folder).mkdir()
        for index in range(3):
            waveform = rng.uniform(-0.5, 0.5, length) * np.exp(-np.arange(length) / 3000)
            soundfile.write(tmp_path / folder / f"{index}.wav", waveform, 16000)
    return tmp_path


def section(*parts: str, probability: float = 1.0) -> Sections:
    made = augmentation(*parts, noise_folders=("noises",), reverberation_folders=("rooms",))
    for part in ("", "speed_", "noise_", "reverberation_", "codec_"):
        setattr(made.augmentation, f"{part}probability", probability)
    return made


def run(
    chain: Chain, speech: np.ndarray, rng: np.random.Generator, samples: int = 8000
) -> np.ndarray:
    percent = chain.draw_speed(rng)
    length = source_samples(samples, percent)
    crop = chain.fill(speech[:length], length, rng)
    return chain.apply(crop, percent, samples, rng)


def test_an_empty_chain_draws_nothing_and_changes_nothing(speech):
    rng, untouched = np.random.default_rng(0), np.random.default_rng(0)
    assert run(Chain(), speech, rng).base is speech
    assert_array_equal(run(Chain(), speech, rng), speech[:8000])
    assert rng.bit_generator.state == untouched.bit_generator.state
    assert open_chain(augmentation(noise_folders=("missing",)), Path("/nowhere")) == Chain()


def test_the_parts_are_done_in_the_order_of_the_chain(speech, base):
    settings = section("codec", "noise", "speed", "reverberation")
    chain = open_chain(settings, base)
    augmented = run(chain, speech, np.random.default_rng(7))

    codec, noise, speed, reverberation = chain.parts
    rng = np.random.default_rng(7)
    percent = speed.draw(rng)
    clip = speech[: source_samples(8000, percent)]
    rng.random()
    clip = transcode(clip, *codec.draw(rng))
    rng.random()
    clip = mix(clip, *noise.draw(len(clip), rng))
    clip = at_speed(clip, percent)[:8000]
    rng.random()
    assert_array_equal(augmented, reverberate(clip, reverberation.draw(rng)))
    assert percent != 100 and augmented.shape == (8000,) and augmented.dtype == np.float32


@pytest.mark.parametrize("part", [part for part in PARTS if part != "silence"])
def test_each_part_reaches_its_proportion_and_keeps_the_length(speech, base, part):
    settings = section(part, probability=0.4)
    settings.augmentation.codecs = ("mu-law",)
    chain, rng = open_chain(settings, base), np.random.default_rng(1)
    augmented = [run(chain, speech, rng, 2000) for _ in range(300)]
    assert all(clip.shape == (2000,) and clip.dtype == np.float32 for clip in augmented)
    changed = np.mean([not np.array_equal(clip, speech[:2000]) for clip in augmented])
    assert abs(changed - (0.38 if part == "speed" else 0.4)) < 0.08


def test_a_chain_reaches_another_process_whole(speech, base):
    chain = open_chain(section(*PARTS), base)
    again = pickle.loads(pickle.dumps(chain))
    _, noise, reverberation, *_ = again.parts
    assert len(noise.recordings) == len(reverberation.responses) == 3
    first = run(chain, speech, np.random.default_rng(3))
    assert_array_equal(run(again, speech, np.random.default_rng(3)), first)
    assert chain.describe() == (
        "speed, noise (3 recordings), reverberation (3 impulse responses), "
        "codec (mu-law, a-law, gsm, mp3, vorbis, opus), silence (up to 0.1 s), "
        "bandwidth (3400 to 7500 Hz), frequency_mask (2 up to 1000 Hz), time_mask (2 up to 0.2 s)"
    )
    assert read_audio(noise.recordings[0]).shape == (20000,)


def test_only_what_the_chain_names_is_looked_for(base):
    settings = section("speed", "reverberation")
    settings.augmentation.noise_folders = ("missing",)
    speed, reverberation = open_chain(settings, base).parts
    assert (speed.probability, speed.lowest, speed.highest) == (1.0, 0.9, 1.1)
    assert len(reverberation.responses) == 3
    settings.augmentation.chain = ("noise",)
    with pytest.raises(UsageError, match="does not exist"):
        open_chain(settings, base)


def test_a_clip_has_one_speed(base):
    with pytest.raises(UsageError, match=r"^augmentation\.chain names 'speed' twice"):
        open_chain(section("speed", "codec", "speed"), base)
    assert len(open_chain(section("codec", "codec"), base).parts) == 2
