"""EnCodec's degradation against transformers' own encoding and decoding, on a small model."""

import json

import numpy as np
import pytest
import torch

from asdf.errors import AsdfError
from asdf.extras.robustness.degradations import (
    DEGRADATIONS,
    Draw,
    Material,
    code_and_decode,
    encodec_missing,
)
from tests.extras.robustness.conftest import tone

transformers = pytest.importorskip("transformers")


def make_model(folder, rate: int = 16000, channels: int = 1):
    """Save a small random model; return it."""
    config = transformers.EncodecConfig(
        sampling_rate=rate,
        audio_channels=channels,
        target_bandwidths=[1.5, 3.0],
        hidden_size=8,
        num_filters=4,
        num_lstm_layers=1,
        codebook_size=16,
        codebook_dim=8,
    )
    torch.manual_seed(0)
    model = transformers.EncodecModel(config).eval()
    for layer in model.quantizer.layers:
        layer.codebook.embed.normal_()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("kbps", [1.5, 3.0])
def test_it_is_what_the_model_encodes_and_decodes(tmp_path, kbps) -> None:
    model = make_model(tmp_path)
    speech = tone()
    with torch.no_grad():
        encoded = model.encode(torch.from_numpy(speech)[None, None], bandwidth=kbps)
        decoded = model.decode(encoded.audio_codes, encoded.audio_scales).audio_values
    material = Material(encodec=str(tmp_path))
    draw = Draw(np.random.default_rng(0), material, "a.wav")
    degradation = DEGRADATIONS["encodec"]
    assert degradation.missing(material) == ""
    coded = degradation.apply(speech, kbps, draw)
    np.testing.assert_allclose(coded, decoded[0, 0, : len(speech)].numpy(), atol=1e-6)
    other = degradation.apply(speech, 4.5 - kbps, draw)
    assert np.abs(coded - other).max() > 1e-4


def test_a_model_of_24_khz_gives_16_khz_of_the_same_length(tmp_path) -> None:
    make_model(tmp_path, rate=24000)
    for samples in (15999, 7999):
        coded = code_and_decode(tone()[:samples], str(tmp_path), 3.0)
        assert coded.shape == (samples,) and coded.dtype == np.float32


def test_what_a_model_cannot_do_is_said(tmp_path) -> None:
    assert encodec_missing("").startswith("--encodec FOLDER names the model")
    assert encodec_missing(str(tmp_path)).startswith(f"there is no {tmp_path / 'config.json'}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "dac"}))
    assert "has the model_type 'dac', not 'encodec'" in encodec_missing(str(tmp_path))
    make_model(tmp_path / "mono")
    with pytest.raises(AsdfError, match=r"encodec=5: the model in .* has 1\.5, 3 kbit/s"):
        code_and_decode(tone(), str(tmp_path / "mono"), 5.0)
    make_model(tmp_path / "stereo", channels=2)
    with pytest.raises(AsdfError, match="takes 2 channels; recordings here have one"):
        code_and_decode(tone(), str(tmp_path / "stereo"), 3.0)
