"""Labels of the frames of training clips: those of the very samples that the clips are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio.augmentation import Chain, open_chain
from asdf.data.batches import Mixup
from asdf.data.datasets import ClipFrames, TrainingClips
from asdf.data.sampler_orders import add_vocoded_copies
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import RawBoost, Sections, SpeechActivity, Vocoding
from tests.augmentations import augmentation
from tests.recordings import write_recordings

HOP = 320
SIZE = 4000
LENGTHS = (16_000, 1500, 6000, 3000)
PARTS = ((0.3, 0.4), (0.85, 0.9))
COLUMN = ("0.3-0.4 0.85-0.9", "0.02-0.05", "-", "")


def marked(length: int, parts: list[tuple[float, float]]) -> np.ndarray:
    """A recording that says of itself where it is spoofed: by positive samples."""
    waveform = np.full(length, -0.5)
    for start_s, end_s in parts:
        waveform[round(start_s * 16000) : round(end_s * 16000)] = 0.5
    return waveform


@pytest.fixture
def utterances(tmp_path):
    parts = (PARTS, ((0.02, 0.05),), (), ((0.0, 1.0),))
    waveforms = [marked(length, part) for length, part in zip(LENGTHS, parts, strict=True)]
    trials = write_recordings(tmp_path, waveforms, labels=(0, 0, 1, 0))
    return replace(trials, columns={"spoofed_s": list(COLUMN)})


def sections(**network) -> Sections:
    settings = Sections()
    settings.network.train_clip_size = SIZE
    settings.recipe.seed = 3
    for name, value in network.items():
        setattr(settings.network, name, value)
    return settings


def frames_of(utterances, settings, chain=None) -> ClipFrames:
    return ClipFrames(utterances, np.array(LENGTHS), settings, HOP, chain)


def clips_of(utterances, settings, chain=None, mixup=None) -> TrainingClips:
    return TrainingClips(
        utterances,
        np.array(LENGTHS),
        SIZE,
        RawBoost(),
        SpeechActivity(),
        settings.recipe.seed,
        settings.network.clip_position,
        chain or Chain(),
        mixup=mixup,
    )


def labels_heard(clip: np.ndarray) -> list[int]:
    """The labels that the samples of a marked recording state."""
    labels = []
    for start in range(0, len(clip), HOP):
        labels.append(int(not (clip[start : start + HOP] > 0).any()))
    return labels


@pytest.mark.parametrize("position", ["random", "start"])
def test_labels_are_those_of_the_samples_in_the_clip(utterances, position):
    settings = sections(clip_position=position)
    frames = frames_of(utterances, settings)
    clips = clips_of(utterances, settings)
    keys = [(epoch, index) for epoch in range(12) for index in range(4)]
    expected = [labels_heard(clips[key].samples) for key in keys]
    assert frames.count == 13
    assert_array_equal(frames.labels(keys), expected)
    assert_array_equal(frames.of_clips(keys), np.min(expected, axis=1))
    if position == "random":
        # Some crops have a spoofed part and some have none.
        assert {int(min(labels)) for labels in expected[0::4]} == {0, 1}


def test_a_faster_clip_has_its_parts_earlier(utterances, tmp_path):
    settings = augmentation("speed", speed_min=1.5, speed_max=1.5, speed_probability=1.0)
    settings.network.train_clip_size = SIZE
    settings.network.clip_position = "start"
    settings.recipe.seed = 3
    chain = open_chain(settings, tmp_path)
    frames = frames_of(utterances, settings, chain)
    clip = clips_of(utterances, settings, chain)[0, 0].samples
    # 0.3 s of the recording is heard after 0.2 s, at sample 3200: the tenth frame.
    assert frames.labels([(0, 0)])[0].tolist() == [1] * 10 + [0] * 3
    assert labels_heard(clip)[10:] == [0] * 3
    assert max(clip[: 9 * HOP]) < 0


def test_drawn_speeds_are_those_of_the_clip(utterances, tmp_path):
    settings = augmentation("speed", speed_min=0.7, speed_max=1.4, speed_probability=0.8)
    settings.network.train_clip_size = SIZE
    settings.recipe.seed = 3
    chain = open_chain(settings, tmp_path)
    frames = frames_of(utterances, settings, chain)
    clips = clips_of(utterances, settings, chain)
    for epoch in range(20):
        clip = clips[epoch, 0].samples
        labels = frames.labels([(epoch, 0)])[0]
        for frame, label in enumerate(labels):
            part = clip[frame * HOP : (frame + 1) * HOP]
            # Resampling rings by a few samples on both sides of a boundary.
            if label == 1:
                assert (part[20:-20] < 0).all()
            else:
                assert (part > -0.3).any()


def test_a_partner_of_mixup_has_the_labels_of_its_own_clip(utterances):
    settings = sections()
    frames = frames_of(utterances, settings)
    mixup = Mixup(settings.recipe.seed, 1.0, 1.0, 4)
    plain = clips_of(utterances, settings)
    for epoch in range(5):
        key = (epoch, mixup.draw((epoch, 2))[0])
        assert frames.labels([key])[0].tolist() == labels_heard(plain[key].samples)


def test_a_copy_is_spoofed_from_beginning_to_end(utterances):
    vocoding = Vocoding(vocoders=("lpc",))
    copied, rows = add_vocoded_copies(utterances, vocoding, 0)
    lengths = np.array(LENGTHS)[rows]
    frames = ClipFrames(copied, lengths, sections(), HOP)
    assert copied.vocoder(4) == "lpc"
    assert frames.labels([(0, 2), (0, 4)]).min(axis=1).tolist() == [1, 0]
    assert frames.labels([(0, 4)]).max() == 0
    assert frames.count_partial() == 2


def test_what_shortens_clips_is_refused(utterances, tmp_path):
    settings = augmentation("silence")
    with pytest.raises(UsageError, match=r"silence .* shortens clips, and localisation"):
        frames_of(utterances, settings, open_chain(settings, tmp_path))


def test_a_malformed_part_is_refused(utterances):
    columns = {"spoofed_s": ["0.5-0.3", "", "-", ""]}
    with pytest.raises(AsdfError, match=r"trial '0\.wav': spoofed_s is '0\.5-0\.3'"):
        frames_of(replace(utterances, columns=columns), sections())
