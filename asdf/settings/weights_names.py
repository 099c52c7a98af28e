"""Values of `front_end.weights`: a bundle of torchaudio, or a file or folder.

Names on the hub are handled by `asdf.hub`.
"""

from __future__ import annotations

import re
from pathlib import Path

BUNDLE = "torchaudio:"
_CHECKPOINTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".json")
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
