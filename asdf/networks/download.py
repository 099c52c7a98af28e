"""The pretrained networks that torchaudio publishes, fetched once and then kept in torch's own cache.

Invariant: the cache holds whole files only, so that an interrupted download is begun again; a cached file is used
without a look at the net.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import torch
import torchaudio
from torchaudio.pipelines import Wav2Vec2Bundle

from asdf.errors import AsdfError, UsageError
from asdf.networks.architectures import Architecture

BASE_URL = "https://download.pytorch.org/torchaudio/models/"


def download_bundle(name: str) -> Path:
    """The file of the bundle `torchaudio.pipelines.NAME`, fetched if it is not in torch's cache.

    Raises:
        UsageError: there is no such bundle.
        AsdfError: it cannot be fetched.
    """
    bundle = _bundle(name)
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(bundle._path).name
    if path.is_file():
        return path
    url = BASE_URL + bundle._path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), progress=False)
    except OSError as error:  # of the disk, and urllib's own, which derive from it
        raise AsdfError(
            f"cannot fetch front_end.weights = 'torchaudio:{name}' from {url} to {path}: {error}. Compute nodes often "
            "have no way out to the net: run the following where there is one, such as a login node, with the same "
            f'home folder or TORCH_HOME: python -c "from asdf.networks.download import download_bundle; '
            f"download_bundle('{name}')\""
        ) from error
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
    bundles = {key: value for key, value in vars(torchaudio.pipelines).items() if isinstance(value, Wav2Vec2Bundle)}
    if name not in bundles:
        near = get_close_matches(name, bundles, n=1)
        hint = f" Did you mean 'torchaudio:{near[0]}'?" if near else ""
        raise UsageError(
            f"front_end.weights: 'torchaudio:{name}' is not known.{hint} Known are {', '.join(sorted(bundles))}."
        )
    return bundles[name]
