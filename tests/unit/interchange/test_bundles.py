"""torchaudio's bundles: fetched by the real code, here from a server on this machine."""

from __future__ import annotations

import io
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
import torchaudio
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.errors import AsdfError, UsageError
from asdf.interchange import build_front_end, front_end_weights
from asdf.interchange.front_end_weights import bundle_architecture, download_bundle
from asdf.networks.front_ends.architectures import KNOWN, stem
from asdf.settings.sections import FrontEnd


class Handler(SimpleHTTPRequestHandler):
    """Answers with the file in the folder, or with the bytes in `server.answers`."""

    def log_message(self, *args):
        self.server.requests.append(self.path)

    def do_GET(self):
        if not self.server.answers:
            super().do_GET()
            return
        body, announced = self.server.answers.pop(0)
        self.send_response(200)
        self.send_header("Content-Length", str(announced or len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of an empty folder, where bundles are looked for; torch's cache is empty, too."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.folder, server.requests, server.answers = folder, [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(front_end_weights, "BASE_URL", f"http://127.0.0.1:{server.server_port}/")
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
    bundle = Wav2Vec2Bundle(
        "small_bundle.pth", sizes, 16000, _normalize_waveform=True, _model_type=kind
    )
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
        model = build_front_end(FrontEnd(weights="torchaudio:SMALL_BUNDLE")).eval()
        assert (model.architecture.dimension, model.architecture.layers) == (64, 2)
        with torch.no_grad():
            torch.testing.assert_close(model(waveforms), original(waveforms)[0], atol=1e-5, rtol=0)


def test_a_bundle_that_cannot_be_fetched_is_reported_and_leaves_no_file(server, bundle):
    with pytest.raises(
        AsdfError,
        match=r"cannot download front_end.weights = 'torchaudio:SMALL_BUNDLE' from http.*404",
    ):
        download_bundle("SMALL_BUNDLE")
    assert not list((server.folder.parent / "cache").rglob("small_bundle*"))


def test_an_unreachable_server_is_reported(server, bundle, monkeypatch):
    monkeypatch.setattr(front_end_weights, "BASE_URL", "http://127.0.0.1:1/")
    with pytest.raises(AsdfError, match="run the following where there is"):
        download_bundle("SMALL_BUNDLE")


def test_a_server_that_stops_sending_is_reported(bundle, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setattr(front_end_weights, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(
            front_end_weights, "BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/"
        )
        with pytest.raises(AsdfError, match="timed out"):
            download_bundle("SMALL_BUNDLE")
    assert socket.getdefaulttimeout() is None


def weights_of(bundle: Wav2Vec2Bundle) -> bytes:
    """The bundle's file, with random weights."""
    made = io.BytesIO()
    torch.save(torchaudio.models.wav2vec2_model(**bundle._params).state_dict(), made)
    return made.getvalue()


def cache_of(server) -> Path:
    return server.folder.parent / "cache" / "hub" / "checkpoints"


def cached_files(server) -> list[str]:
    return sorted(path.name for path in cache_of(server).iterdir() if path.suffix != ".lock")


def test_what_killed_downloads_left_is_removed(server, bundle):
    (server.folder / "small_bundle.pth").write_bytes(weights_of(bundle))
    for name in ("small_bundle", "other"):
        left = cache_of(server) / f".{name}.pth.x1.part"
        left.mkdir(parents=True)
        (left / "file.pth").write_bytes(b"half")
    download_bundle("SMALL_BUNDLE")
    assert cached_files(server) == [".other.pth.x1.part", "small_bundle.pth"]


def other_weights() -> bytes:
    made = io.BytesIO()
    torch.save({"weight": torch.ones(1000)}, made)
    return made.getvalue()


def flipped(whole: bytes) -> bytes:
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]


@pytest.mark.slow_but("flipped", "cut")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda whole: (whole[:1000], len(whole)), "the server sent something other"),
        (lambda whole: (b"\n<!DOCTYPE html>log in", 0), "it is a web page"),
        (
            lambda whole: (other_weights(), 0),
            r"its layers are not the bundle's: \d+ missing from the file: ",
        ),
        (lambda whole: (flipped(whole), 0), r"is corrupt \(CRC-32\)"),
        (lambda whole: (b"", 0), "the server sent something other than this network"),
    ],
    ids=["cut", "page", "other", "flipped", "empty"],
)
def test_what_is_not_the_network_does_not_enter_the_cache(answer, said, server, bundle):
    whole = weights_of(bundle)
    server.answers.append(answer(whole))
    with pytest.raises(AsdfError, match=f"cannot download front_end.weights = .*{said}"):
        download_bundle("SMALL_BUNDLE")
    assert cached_files(server) == []
    # The next start fetches it.
    (server.folder / "small_bundle.pth").write_bytes(whole)
    assert download_bundle("SMALL_BUNDLE").read_bytes() == whole


def test_a_damaged_download_is_named_and_fetched_again(server, bundle, caplog, monkeypatch):
    whole = weights_of(bundle)
    (server.folder / "small_bundle.pth").write_bytes(whole)
    path = download_bundle("SMALL_BUNDLE")
    path.write_bytes(flipped(whole))
    with monkeypatch.context() as unreachable:
        unreachable.setattr(front_end_weights, "BASE_URL", "http://127.0.0.1:1/")
        with pytest.raises(AsdfError, match="The file at that path is a damaged download"):
            download_bundle("SMALL_BUNDLE")
    assert path.read_bytes() == flipped(whole)
    with caplog.at_level("WARNING"):
        assert download_bundle("SMALL_BUNDLE").read_bytes() == whole
    assert (
        f"{path}, the download of torchaudio:SMALL_BUNDLE, is damaged and is downloaded again"
        in caplog.text
    )
    assert len(server.requests) == 2


def test_unknown_bundles_are_reported_before_anything_is_fetched(server):
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
