"""Downloads of repositories on the hub, as folders in the hub library's own cache.

Invariant: a returned folder contains every wanted file of one commit, each verified with the hub's
digest. Only weights, configurations and texts are downloaded, never code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from asdf.errors import AsdfError
from asdf.hub.cache import CachedRepository, HubFile
from asdf.hub.fetching import fetch_large
from asdf.hub.hub_names import SUFFIXES, HubName
from asdf.hub.library import endpoint, explained, hub_library, is_unreachable, not_a_path
from asdf.runs.log import LOG
from asdf.text import quoted_and_more, shorten

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
TRAINING_CONFIG = "config.yaml"
WEIGHTS = "model.safetensors"
# Named as in transformers; the first existing file is read.
_OF_FOLDER = (WEIGHTS, "pytorch_model.bin")
# Without documents such as LICENSE: ASDF reads no other files.
_READ = (*SUFFIXES, ".json", ".yaml", ".md")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ANSWER_WITHIN_S = 30
_SHOWN = 8


@dataclass(frozen=True)
class Contents:
    """The files of a repository at one commit.

    Attributes:
        name: Repository, with the commit as its revision.
        sizes: Sizes of the files, in bytes.
        cached: Names of the files in the cache.
    """

    name: HubName
    sizes: Mapping[str, int]
    cached: frozenset[str]

    def bytes_missing(self, wanted: tuple[str, ...]) -> int:
        """Return how many bytes a download of these files would transfer."""
        return sum(self.sizes[name] for name in wanted if name not in self.cached)


def look_up(name: HubName) -> Contents:
    """Return the content of a repository, from the hub or, without a network, the cache.

    Nothing is downloaded. A commit in the cache needs no request.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: the repository or revision does not exist, or there is no response.
    """
    hub_library()
    cached = CachedRepository(name)
    with explained(name):
        commit, files = look_up_files(name, cached)
    folder = cached.snapshot(commit)
    present = frozenset(file_name for file_name in files if (folder / file_name).is_file())
    sizes = {file_name: file.size for file_name, file in files.items()}
    return Contents(HubName(name.repository, commit, name.is_explicit), sizes, present)


def download_folder(name: HubName, patterns: Sequence[str]) -> Path:
    """Return the folder of a repository's files that match any of the `patterns` (`*.json`).

    It is the snapshot in the hub library's cache, named after the commit. Cached files are not
    downloaded again, and a complete commit is used without a request.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: the repository or revision does not exist, no file matches, or the download
            fails.
    """
    hub_library()
    cached = CachedRepository(name)
    with explained(name):
        commit, files = look_up_files(name, cached)
        wanted = _choose(files, patterns)
        if not wanted:
            raise AsdfError(
                f"{name} holds none of the requested files ({', '.join(patterns)}), but "
                f"{quoted_and_more(sorted(files), _SHOWN)}."
            )
        bring_files(name, commit, wanted, cached)
    return cached.snapshot(commit)


def download_network(name: HubName) -> Path:
    """Return the network of a repository: its folder if it has config.json, else its weights.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: it cannot be downloaded, or has no weights, or several files of weights.
    """
    hub_library()
    cached = CachedRepository(name)
    with explained(name):
        commit, files = look_up_files(name, cached)
        of_folder = _folder_weights(files)
        if of_folder:
            # In transformers folders it describes how recordings are prepared for the network.
            wanted = [CONFIG, PREPROCESSOR, *of_folder]
            path = cached.snapshot(commit)
        else:
            weights = _weights_among(name, files)
            # In DeepFense's repositories it describes how recordings are prepared for the network.
            beside = str(PurePosixPath(weights).with_name(TRAINING_CONFIG))
            wanted = [weights, beside]
            path = cached.snapshot(commit) / weights
        bring_files(name, commit, _choose(files, wanted), cached)
    return path


def name_of(path: Path) -> HubName | None:
    """Return the repository and commit of a path in the hub's cache; None for other paths."""
    parts = path.parts
    for index, part in enumerate(parts):
        # No name contains '--', so this is unambiguous.
        repository = part.removeprefix("models--").replace("--", "/")
        after = parts[index + 1 : index + 3]
        is_snapshot = len(after) == 2 and after[0] == "snapshots" and _COMMIT.fullmatch(after[1])
        if part.startswith("models--") and is_snapshot:
            return HubName(repository, after[1])
    return None


def look_up_files(name: HubName, cached: CachedRepository) -> tuple[str, Mapping[str, HubFile]]:
    """Return the commit of a name and its files, from the hub or, offline, the cache."""
    revision = name.revision or "main"
    if _COMMIT.fullmatch(revision):
        files = cached.listing(revision)
        if files is not None:
            return revision, files
    try:
        commit, files = _ask_hub(name, revision)
    except Exception as error:
        known = cached.commit_of(revision) or revision
        files = cached.listing(known)
        # Other errors are answers, such as that the repository is private now.
        if files is None or not is_unreachable(error):
            raise
        LOG.warning("%s: the hub does not respond; using the cached commit %s", name, known)
        return known, files
    cached.note_listing(commit, files)
    cached.note_commit(revision, commit)
    if revision != commit:
        LOG.info("%s: '%s' is commit %s", name, revision, commit)
    return commit, files


