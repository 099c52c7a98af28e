"""MP3 files that do not say how long they are."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from asdf.audio import audio_length, read_audio

SAMPLES = 20 * 16000


def write_mp3(path: Path, **options: str) -> None:
    """A tone of 20 s with an ID3v2 tag of FFmpeg's before it."""
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(SAMPLES) / 16000)
    with av.open(str(path), "w", format="mp3", options=options) as container:
        container.metadata["title"] = "a recording with a tag that takes some room"
        stream = container.add_stream("libmp3lame", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            tone[None].astype(np.float32), format="fltp", layout="mono"
        )
        frame.rate = 16000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)


@pytest.mark.parametrize("options", [{}, {"write_xing": "0"}])
def test_a_tag_is_no_sound(tmp_path, options):
    path = tmp_path / "tagged.mp3"
    write_mp3(path, **options)
    assert path.read_bytes()[:3] == b"ID3"
    waveform = read_audio(path)
    assert len(waveform) == audio_length(path)
    assert abs(len(waveform) - SAMPLES) < 4 * 576  # frames that the encoder adds at both ends
    middle = np.abs(np.fft.rfft(waveform[16000 : 17 * 16000]))
    assert middle.argmax() == 440 * 16
