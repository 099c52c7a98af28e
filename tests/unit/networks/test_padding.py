"""Padded recordings: an utterance's outputs and gradients are those that it has alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from asdf.errors import AsdfError, UsageError
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.build import build_network
from asdf.networks.front_ends.architectures import KNOWN
from asdf.ports import load
from asdf.settings import Sections
from asdf.settings.sections import BACK_ENDS
from tests.encoders import config_text

LENGTHS = (8000, 5300, 200, 7999)
TINY = "tiny"
WAVLM = replace(KNOWN[TINY], relative_positions=(32, 64)).to_text()
GROUP = replace(KNOWN[TINY], extractor_mode="group_norm").to_text()


def network_of(front_end=None, back_end="linear", masks=True, **front_end_settings):
    settings = Sections()
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.front_end.front_end_class = front_end
    settings.front_end.architecture = TINY
    settings.back_end.back_end_class = back_end
    for name, value in front_end_settings.items():
        setattr(settings.front_end, name, value)
    if front_end == "transformers":
        settings.front_end.architecture = config_text(settings.front_end.architecture)
    torch.manual_seed(0)
    network = build_network(settings).eval()
    network.masks_padding = masks
    return network


def padded_batch():
    noise = torch.Generator().manual_seed(1)
    waveforms_BT = torch.zeros(len(LENGTHS), max(LENGTHS))
    for row, length in enumerate(LENGTHS):
        waveforms_BT[row, :length] = 0.1 * torch.randn(length, generator=noise)
    return waveforms_BT, torch.tensor(LENGTHS)


def alone(network, waveforms_BT):
    outputs = [network(waveforms_BT[row : row + 1, :n]) for row, n in enumerate(LENGTHS)]
    return torch.cat([each[0] for each in outputs]), torch.cat([each[1] for each in outputs])


# The others need a configuration of transformers.
FRONT_ENDS_ALONE = [
    *("raw", "spectrogram", "filter_bank", "mfcc", "cqt", "sinc", "moments"),
    *("decibel_lfcc", "decibel_mfcc"),
]
# Of their published sizes.
LARGE = ("beats", "eat", "dasheng")
OF_TRANSFORMERS = ("wav2vec2-bert", "whisper", "parakeet_encoder", "audio-spectrogram-transformer")
MASKING = [
    name for name, path in BACK_ENDS.items() if load(path).of_padded is not BackEnd.of_padded
]
CASES = [
    *[(None, back_end, {}) for back_end in MASKING],
    (None, "linear", {"normalize_waveforms": True}),
    (None, "linear", {"layer": "weighted"}),
    (None, "linear", {"repeat_last_frame": True}),
    (None, "asp", {"architecture": WAVLM}),
    (None, "asp", {"architecture": GROUP}),
    ("log_mel", "asp", {}),
    ("lfcc", "mlp", {}),
    *[(name, "linear", {}) for name in FRONT_ENDS_ALONE],
    *[pytest.param(name, "linear", {}, marks=pytest.mark.slow) for name in LARGE],
    *[("transformers", "linear", {"architecture": name}) for name in OF_TRANSFORMERS],
]


@pytest.mark.parametrize("front_end, back_end, settings", CASES)
def test_outputs_are_those_of_each_recording_alone(front_end, back_end, settings):
    network = network_of(front_end, back_end, **settings)
    waveforms_BT, lengths = padded_batch()
    with torch.no_grad():
        expected = alone(network, waveforms_BT)
        embeddings_BE, logits_B2 = network(waveforms_BT, lengths=lengths)
    torch.testing.assert_close(embeddings_BE, expected[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits_B2, expected[1], rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_each_recording_alone():
    network = network_of(back_end="asp").train()
    waveforms_BT, lengths = padded_batch()
    gradients = []
    for inputs in ({"lengths": lengths}, {}):
        network.zero_grad()
        if inputs:
            network(waveforms_BT, **inputs)[1].square().sum().backward()
        else:
            alone(network, waveforms_BT)[1].square().sum().backward()
        parameters = network.named_parameters()
        gradients.append({name: p.grad.clone() for name, p in parameters if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    # The gradient of the keys' biases is 0 but for rounding.
    scale = max(float(value.abs().max()) for value in gradients[1].values())
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-3, atol=1e-6 * scale)


def test_without_masks_padding_is_silence_behind_normalised_recordings():
    network = network_of(masks=False, normalize_waveforms=True)
    plain = network_of()
    plain.load_state_dict(network.state_dict())
    waveforms_BT, lengths = padded_batch()
    silent_BT = torch.zeros_like(waveforms_BT)
    for row, count in enumerate(LENGTHS):
        recording = waveforms_BT[row, :count]
        if count < plain.shortest_input:
            times = plain.shortest_input // count + 1
            recording = recording.repeat(times)[: plain.shortest_input]
        normalised = torch.nn.functional.layer_norm(recording, recording.shape)
        silent_BT[row, : len(recording)] = normalised
    with torch.no_grad():
        expected = plain(silent_BT)[1]
        masked = network_of(normalize_waveforms=True)
        masked.load_state_dict(network.state_dict())
        given = network(waveforms_BT, lengths=lengths)[1]
        other = masked(waveforms_BT, lengths=lengths)[1]
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(given[1:3], other[1:3], atol=1e-4)


def test_other_frames_than_a_front_end_says_are_refused():
    network = network_of("log_mel")
    network.front_end.frames = lambda samples: 3
    waveforms_BT, lengths = padded_batch()
    with pytest.raises(AsdfError, match=r"gives \d+ frames of 8000 samples, but its frames"):
        network(waveforms_BT, lengths=lengths)


def test_a_back_end_that_masks_nothing_says_so():
    network = network_of(back_end="aasist_l")
    waveforms_BT, lengths = padded_batch()
    with pytest.raises(
        UsageError,
        match=r"AASISTLBackEnd.* does not mask padding.*\(linear, mhfa, wedefense_mhfa, mlp, asp\)",
    ):
        network(waveforms_BT, lengths=lengths)