def _ask_hub(name: HubName, revision: str) -> tuple[str, dict[str, HubFile]]:
    from huggingface_hub import HfApi

    hub = HfApi(endpoint=endpoint())
    ask = hub.dataset_info if name.kind == "dataset" else hub.model_info
    information = ask(
        name.repository, revision=revision, files_metadata=True, timeout=_ANSWER_WITHIN_S
    )
    if not _COMMIT.fullmatch(information.sha or ""):
        raise AsdfError(f"{name}: {endpoint()} states no commit. Is it a hub?")
    files = {}
    for entry in information.siblings or []:
        # A path that leads out of the cache is not part of a repository.
        if ".." in PurePosixPath(entry.rfilename).parts or entry.rfilename.startswith("/"):
            continue
        if "\\" in entry.rfilename or not entry.rfilename.isprintable():
            raise AsdfError(
                f"{name} was not downloaded: it holds a file named "
                f"{shorten(repr(entry.rfilename))}, with a backslash or a control character. It "
                "was likely made to write outside the cache: report it to the hub."
            )
        sha256 = entry.lfs.sha256 if entry.lfs else None
        files[entry.rfilename] = HubFile(int(entry.size or 0), str(entry.blob_id), sha256)
    return str(information.sha), files


def _choose(files: Mapping[str, HubFile], patterns: Sequence[str]) -> dict[str, HubFile]:
    """Return the files that match, limited to those that ASDF reads."""
    chosen = {}
    for file_name, file in files.items():
        is_wanted = any(fnmatchcase(file_name, pattern) for pattern in patterns)
        if file_name.endswith(_READ) and is_wanted:
            chosen[file_name] = file
    # Pickled weights next to the same weights as safetensors would only double the download.
    folders = {str(PurePosixPath(n).parent) for n in chosen if n.endswith(".safetensors")}
    for file_name in list(chosen):
        if file_name.endswith(".bin") and str(PurePosixPath(file_name).parent) in folders:
            del chosen[file_name]
    return chosen


def _folder_weights(files: Mapping[str, HubFile]) -> list[str]:
    """Return the files of weights that belong to a repository's config.json; [] without it."""
    if CONFIG not in files:
        return []
    for name in _OF_FOLDER:
        if name in files:
            return [name]
    for name in _OF_FOLDER:
        # Split into parts, listed in an index.
        if f"{name}.index.json" in files:
            stem, _, suffix = name.rpartition(".")
            return [f"{name}.index.json", f"{stem}-*-of-*.{suffix}"]
    return []


def _weights_among(name: HubName, files: Mapping[str, HubFile]) -> str:
    """Return the only file of weights; safetensors is preferred to other formats."""
    weights = [n for n in files if n.endswith(SUFFIXES)]
    preferred = [n for n in weights if n.endswith(".safetensors")] or weights
    if not preferred:
        raise AsdfError(
            f"{name} holds no network: no file ends in {', '.join(SUFFIXES)}, but "
            f"{quoted_and_more(sorted(files), _SHOWN)}.{not_a_path(name)}"
        )
    if len(preferred) > 1:
        raise AsdfError(
            f"{name} holds {len(preferred)} weight files, "
            f"{quoted_and_more(sorted(preferred), _SHOWN)}, and none is {WEIGHTS} with {CONFIG}. "
            "Download one (hf download), then name its path."
        )
    return preferred[0]


def bring_files(
    name: HubName, commit: str, wanted: Mapping[str, HubFile], cached: CachedRepository
) -> None:
    """Download and verify the files that are not completely in the cache."""
    from huggingface_hub import hf_hub_download

    for file_name, file in wanted.items():
        path = cached.snapshot(commit) / file_name
        if cached.is_checked(path, file):
            continue
        # Remove cached content that does not match its name.
        for damaged in (path, cached.blob_path(file)):
            if damaged.is_file() and not cached.is_checked(damaged, file):
                LOG.warning(
                    "%s: %s in the cache is damaged and is downloaded again", name, path.name
                )
                # The content itself, to which a path in a snapshot is a link.
                damaged.resolve().unlink()
                path.unlink(missing_ok=True)
                break
        if file.sha256:
            fetch_large(name, commit, file_name, file, cached)
        # It links existing content, and downloads small files.
        hf_hub_download(
            name.repository,
            file_name,
            repo_type=name.kind,
            revision=commit,
            endpoint=endpoint(),
        )
        if not cached.is_checked(path, file):
            path.resolve().unlink(missing_ok=True)
            raise AsdfError(
                f"{name}: {file_name} arrived damaged: its digest differs from the hub's. It was "
                "removed; run the command again."
            )
