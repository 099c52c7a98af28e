"""Hugging Face folders of audio language models, for `asdf.networks.AudioLanguageModel`.

Invariant: every layer of the files is a layer of the model, by transformers' current or earlier
names, and every layer of the model is in the files. No code in the files is executed, and a
tokenizer is the text of its tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.fitting import load_layers
from asdf.errors import AsdfError
from asdf.interchange import hugging_face
from asdf.interchange.named_weights import fetch_weights
from asdf.interchange.transformers_weights import (
    find_folder,
    find_renamings,
    read_architecture_text,
)
from asdf.networks.language_models.audio_language_model import AudioLanguageModel
from asdf.networks.language_models.words import check_tokenizer
from asdf.runs.log import LOG

TOKENIZER = "tokenizer.json"
# Known tokenizers have less than a fifth of it.
_MOST_BYTES = 2**26


def fill_language_model(network: AudioLanguageModel, weights: str) -> None:
    """Load the weights and the tokenizer of a folder, or of a repository on the hub.

    Raises:
        UsageError: the answers of the settings are not tokens of the model.
        AsdfError: there is no such folder, its files cannot be read, or they do not fit.
    """
    path = Path(fetch_weights(weights, (TOKENIZER,)))
    folder = find_folder(str(path))
    front_end = network.front_end
    if read_architecture_text(weights) != front_end.architecture_setting:
        raise AsdfError(
            f"weights {weights} have another configuration than the model was built with. Build it "
            "with asdf.interchange.build_pretrained(settings)."
        )
    # First, because an answer of two tokens should be detected before gigabytes are read.
    network.read_words(_read_tokenizer(folder / TOKENIZER))
    layers = _renamed(hugging_face.read_state(path), front_end.model)
    LOG.info("language model: %d layers from %s", len(layers), weights)
    load_layers(front_end.model, layers, weights)


def _read_tokenizer(path: Path) -> str:
    """Return the text of a tokenizer.

    Raises:
        AsdfError: there is none, or it is not a valid tokenizer.
    """
    if not path.is_file():
        raise AsdfError(
            f"{path} is missing, and the model's tokenizer is read from it. Write it with "
            "transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
        )
    if path.stat().st_size > _MOST_BYTES:
        raise AsdfError(f"{path} is too large for a {TOKENIZER}: {path.stat().st_size:,} bytes.")
    try:
        text = path.read_text(encoding="utf-8")
        check_tokenizer(text)
    except (OSError, ValueError) as error:
        raise AsdfError(f"{path} cannot be read: {error}.") from error
    return text


def _renamed(state: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Return the layers of files by the model's names."""
    names = model.state_dict().keys()
    renamings = find_renamings(model)
    layers = {}
    for full_name, tensor in state.items():
        name = full_name
        if name not in names:
            for renaming in renamings:
                name, _ = renaming.rename_source_key(name)
        layers[name] = tensor
    return layers
