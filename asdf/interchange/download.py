"""The pretrained networks that torchaudio publishes, fetched once and then kept in torch's own cache.

Invariant: the cache holds whole networks only. torchaudio publishes no checksums, so a file enters
the cache when as many bytes came as the server announced, its records have their checksums, and it
holds the bundle's layers in their shapes. Its SHA-256 is then noted next to it, as `sha256sum`
writes and checks it, and compared whenever the file is used: about a second for XLS-R 300M.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from pickle import UnpicklingError
from tempfile import TemporaryDirectory

import torch
import torchaudio
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.errors import AsdfError, UsageError
from asdf.interchange.fairseq_names import torchaudio_names
from asdf.interchange.fitting import first_names
from asdf.interchange.receiving import NotTheFileError, receive
from asdf.interchange.state_dicts import state_dict_in
from asdf.interchange.weights_file import load_plain
from asdf.networks.architectures import Architecture
from asdf.runs.files import sha256_of, write_text
from asdf.text import did_you_mean

BASE_URL = "https://download.pytorch.org/torchaudio/models/"

_log = logging.getLogger(__name__)


def download_bundle(name: str) -> Path:
    """The file of the bundle `torchaudio.pipelines.NAME`, fetched if it is not in torch's cache, or damaged there.

    Raises:
        UsageError: there is no such bundle.
        AsdfError: it cannot be fetched.
    """
    bundle = _bundle(name)
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(bundle._path).name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(path) as is_alone:
            if is_alone:
                _remove_unfinished(path)
            damage = _damage(name, path) if path.is_file() else ""
            if damage:
                _log.warning(
                    "%s, the download of torchaudio:%s, is damaged and fetched again: %s",
                    path,
                    name,
                    damage,
                )
            if damage or not path.is_file():
                _fetch(name, BASE_URL + bundle._path, path)
    except OSError as error:  # of the disk, and urllib's own, which derive from it
        raise AsdfError(_advice(name, BASE_URL + bundle._path, path, error)) from error
    return path


def bundle_architecture(name: str) -> Architecture:
    """The architecture of the bundle `torchaudio.pipelines.NAME`.

    Raises:
        UsageError: there is no such bundle.
    """
    bundle = _bundle(name)
    sizes = bundle._params
    return Architecture(
        conv_layers=tuple(tuple(layer) for layer in sizes["extractor_conv_layer_config"]),
        extractor_mode=sizes["extractor_mode"],
        conv_bias=sizes["extractor_conv_bias"],
        dimension=sizes["encoder_embed_dim"],
        layers=sizes["encoder_num_layers"],
        heads=sizes["encoder_num_heads"],
        feed_forward=sizes["encoder_ff_interm_features"],
        layer_norm_first=sizes["encoder_layer_norm_first"],
        pos_conv_kernel=sizes["encoder_pos_conv_kernel"],
        pos_conv_groups=sizes["encoder_pos_conv_groups"],
        relative_positions=(sizes["encoder_num_buckets"], sizes["encoder_max_distance"])
        if bundle._model_type == "WavLM"
        else None,
    )


def bundle_normalizes(name: str) -> bool:
    """Whether the bundle's network expects waveforms of zero mean and unit variance.

    Raises:
        UsageError: there is no such bundle.
    """
    return bool(_bundle(name)._normalize_waveform)


def _bundle(name: str) -> Wav2Vec2Bundle:
    bundles = {
        key: value
        for key, value in vars(torchaudio.pipelines).items()
        if isinstance(value, Wav2Vec2Bundle)
    }
    if name not in bundles:
        hint = did_you_mean(name, bundles, prefix="torchaudio:")
        raise UsageError(
            f"front_end.weights: 'torchaudio:{name}' is not known.{hint} Known are "
            f"{', '.join(sorted(bundles))}."
        )
    return bundles[name]


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[bool]:
    """Of several processes that want a file one fetches it; the others wait and find it.

    File systems that know no such locks give an error: then each process does it for itself, and False is given.
    """
    try:
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError:
        # A cache that only others may write: what is in it can be used.
        yield False
        return
    with lock:
        is_alone = False
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_alone = True
        yield is_alone


def _remove_unfinished(path: Path) -> None:
    """Remove what killed processes left of the download: each may be as large as the file."""
    for folder in path.parent.glob(f".{escape(path.name)}.*.part"):
        shutil.rmtree(folder, ignore_errors=True)


def _fetch(name: str, url: str, path: Path) -> None:
    """Put the file in its place if it is the bundle's network, and its SHA-256 next to it."""
    _log.info("fetching torchaudio:%s from %s to %s", name, url, path)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as folder:
        part = Path(folder) / path.name
        receive(url, part)
        if fault := _fault(name, part):
            raise NotTheFileError(f"the server sent something else than this network: {fault}")
        # Without the note of an older file a kill right here leaves a file that is checked anew.
        _note(path).unlink(missing_ok=True)
        part.replace(path)
    _write_note(path)


def _damage(name: str, path: Path) -> str:
    """What is wrong with the cached file of a bundle; empty where nothing is."""
    note = _note(path)
    if note.is_file():
        same = note.read_text(encoding="utf-8", errors="replace").split()[:1] == [sha256_of(path)]
        return "" if same else f"its SHA-256 is not the one in {note.name}"
    fault = _fault(name, path)
    if not fault:
        # torchaudio itself, or an older ASDF, has fetched it. A cache of others cannot be written.
        with suppress(AsdfError):
            _write_note(path)
    return fault


def _fault(name: str, path: Path) -> str:
    """Why a file is not the network of a bundle; empty where it is."""
    try:
        content = load_plain(path, mapped=True)
        layers, _ = torchaudio_names(state_dict_in(content, path))
    except (UnpicklingError, ValueError, TypeError, AttributeError, AsdfError) as error:
        return str(error)
    shapes = bundle_architecture(name).shapes()
    wrong = [
        layer for layer in shapes if layer not in layers or layers[layer].shape != shapes[layer]
    ]
    return f"layers are missing or of another shape: {first_names(wrong)}" if wrong else ""


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _write_note(path: Path) -> None:
    write_text(_note(path), f"{sha256_of(path)}  {path.name}\n")


def _advice(name: str, url: str, path: Path, error: OSError) -> str:
    damaged = " What is at that path is a damaged download of it." if path.is_file() else ""
    return (
        f"cannot fetch front_end.weights = 'torchaudio:{name}' from {url} to {path}: {error}.{damaged} Compute nodes "
        "often have no way out to the net: run the following where there is one, such as a login node, with the same "
        f'home folder or TORCH_HOME: python -c "from asdf.interchange.download import download_bundle; '
        f"download_bundle('{name}')\""
    )
