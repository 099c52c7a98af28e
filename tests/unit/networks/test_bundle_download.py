"""torchaudio's bundles: fetched by the real code, here from a server on this machine."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
import torchaudio
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.errors import AsdfError, UsageError
from asdf.networks import Wav2Vec2FrontEnd, download
from asdf.networks.architectures import KNOWN, stem
from asdf.networks.download import bundle_architecture, download_bundle
from asdf.settings.sections import FrontEnd


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.requests.append(self.path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of an empty folder, where the bundles are looked for; torch's cache is empty, too."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.folder, server.requests = folder, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(download, "BASE_URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    yield server
    server.shutdown()
    server.server_close()


def small(monkeypatch, like: str) -> Wav2Vec2Bundle:
    """A bundle as `like`, but small enough to be served."""
    sizes = dict(getattr(torchaudio.pipelines, like)._params)
    sizes.update(
        extractor_conv_layer_config=list(stem(32)),
        encoder_embed_dim=64,
        encoder_pos_conv_kernel=32,
        encoder_pos_conv_groups=4,
        encoder_num_layers=2,
        encoder_num_heads=4,
        encoder_ff_interm_features=128,
    )
    kind = getattr(torchaudio.pipelines, like)._model_type
    bundle = Wav2Vec2Bundle("small_bundle.pth", sizes, 16000, _normalize_waveform=True, _model_type=kind)
    monkeypatch.setattr(torchaudio.pipelines, "SMALL_BUNDLE", bundle, raising=False)
    return bundle


@pytest.fixture
def bundle(monkeypatch):
    return small(monkeypatch, "WAV2VEC2_XLSR_300M")


def test_a_bundle_is_fetched_once_and_loaded(server, bundle, waveforms):
    check(server, bundle, waveforms, torchaudio.models.wav2vec2_model)
    assert server.requests == ["/small_bundle.pth"]


@pytest.mark.parametrize("like", ["WAVLM_BASE", "WAVLM_LARGE"])
def test_wavlms_bundles_are_loaded(like, server, monkeypatch, waveforms):
    check(server, small(monkeypatch, like), waveforms, torchaudio.models.wavlm_model)


def check(server, bundle, waveforms, make):
    torch.manual_seed(0)
    original = make(**bundle._params).eval()
    torch.save(original.state_dict(), server.folder / "small_bundle.pth")
    for _ in range(2):
        model = Wav2Vec2FrontEnd(FrontEnd(weights="torchaudio:SMALL_BUNDLE")).eval()
        assert (model.architecture.dimension, model.architecture.layers) == (64, 2)
        with torch.no_grad():
            torch.testing.assert_close(model(waveforms), original(waveforms)[0], atol=1e-5, rtol=0)


def test_a_bundle_that_cannot_be_fetched_is_told_and_leaves_no_file(server, bundle):
    with pytest.raises(AsdfError, match=r"cannot fetch front_end.weights = 'torchaudio:SMALL_BUNDLE' from http.*404"):
        download_bundle("SMALL_BUNDLE")
    assert not list((server.folder.parent / "cache").rglob("small_bundle*"))


def test_an_unreachable_server_is_told(server, bundle, monkeypatch):
    monkeypatch.setattr(download, "BASE_URL", "http://127.0.0.1:1/")
    with pytest.raises(AsdfError, match="run the following where there is one"):
        download_bundle("SMALL_BUNDLE")


def test_unknown_bundles_are_told_before_anything_is_fetched(server):
    with pytest.raises(UsageError, match="Did you mean 'torchaudio:WAV2VEC2_XLSR_300M'"):
        download_bundle("WAV2VEC2_XLSR300M")
    with pytest.raises(UsageError, match="'torchaudio:HDEMUCS_HIGH_MUSDB' is not known"):
        bundle_architecture("HDEMUCS_HIGH_MUSDB")
    assert server.requests == []


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("WAV2VEC2_BASE", "wav2vec2_base"),
        ("WAV2VEC2_LARGE", "wav2vec2_large"),
        ("WAV2VEC2_LARGE_LV60K", "wav2vec2_large_lv60k"),
        ("WAV2VEC2_XLSR_300M", "wav2vec2_xlsr_300m"),
        ("WAV2VEC2_XLSR_1B", "wav2vec2_xlsr_1b"),
        ("WAV2VEC2_XLSR_2B", "wav2vec2_xlsr_2b"),
        ("HUBERT_BASE", "hubert_base"),
        ("HUBERT_LARGE", "hubert_large"),
        ("HUBERT_XLARGE", "hubert_xlarge"),
        ("WAVLM_BASE", "wavlm_base"),
        ("WAVLM_BASE_PLUS", "wavlm_base"),
        ("WAVLM_LARGE", "wavlm_large"),
    ],
)
def test_bundles_are_of_the_known_architectures(name, architecture):
    assert bundle_architecture(name) == KNOWN[architecture]
