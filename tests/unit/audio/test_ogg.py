"""Ogg files that are whole, and files that lost their end: no decoder sees the difference."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from asdf.audio import audio_length, read_audio
from asdf.audio.pyav import decode
from asdf.audio.recording_sources import Source
from asdf.errors import AsdfError

CODECS = ("VORBIS", "OPUS")


def encoded(codec: str, samples: int = 160_000, seed: int = 0) -> bytes:
    """Noise of `samples` samples at 16 kHz as an Ogg file of several pages."""
    content = io.BytesIO()
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, samples)
    soundfile.write(content, noise, 16000, format="OGG", subtype=codec)
    return content.getvalue()


def pages(content: bytes) -> list[int]:
    """Where the pages begin."""
    starts, start = [], 0
    while start < len(content):
        starts.append(start)
        segments = content[start + 26]
        start += 27 + segments + sum(content[start + 27 : start + 27 + segments])
    return starts


@pytest.mark.parametrize("codec", CODECS)
def test_wherever_an_ogg_file_is_cut_it_is_refused(tmp_path, codec):
    content, path = encoded(codec), tmp_path / "a.ogg"
    path.write_bytes(content)
    assert audio_length(path) == len(read_audio(path)) == 160_000
    starts = pages(content)
    assert len(starts) > 5
    cuts = {start + more for start in starts[1:] for more in (-1, 0, 1, 3, 4, 20, 27, 60)}
    for cut in sorted(cuts | {len(content) - 1, len(content) - 5}):
        path.write_bytes(content[:cut])
        with pytest.raises(AsdfError) as caught:
            audio_length(path)
        assert str(path) in str(caught.value)
        with pytest.raises(AsdfError):
            read_audio(path, 0, 100)


def test_the_message_says_what_is_missing_and_what_to_do(tmp_path):
    content, path = encoded("VORBIS"), tmp_path / "a.ogg"
    path.write_bytes(content[: pages(content)[-1]])
    with pytest.raises(AsdfError) as caught:
        read_audio(path)
    assert str(caught.value) == (
        f"{path} cannot be decoded to its end (the page that ends the stream is missing), "
        "likely cut off or damaged by a copy. Copy or download it again, or take it off the "
        "list. If it was recorded from a stream "
        "that never ended, `ffmpeg -i OLD.ogg -c copy NEW.ogg` ends it."
    )


@pytest.mark.parametrize("behind", [b"TAG" + bytes(125), bytes(300_000), b"OGG is not OggS"])
def test_what_is_added_behind_the_last_page_does_not_matter(tmp_path, behind):
    path = tmp_path / "a.ogg"
    path.write_bytes(encoded("VORBIS") + behind)
    assert audio_length(path) == 160_000


@pytest.mark.parametrize("codec", CODECS)
def test_of_chained_streams_all_are_read(tmp_path, codec):
    """libsndfile reads the first, and says nothing of the others."""
    first = encoded(codec, 32_000)
    second = encoded(codec, 48_000, seed=1)
    path = tmp_path / "a.ogg"
    path.write_bytes(first + second)
    assert soundfile.info(path).frames == 32_000
    length = audio_length(path)
    assert 80_000 <= length < 80_600 and length == len(read_audio(path))
    path.write_bytes(first + second[:-1])
    with pytest.raises(AsdfError, match=r"the page that ends the stream is missing|is incomplete"):
        audio_length(path)


@pytest.mark.parametrize("codec", CODECS)
def test_in_a_tar(tmp_path, codec):
    content = encoded(codec)
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        for name, size in (("whole.ogg", len(content)), ("cut.ogg", len(content) - 1)):
            member = tarfile.TarInfo(f"set/{name}")
            member.size = size
            tar.addfile(member, io.BytesIO(content[:size]))
    assert audio_length(tmp_path / "set" / "whole.ogg") == 160_000
    with pytest.raises(AsdfError, match="its last page is incomplete"):
        audio_length(tmp_path / "set" / "cut.ogg")


@pytest.mark.parametrize(
    ("codec", "suffix"), [("libopus", "opus"), ("libopus", "ogg"), ("flac", "oga")]
)
def test_what_ffmpeg_writes_is_whole(tmp_path, codec, suffix):
    path = tmp_path / f"a.{suffix}"
    write_with_ffmpeg(path, codec, np.random.default_rng(0).uniform(-0.5, 0.5, 32_000))
    assert audio_length(path) == len(read_audio(path)) == 32_000
    content = path.read_bytes()
    for cut in (1, 30, len(content) // 2):
        path.write_bytes(content[:-cut])
        with pytest.raises(AsdfError):
            audio_length(path)


@pytest.mark.parametrize("codec", CODECS)
def test_ffmpeg_too_decodes_whole_files_only(tmp_path, codec):
    content, path = encoded(codec), tmp_path / "a.ogg"
    path.write_bytes(content)
    assert decode(Source.of(path)).cut_off == ""
    path.write_bytes(content[: pages(content)[-1]])
    assert decode(Source.of(path)).cut_off == "the page that ends the stream is missing"


def write_with_ffmpeg(
    path: Path, codec: str, samples: np.ndarray, first: int = 0, **options: str
) -> None:
    """Write `samples` (T,) at 16 kHz, mono, whose clock begins at sample `first`."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=16000)
        stream.layout = "mono"
        stream.codec_context.options = options
        whole = (samples[None, :] * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(whole, format="s16", layout="mono")
        frame.sample_rate = 16000
        frame.pts = first
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
