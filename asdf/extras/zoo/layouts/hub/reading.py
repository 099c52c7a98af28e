"""Detection of the hub layout of a detector at a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asdf.checkpoint.fitting import describe_layers
from asdf.checkpoint.network_file import FORMAT
from asdf.checkpoint.safetensors_network import CONFIG
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.hub.classifier_folder import (
    CLASSIFIERS,
    ClassifierFolder,
    describe_folder,
    head_size,
    open_classifier,
)
from asdf.extras.zoo.layouts.hub.classifier_reading import ReadLayout, read_classifier
from asdf.extras.zoo.layouts.hub.df_arena import is_df_arena, read_df_arena
from asdf.extras.zoo.layouts.published_files import read_published
from asdf.interchange.hugging_face import WEIGHTS, folder_of, read_state


def read_hub_layout(
    path: Path, chosen: Mapping[str, Any], bona_fide: Sequence[str]
) -> ReadLayout | None:
    """Read a detector in a layout of the hub; return None for other layouts.

    Args:
        chosen, bona_fide: Settings and bona fide classes, as in `read_classifier`.

    Raises:
        UsageError: `bona_fide` is given for a file without classes, or contains unknown classes.
        AsdfError: it is a transformers folder that is not a detector; or as `read_classifier`.
    """
    folder = folder_of(path) if path.is_dir() or path.name in WEIGHTS else None
    if folder is not None and read_json(folder / CONFIG).get("format") != FORMAT:
        classifier = open_classifier(folder)
        if classifier is not None and _has_head(classifier):
            return read_classifier(classifier, chosen, bona_fide)
    _refuse_classes(path, bona_fide)
    if folder is None or not path.is_dir() or read_json(folder / CONFIG).get("format") == FORMAT:
        return None
    # The layers identify it, whatever its configuration says.
    if read_published(path) is not None:
        return None
    state = read_state(path)
    if is_df_arena(state):
        return read_df_arena(state, path, chosen)
    known = ", ".join(CLASSIFIERS.values())
    raise AsdfError(
        f"{path} holds {describe_folder(path)}, which ASDF does not recognise as a detector: "
        f"{describe_layers(state)}. Of transformers it reads audio classifiers: {known}. If it is "
        f"an audio encoder, train a network on its features: front_end.weights={path}."
    )


def _has_head(folder: ClassifierFolder) -> bool:
    """Whether a folder is a classifier, by its configuration or else by its layers."""
    if folder.is_named:
        return True
    return head_size(read_state(folder.path), folder.family) is not None


def _refuse_classes(path: Path, bona_fide: Sequence[str]) -> None:
    if bona_fide:
        raise UsageError(
            f"--bona-fide-class is for audio classifiers of transformers, but {path} is not one: "
            "its layout defines its outputs."
        )
