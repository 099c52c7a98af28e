"""Values of `front_end.weights`: 'random', a bundle of torchaudio, or a file or folder.

Names on the hub are handled by `asdf.hub`.
"""

from __future__ import annotations

import re
from pathlib import Path

BUNDLE = "torchaudio:"
RANDOM = "random"
"""Random numbers even where the architecture is that of a pretrained encoder."""

_CHECKPOINTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".json")
# torchaudio has a bundle of each of these sizes.
_PUBLISHED = re.compile(r"(wav2vec2|hubert|wavlm)_\w+", re.ASCII)
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


def missing_weights(path: Path) -> str:
    """Return advice for a `front_end.weights` whose `path` does not exist.

    The usual reason is a name of a model on the Hugging Face hub, such as
    facebook/wav2vec2-xls-r-300m.
    """
    reason = f"there is no file {path}: check front_end.weights."
    name = f"{path.parent.name}/{path.name}"
    # Such a path means a missing file, not the name of a model.
    if path.suffix in _CHECKPOINTS or path.parent.exists() or not _HUB_NAME.fullmatch(name):
        return reason
    return (
        f"{reason} {name} looks like the name of a model on the Hugging Face hub: if it is, set "
        f"front_end.weights='hub:{name}', which is downloaded once."
    )


def pretrained_weights(front_end_class: str | None, architecture: str) -> str | None:
    """Return weights of a published encoder; None if the architecture is not one's."""
    if front_end_class in (None, "wav2vec2", "asdf.networks.Wav2Vec2FrontEnd"):
        return f"{BUNDLE}{architecture.upper()}" if _PUBLISHED.fullmatch(architecture) else None
    # Of transformers: a repository, whose config.json alone says nothing of its weights.
    is_repository = "/" in architecture and not architecture.lstrip().startswith("{")
    return architecture if is_repository else None
