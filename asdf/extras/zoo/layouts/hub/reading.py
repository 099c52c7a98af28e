"""Detection of the hub layout of a detector at a path.

Published layouts in any folder, and in the parts that training programs hold them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.checkpoint.base_weights import describe_layers
from asdf.checkpoint.network_file import FORMAT
from asdf.checkpoint.network_reading import CONFIG, MODEL_TYPE
from asdf.checkpoint.weights_file import read_json, state_dict_in, without_prefix
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.hub.classifier_folder import (
    CLASSIFIERS,
    Recognised,
    describe_folder,
    head_size,
    open_classifier,
    read_classifier,
)
from asdf.extras.zoo.layouts.name_maps.known import name_map_of
from asdf.extras.zoo.layouts.published import front_end_prefix
from asdf.extras.zoo.layouts.sizes import class_of_layers
from asdf.interchange.hugging_face import WEIGHTS, folder_of, read_state


def is_folder_of_others(path: Path) -> bool:
    """Whether a folder is not one that `export` of ASDF wrote."""
    config = path / CONFIG
    content = read_json(config) if config.is_file() else {}
    is_ours = content.get("format") == FORMAT or content.get("model_type") == MODEL_TYPE
    return path.is_dir() and not is_ours


def unwrapped(state: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the layers of a detector without the names of parts that programs hold it in.

    Such a part, `model.` of Lightning's, holds everything. Unknown layers keep their names.
    """
    bare = state
    while not is_known(bare):
        prefix = next(iter(bare), "").partition(".")[0] + "."
        inner = without_prefix(bare, prefix)
        if inner is None:
            return state
        bare = state_dict_in(inner, path)
    return bare


def is_known(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have the names of a published layout."""
    return bool(front_end_prefix(state) or name_map_of(state) or class_of_layers(state))


def read_hub_layout(
    path: Path, chosen: Mapping[str, Any], bona_fide: Sequence[str]
) -> Recognised | None:
    """Read a detector in a layout of the hub; return None for other layouts.

    Args:
        chosen, bona_fide: Settings and bona fide classes, as in `read_classifier`.

    Raises:
        UsageError: `bona_fide` is given for a file without classes, or contains unknown classes.
        AsdfError: it is a transformers folder that is not a detector; or as `read_classifier`.
    """
    folder = folder_of(path) if path.is_dir() or path.name in WEIGHTS else None
    if folder is not None and not is_folder_of_others(folder):
        folder = None
    classifier = None if folder is None else open_classifier(folder)
    # By its configuration, or else by its layers.
    if classifier is not None and (
        classifier.is_named or head_size(read_state(classifier.path), classifier.family) is not None
    ):
        return read_classifier(classifier, chosen, bona_fide)
    if bona_fide:
        raise UsageError(
            f"--bona-fide-class is for audio classifiers of transformers, but {path} is not one: "
            "its layout defines its outputs."
        )
    if folder is None or not path.is_dir():
        return None
    # The layers identify it, whatever its configuration says.
    state = read_state(path)
    if is_known(unwrapped(state, path)):
        return None
    known = ", ".join(CLASSIFIERS.values())
    raise AsdfError(
        f"{path} holds {describe_folder(path)}, which ASDF does not recognise as a detector: "
        f"{describe_layers(state)}. Of transformers it reads audio classifiers: {known}. If it is "
        f"an audio encoder, train a network on its features: front_end.weights={path}."
    )
