"""Containers that only FFmpeg reads: voice messages, lossless archives, FLACs from a pipe."""

from __future__ import annotations

import io
import struct

import av
import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio import audio_length, decoded_length, read_audio
from asdf.audio.reading import read_blocks
from asdf.audio.recording_sources import Limits, Source
from asdf.errors import AsdfError
from tests.unit.audio.test_pyav import encode, sine

LOSSLESS = [("a.caf", "alac"), ("a.wv", "wavpack"), ("a.tta", "tta")]


def whole_samples(seconds: float = 1.0) -> np.ndarray:
    return np.round(sine(16000, seconds) * 2**15) / 2**15


@pytest.mark.parametrize(("name", "codec"), LOSSLESS)
def test_lossless_containers(tmp_path, name, codec):
    path = encode(tmp_path / name, whole_samples(16384 / 16000)[None], 16000, codec)
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.read(path)
    # FFmpeg's encoders of WavPack and TTA take 8 bits unless told otherwise.
    step = 2**-7 if codec in ("wavpack", "tta") else 2**-15
    assert_allclose(read_audio(path), whole_samples(16384 / 16000), atol=step)
    assert_array_equal(read_audio(Source("message", path.read_bytes())), read_audio(path))


@pytest.mark.parametrize(
    ("name", "codec", "rate", "options"),
    [
        ("a.caf", "adpcm_ima_qt", 16000, {}),
        ("a.loas", "aac", 16000, {"format": "latm"}),
        ("a.aiff", "adpcm_ima_qt", 16000, {}),
        ("a.eac3", "eac3", 48000, {}),
    ],
)
def test_lossy_containers(tmp_path, name, codec, rate, options):
    path = encode(tmp_path / name, sine(rate)[None], rate, codec, **options)
    x = read_audio(path)
    assert 12000 < len(x) < 16000 * 1.15
    assert abs(int(np.abs(np.fft.rfft(x[4000:12000])).argmax()) - 220) <= 1


def test_opus_in_caf_as_phones_send_it(tmp_path):
    """FFmpeg does not write it, so the packets of a WebM are put into one."""
    webm = encode(tmp_path / "a.webm", sine(48000)[None], 48000, "libopus")
    with av.open(str(webm)) as container:
        packets = [bytes(packet) for packet in container.demux(audio=0) if packet.size]

    def chunk(name: bytes, content: bytes) -> bytes:
        return name + struct.pack(">q", len(content)) + content

    sizes = bytearray()
    for packet in packets:
        if len(packet) >= 128:
            sizes.append(0x80 | len(packet) >> 7)
        sizes.append(len(packet) & 0x7F)
    table = struct.pack(">qqii", len(packets), 960 * len(packets), 0, 0) + sizes
    path = tmp_path / "message.caf"
    path.write_bytes(
        b"caff\0\1\0\0"
        + chunk(b"desc", struct.pack(">d4sIIIII", 48000, b"opus", 0, 0, 960, 1, 0))
        + chunk(b"pakt", table)
        + chunk(b"data", bytes(4) + b"".join(packets))
    )
    x = read_audio(path)
    assert len(x) == 320 * len(packets)
    assert np.abs(np.fft.rfft(x[4000:12000])).argmax() == 220


@pytest.mark.parametrize(("name", "codec"), LOSSLESS)
def test_a_damaged_frame_is_not_replaced_by_silence(tmp_path, name, codec):
    rng = np.random.default_rng(0)
    path = encode(tmp_path / name, rng.uniform(-0.5, 0.5, (1, 64000)), 16000, codec)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(AsdfError):
        read_audio(path)
    if codec in ("wavpack", "tta"):
        middle = len(content) // 2
        path.write_bytes(content[:middle] + b"\x55" * 8 + content[middle + 8 :])
        with pytest.raises(AsdfError):
            read_audio(path)


@pytest.mark.parametrize("name", ["a.bin", "a.m4a"])
@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:2,\n{}\n#EXT-X-ENDLIST\n", "a playlist"),
        ("ffconcat version 1.0\nfile '{}'\n", "a list of files to join"),
    ],
)
def test_a_container_that_is_not_opened_is_named(tmp_path, name, content, named):
    secret = encode(tmp_path / "secret.aac", sine(16000)[None], 16000, "aac")
    (tmp_path / name).write_text(content.format(secret))
    with pytest.raises(AsdfError, match=f"ASDF does not open this container, {named}"):
        read_audio(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "codec", "named"), [("a.nut", "aac", "nut"), ("a.sox", "", "sox")]
)
def test_a_container_that_nobody_listed(tmp_path, name, codec, named):
    path = encode(tmp_path / name, sine(16000)[None], 16000, codec or "pcm_s32le")
    with pytest.raises(AsdfError, match=f"does not open this container, .?{named}"):
        read_audio(path)


def streamed_flac(samples: np.ndarray) -> bytes:
    """Return a FLAC as a pipe gets it: with neither length nor sum in its header."""
    content = io.BytesIO()
    soundfile.write(content, samples, 16000, format="FLAC")
    flac = bytearray(content.getvalue())
    flac[21] &= 0xF0
    flac[22:42] = bytes(20)
    return bytes(flac)


def test_a_flac_from_a_pipe(tmp_path):
    samples = np.random.default_rng(0).integers(-9000, 9000, 80180).astype(np.int16)
    path = tmp_path / "a.flac"
    path.write_bytes(streamed_flac(samples))
    assert soundfile.info(path).frames > 10**18
    expected = (samples / 2**15).astype(np.float32)
    assert audio_length(path) == decoded_length(path) == 80180
    assert_array_equal(read_audio(path), expected)
    assert_array_equal(read_audio(path, 50000, 700), expected[50000:50700])
    assert_array_equal(np.concatenate(list(read_blocks(path, 7000))), expected)
    assert_array_equal(read_audio(f"{path}#t=1,2"), expected[16000:32000])
    assert_array_equal(read_audio(Source("a", path.read_bytes())), expected)
    with pytest.raises(AsdfError, match="longer than 4 s"):
        read_audio(Source(str(path), limits=Limits(max_seconds=4)))


@pytest.mark.parametrize("where", ["damaged", "cut"])
def test_a_damaged_flac_from_a_pipe(tmp_path, where):
    samples = np.random.default_rng(0).integers(-9000, 9000, 80180).astype(np.int16)
    content = bytearray(streamed_flac(samples))
    middle = len(content) // 2
    if where == "cut":
        del content[middle:]
    else:
        content[middle] ^= 0x55
    path = tmp_path / "a.flac"
    path.write_bytes(content)
    with pytest.raises(AsdfError, match=r"a\.flac cannot be decoded to its end \(it is damaged"):
        read_audio(path)
