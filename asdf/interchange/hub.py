"""Networks as safetensors: one file, or a folder that Hugging Face's uploader takes, and back.

Invariant: what is written reads back as the same network, tensor by tensor and setting by setting, paths aside. A
folder's `config.json` says how to build the network; the weights are in `model.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.interchange.hugging_face import CONFIG, read_json
from asdf.interchange.plain_values import check_plain
from asdf.interchange.safetensors import read_safetensors, write_safetensors
from asdf.runs.files import write_text

WEIGHTS = "model.safetensors"
CARD = "README.md"
# What a network file keeps beside its weights when its training is left behind.
KEPT = ("format", "version", "network_class", "settings", "calibration", "evaluation", "averaged")
_ENTRY = "asdf"


def is_hub_folder(path: Path) -> bool:
    """Whether `path` is a folder with a configuration."""
    return path.is_dir() and (path / CONFIG).is_file()


def write_hub_folder(folder: Path, content: Mapping[str, Any], card: str) -> None:
    """Write the weights, the configuration and the model card of a network file's `content`.

    Raises:
        AsdfError: `folder` is a file, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise AsdfError(f"cannot write the folder {folder}: there is a file of that name.")
    write_safetensors(folder / WEIGHTS, content["model_state_dict"], {"format": "pt"})
    write_text(
        folder / CONFIG, json.dumps(description(content), indent=2, ensure_ascii=False) + "\n"
    )
    write_text(folder / CARD, card)


def read_hub_folder(folder: Path) -> dict[str, Any]:
    """The content of a network file, from a folder.

    Raises:
        AsdfError: the folder holds another program's network, or is incomplete or damaged.
    """
    config = read_json(folder / CONFIG)
    if config.get("format") != "asdf":
        raise AsdfError(
            f"{folder} holds no detector of ASDF, but a network of the type {config.get('model_type')!r}. If it is "
            "wav2vec2, hubert or wavlm, it is a front end: name the folder in front_end.weights."
        )
    return {**config, "model_state_dict": read_safetensors(folder / WEIGHTS)[0]}


def write_safetensors_network(path: Path, content: Mapping[str, Any]) -> None:
    """Write one file whose metadata say how to build the network.

    Raises:
        AsdfError: it cannot be written.
    """
    metadata = {"format": "pt", _ENTRY: json.dumps(description(content), ensure_ascii=False)}
    write_safetensors(path, content["model_state_dict"], metadata)


def read_safetensors_network(path: Path) -> dict[str, Any]:
    """The content of a network file; the weights alone, if the file's metadata do not say how to build the network.

    Raises:
        AsdfError: it cannot be read.
    """
    state, metadata = read_safetensors(path)
    try:
        told = json.loads(metadata.get(_ENTRY, "{}"))
        if not isinstance(told, dict):
            raise ValueError("it is not a dictionary in JSON")
        check_plain(told)
    except (ValueError, RecursionError) as error:
        raise AsdfError(f"the metadata of {path} are damaged, '{_ENTRY}': {error}.") from None
    return {**told, "model_state_dict": state}


def description(content: Mapping[str, Any]) -> dict[str, Any]:
    """How the network is built and what is known of it: plain values, without weights, training and paths."""
    told = {key: content[key] for key in KEPT if key in content}
    if isinstance(told.get("settings"), Mapping):
        # Where it was made is nobody's business: user names and folders of a cluster are in there.
        told["settings"] = {
            name: section for name, section in told["settings"].items() if name != "paths"
        }
    return told
