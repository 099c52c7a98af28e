"""What a file states of itself, and its outline."""

import numpy as np
import pytest
import soundfile

from asdf.extras.forensic.case.examining import read_facts, read_outline


def test_facts_of_a_file(tmp_path):
    path = tmp_path / "a.flac"
    with soundfile.SoundFile(path, "w", 44100, 2, "PCM_24") as file:
        file.title = "a call"
        file.write(np.zeros((44100, 2)))
    facts = read_facts(str(path))
    assert (facts.format, facts.codec, facts.channels) == ("FLAC", "PCM_24", 2)
    assert facts.seconds == 1 and facts.size == path.stat().st_size
    assert facts.tags == {"title": "a call"}


def test_an_outline_is_the_extremes_of_equal_parts(tmp_path):
    path = tmp_path / "a.wav"
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 1010)
    soundfile.write(path, samples, 16000, "DOUBLE")
    outline = read_outline(str(path), points=100)
    assert outline.part_s == 11 / 16000
    expected = [samples[start : start + 11] for start in range(0, 1010, 11)]
    assert outline.low == pytest.approx([part.min() for part in expected], abs=1e-4)
    assert outline.high == pytest.approx([part.max() for part in expected], abs=1e-4)
