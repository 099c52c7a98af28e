"""A recording in blocks is the recording, and is decoded once."""

import numpy as np
import pytest
import soundfile

from asdf.audio import read_audio
from asdf.audio.reading import read_blocks
from asdf.audio.sample_rates import StreamResampler
from asdf.errors import AsdfError


def noise(samples, channels=1):
    shape = (samples,) if channels == 1 else (samples, channels)
    return np.random.default_rng(0).uniform(-0.5, 0.5, shape)


@pytest.mark.parametrize(
    ("name", "rate", "channels"),
    [
        ("a.wav", 16000, 1),
        ("a.flac", 44100, 2),
        ("a.ogg", 48000, 2),
        ("a.mp3", 22050, 1),
        ("a.wav", 7999, 1),
    ],
)
def test_the_blocks_joined_are_the_recording(tmp_path, name, rate, channels):
    soundfile.write(tmp_path / name, noise(2 * rate + 7, channels), rate)
    whole = read_audio(tmp_path / name)
    for samples in (1000, 16000, 10**6):
        parts = list(read_blocks(tmp_path / name, samples))
        assert {len(part) for part in parts[:-1]} <= {samples}
        # torch adds the taps of its filter in an order that depends on the length.
        atol = 0 if rate == 16000 else 5e-7
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=atol)


def test_each_frame_is_decoded_once(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.ogg", noise(80000), 44100)
    decoded, sought = [], []
    monkeypatch.setattr(soundfile.SoundFile, "seek", lambda *arguments: sought.append(arguments))
    read = soundfile.SoundFile.read

    def counted(file, frames=-1, **options):
        block = read(file, frames, **options)
        decoded.append(len(block))
        return block

    monkeypatch.setattr(soundfile.SoundFile, "read", counted)
    assert len(list(read_blocks(tmp_path / "a.ogg", 4000))) == 8
    assert (sum(decoded), sought) == (80000, [])


def test_no_more_than_a_block_is_held(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.wav", noise(300000), 44100)
    held = []
    join = StreamResampler._join

    def measured(resampler):
        joined = join(resampler)
        held.append(len(joined))
        return joined

    monkeypatch.setattr(StreamResampler, "_join", measured)
    assert sum(map(len, read_blocks(tmp_path / "a.wav", 1600))) == 108844
    assert max(held) < 1600 * 44100 / 16000 + 1000


def test_a_recording_that_is_cut_off_is_an_error_after_its_good_blocks(tmp_path):
    soundfile.write(tmp_path / "a.flac", noise(160000), 16000)
    content = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(content[: len(content) // 2])
    good = []
    with pytest.raises(AsdfError, match="cannot be decoded to its end"):
        good.extend(read_blocks(tmp_path / "a.flac", 16000))
    assert 2 <= len(good) <= 5


def test_numbers_that_are_none_are_an_error(tmp_path):
    samples = noise(40000)
    samples[30000] = np.nan
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    with pytest.raises(AsdfError, match="not finite"):
        list(read_blocks(tmp_path / "a.wav", 16000))
