"""Front ends at other rates than 16 kHz, and what networks say of rates and channels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchaudio
from torch import nn

from asdf.errors import UsageError
from asdf.networks import DetectorNetwork, build_network
from asdf.networks.build import check_audio
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.interface import waveform_shape
from asdf.networks.ssl_detector import find_front_end_class
from asdf.settings import Sections
from asdf.settings.sections import Audio


def at_rate(rate: int, front_end: str = "log_mel", **spectrum: Any) -> Sections:
    settings = Sections()
    settings.audio.sample_rate = rate
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.front_end.front_end_class = front_end
    settings.back_end.back_end_class = "mlp"
    for name, value in spectrum.items():
        setattr(settings.spectrum, name, value)
    return settings


def test_a_log_mel_spectrogram_at_24_khz_is_torchaudio_s() -> None:
    settings = at_rate(24_000, pre_emphasis=0.0, window_shape="hann", log_floor=1e-6)
    front_end = build_network(settings).front_end
    sizes = front_end.sizes
    assert (sizes.window, sizes.hop, sizes.n_fft, sizes.high_hz) == (600, 240, 1024, 12_000)
    waveforms_BT = 0.1 * torch.randn(2, 24_000, generator=torch.Generator().manual_seed(0))
    reference = torchaudio.transforms.MelSpectrogram(
        24_000, n_fft=1024, win_length=600, hop_length=240, n_mels=80, center=False, mel_scale="htk"
    )
    # torchaudio puts a window into the middle of its transform; here it stands at the start.
    padded_BT = nn.functional.pad(waveforms_BT, (212, 212))
    expected_BLN = (reference(padded_BT) + 1e-6).log10().transpose(1, 2)
    given_BLN = front_end(waveforms_BT)
    frames = given_BLN.shape[1]
    assert frames == front_end.frames(24_000) == (24_000 - 600) // 240 + 1
    # The highest bin is not in a filter here, as in the baselines.
    torch.testing.assert_close(
        given_BLN[..., :-1], expected_BLN[:, :frames, :-1], rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(
    ("front_end", "rate", "sizes"),
    [
        ("log_mel", 8000, (200, 80, 256)),
        ("log_mel", 16_000, (400, 160, 512)),
        ("spectrogram", 44_100, (882, 441, 2048)),
        ("lfcc", 48_000, (960, 480, 4096)),
    ],
)
def test_usual_windows_are_times(front_end: str, rate: int, sizes: tuple[int, ...]) -> None:
    built = build_network(at_rate(rate, front_end)).front_end
    assert (built.sizes.window, built.sizes.hop, built.sizes.n_fft) == sizes


@pytest.mark.parametrize("front_end", ["lfcc", "mfcc", "cqt", "sinc", "filter_bank", "raw"])
@pytest.mark.parametrize("rate", [24_000, 44_100])
def test_a_tone_is_at_its_frequency_at_any_rate(front_end: str, rate: int) -> None:
    """What 16 kHz and another rate give of the same tone is about the same."""
    features = []
    for each in (16_000, rate):
        settings = at_rate(each, front_end)
        settings.spectrum.pre_emphasis = 0.0
        settings.spectrum.high_hz = 8000.0 if front_end != "cqt" else None
        times = torch.arange(each) / each
        tone_1T = 0.3 * torch.sin(2 * torch.pi * 1000 * times)[None]
        features.append(build_network(settings).front_end(tone_1T).mean(dim=1)[0])
    if front_end in ("cqt", "filter_bank"):
        # The highest value is that of the tone's band.
        assert features[0].argmax() == pytest.approx(int(features[1].argmax()), abs=1)
    else:
        assert features[0].shape == features[1].shape and features[1].isfinite().all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (at_rate(24_000, "wav2vec2"), "Wav2Vec2FrontEnd supports only 16,000 Hz"),
        (at_rate(8000, "whisper_lfcc"), "WhisperLFCCFrontEnd supports only 16,000 Hz"),
        (at_rate(44_100, "beats"), "BEATsFrontEnd supports only 16,000 Hz"),
        (at_rate(44_100, "moments"), "MomentsFrontEnd supports only 16,000 Hz"),
    ],
)
def test_what_is_of_16_khz_says_so(settings: Sections, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        build_network(settings)


def test_published_networks_are_of_16_khz_and_of_one_channel() -> None:
    settings = Sections(audio=Audio(24_000, "all"))
    for name in ("AASIST", "RawNet2", "RawGAT_ST", "SSL_AASIST"):
        settings.network.network_class = f"asdf.networks.{name}"
        with pytest.raises(UsageError) as caught:
            build_network(settings)
        text = str(caught.value)
        # Both in one message.
        assert "supports only 16,000 Hz" in text and "takes one channel, (batch, samples)" in text


class Stereo(DetectorNetwork):
    waveform_channels = 2

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.output = nn.Linear(2, 2)

    def forward(self, waveforms_BCT: torch.Tensor) -> Any:
        loudness_BC = waveforms_BCT.square().mean(dim=2)
        return loudness_BC, self.output(loudness_BC)


class AnyRate(nn.Module):
    def __init__(self, settings: Any) -> None:
        super().__init__()


def test_a_class_without_attributes_takes_any_rate_and_one_channel() -> None:
    check_audio(Audio(44_100), AnyRate, None)
    with pytest.raises(UsageError, match="AnyRate takes one channel"):
        check_audio(Audio(channels="all"), AnyRate, None)


def test_a_class_that_takes_channels_needs_all() -> None:
    check_audio(Audio(48_000, "all"), Stereo, None)
    network = Stereo(Sections())
    assert waveform_shape(network, 3, 800) == (3, 2, 800)
    assert waveform_shape(AnyRate(None), 3, 800) == (3, 800)
    with pytest.raises(UsageError, match=r"takes 2 channels. Set audio.channels = 'all'"):
        check_audio(Audio(channels=0), Stereo, None)


def test_an_encoder_of_24_khz_is_built_at_24_khz_alone() -> None:
    """As MERT's; a literal states the rate, and those of 16 kHz stay what they were."""
    tiny = KNOWN["tiny"]
    assert "sample_rate" not in Architecture(**{**vars(tiny), "layers": 1}).to_text()
    music = Architecture(**{**vars(tiny), "sample_rate": 24_000})
    assert Architecture.from_text(music.to_text()) == music
    settings = at_rate(24_000, "wav2vec2")
    settings.front_end.architecture = music.to_text()
    assert find_front_end_class(settings.front_end) is not None
    assert build_network(settings).front_end.sample_rate == 24_000
    settings.audio.sample_rate = 16_000
    with pytest.raises(UsageError, match="supports only 24,000 Hz"):
        build_network(settings)
