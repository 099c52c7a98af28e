"""Resolution of `front_end.weights`: a path, a torchaudio bundle, or a repository on the hub.

Invariant: one function turns a name on the hub into the path of its files. A network is built from
one commit: `pin_weights` adds it to the name before anything is read, and the network's files state
it.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from asdf.checkpoint.safetensors_network import CONFIG
from asdf.errors import AsdfError
from asdf.hub import Contents, download_folder, hub_name, look_up
from asdf.interchange.hugging_face import PREPROCESSOR, WEIGHTS
from asdf.settings.front_end_values import BUNDLE
from asdf.text import quoted_and_more

_CHECKPOINTS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_INDEX = ".index.json"
_SHOWN = 8


def names_path(weights: str) -> bool:
    """Whether `front_end.weights` is the path of a file or folder.

    Raises:
        UsageError: as `hub_name`.
    """
    return not weights.startswith(BUNDLE) and hub_name(weights) is None


def pin_weights(weights: str) -> str:
    """Return a name on the hub with its current commit; return other names unchanged.

    Raises:
        UsageError, AsdfError: as `asdf.hub.look_up`.
    """
    name = hub_name(weights)
    return weights if name is None else str(look_up(name).name)


def fetch_weights(weights: str) -> str:
    """Return the path of `front_end.weights`, downloading it if it is on the hub.

    Raises:
        UsageError, AsdfError: the repository does not exist on the hub, contains no weights, or
            cannot be downloaded.
    """
    name = hub_name(weights)
    if name is None:
        return weights
    contents = look_up(name)
    files = _choose_files(contents)
    # By the name that was looked up, which has the commit, so that all files are of one.
    folder = download_folder(contents.name, files)
    # A folder is read with its configuration, a single checkpoint by its own path.
    return str(folder if CONFIG in files else folder / files[0])


def fetch_configuration(weights: str) -> str:
    """Return the path of the folder with the configuration of the weights, without the weights.

    Raises:
        UsageError, AsdfError: as `fetch_weights`.
    """
    name = hub_name(weights)
    if name is None:
        return weights
    return str(download_folder(look_up(name).name, (CONFIG, PREPROCESSOR)))


def bytes_to_fetch(weights: str) -> int:
    """Return how many bytes `fetch_weights` would download, without downloading them.

    Raises:
        UsageError, AsdfError: as `fetch_weights`.
    """
    name = hub_name(weights)
    if name is None:
        return 0
    contents = look_up(name)
    return contents.bytes_missing(_choose_files(contents))


def _choose_files(contents: Contents) -> tuple[str, ...]:
    """Return the files of weights: a folder's with its configuration, or a single one.

    Raises:
        AsdfError: there are no weights, or several.
    """
    names = contents.sizes
    if CONFIG in names:
        for weights in WEIGHTS:
            if weights in names:
                documents = [each for each in (CONFIG, PREPROCESSOR) if each in names]
                # The files listed in an index, such as model-00001-of-00002.safetensors.
                parts = []
                if weights.endswith(_INDEX):
                    whole = PurePosixPath(weights.removesuffix(_INDEX))
                    part = rf"{re.escape(whole.stem)}-\d+-of-\d+{re.escape(whole.suffix)}"
                    parts = [name for name in names if re.fullmatch(part, name)]
                return (*documents, weights, *parts)
    checkpoints = [each for each in names if each.endswith(_CHECKPOINTS)]
    if len(checkpoints) == 1:
        return (checkpoints[0],)
    raise AsdfError(
        f"front_end.weights = '{contents.name}': the repository should hold {CONFIG} with one of "
        f"{', '.join(WEIGHTS)}, or one checkpoint. It holds "
        f"{quoted_and_more(sorted(names), _SHOWN)}. Download the files you need (hf download), "
        "then name their path."
    )
