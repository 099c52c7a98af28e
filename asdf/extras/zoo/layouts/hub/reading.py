"""Detection of the hub layout of a detector at a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asdf.checkpoint.fitting import describe_layers
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.hub.classifier_folder import (
    CLASSIFIERS,
    describe_folder,
    head_size,
    open_classifier,
)
from asdf.extras.zoo.layouts.hub.classifier_reading import Recognised, read_classifier
from asdf.extras.zoo.layouts.published_files import is_folder_of_others, is_known, unwrapped
from asdf.interchange.hugging_face import WEIGHTS, folder_of, read_state


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
