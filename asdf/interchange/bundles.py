"""The pretrained networks that torchaudio publishes, downloaded once to torch's own cache.

Invariant: the cache holds only complete networks. torchaudio publishes no checksums, so a file
counts if the checksums of its records are correct and it has the bundle's layers with their shapes;
a cached one is checked at each use.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torchaudio
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.checkpoint.base_weights import compare_layers
from asdf.checkpoint.weights_file import read_weights_file, state_dict_in
from asdf.errors import AsdfError, UsageError
from asdf.interchange.fairseq import torchaudio_names
from asdf.networks.front_ends.architectures import Architecture
from asdf.runs.files import one_at_a_time
from asdf.runs.log import LOG
from asdf.text import did_you_mean

BASE_URL = "https://download.pytorch.org/torchaudio/models/"
# Of an idle connection; a whole download takes longer.
TIMEOUT_S = 60
_PART = ".part"


def download_bundle(name: str) -> Path:
    """Return the path of the bundle `torchaudio.pipelines.NAME` in torch's cache.

    It is downloaded if it is missing there, or damaged.

    Raises:
        UsageError: there is no such bundle.
        AsdfError: it cannot be downloaded.
    """
    file = _find_bundle(name)._path
    url = BASE_URL + file
    path = Path(torch.hub.get_dir(), "checkpoints", Path(file).name)
    damage = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(path) as is_alone:
            # Of killed processes, each as large as the bundle.
            for left in path.parent.glob(f".{escape(path.name)}.*{_PART}") if is_alone else ():
                shutil.rmtree(left, ignore_errors=True)
            if path.is_file():
                damage = _find_fault(name, path)
                if not damage:
                    return path
                LOG.warning(
                    "%s, the download of torchaudio:%s, is damaged and is downloaded again: %s",
                    *(path, name, damage),
                )
            LOG.info("downloading torchaudio:%s from %s to %s", name, url, path)
            # In the same folder, because a rename is atomic only within a file system.
            with TemporaryDirectory(_PART, f".{path.name}.", path.parent) as folder:
                part = Path(folder, path.name)
                with _idle_at_most(TIMEOUT_S):
                    torch.hub.download_url_to_file(url, str(part), progress=sys.stderr.isatty())
                fault = _find_fault(name, part)
                if fault:
                    raise OSError(f"the server sent something other than this network: {fault}")
                part.replace(path)
    except (OSError, HTTPException) as error:
        damaged = " The file at that path is a damaged download." if damage else ""
        raise AsdfError(
            f"cannot download front_end.weights = 'torchaudio:{name}' from {url} to {path}: "
            f"{error}.{damaged} Compute nodes often have no internet access: run the following "
            "where there is, such as a login node, with the same home folder or TORCH_HOME: python "
            f"-c \"from asdf.interchange import download_bundle; download_bundle('{name}')\""
        ) from error
    return path


def bundle_architecture(name: str) -> Architecture:
    """Return the architecture of the bundle `torchaudio.pipelines.NAME`.

    Raises:
        UsageError: there is no such bundle.
    """
    bundle = _find_bundle(name)
    # torchaudio states these only in private attributes.
    sizes = bundle._params
    relative_positions = None
    if bundle._model_type == "WavLM":
        relative_positions = (sizes["encoder_num_buckets"], sizes["encoder_max_distance"])
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
        relative_positions=relative_positions,
    )


def bundle_normalizes(name: str) -> bool:
    """Whether the bundle's network expects waveforms of zero mean and unit variance.

    Raises:
        UsageError: there is no such bundle.
    """
    return bool(_find_bundle(name)._normalize_waveform)


def _find_bundle(name: str) -> Wav2Vec2Bundle:
    bundles = {}
    for key, value in vars(torchaudio.pipelines).items():
        if isinstance(value, Wav2Vec2Bundle):
            bundles[key] = value
    if name not in bundles:
        hint = did_you_mean(name, bundles, prefix="torchaudio:")
        raise UsageError(
            f"front_end.weights: 'torchaudio:{name}' is not known.{hint} Known are "
            f"{', '.join(sorted(bundles))}."
        )
    return bundles[name]


@contextmanager
def _idle_at_most(seconds: float) -> Iterator[None]:
    """End connections that send nothing for so long; torch.hub waits for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _find_fault(name: str, path: Path) -> str:
    """Return why a file is not the network of a bundle; '' if it is."""
    try:
        layers, _ = torchaudio_names(state_dict_in(read_weights_file(path), path))
    except AsdfError as error:
        return str(error).rstrip(".")
    # The names of layers do not suffice: another bundle's layers have the same names.
    shapes = bundle_architecture(name).shapes()
    # Additional layers, such as those of a fine-tuned head, do no harm.
    differences = compare_layers(shapes, layers, ignored=layers)
    return f"its layers are not the bundle's: {differences}" if differences else ""
