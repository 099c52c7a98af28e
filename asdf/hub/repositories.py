"""Downloads of repositories on the hub by its own library, as folders in its cache, and uploads.

Invariant: every failure of the hub becomes one message: the repository, the cause, the remedy. A
returned folder contains every wanted file of one commit. Only weights, configurations
and texts are downloaded, never code. Nothing is pushed to a public repository if a private one was
requested, and a repository's earlier commits stay.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.hub.names import SUFFIXES, HubName, nearest_known, parse_name
from asdf.runs.files import write_text
from asdf.runs.log import LOG
from asdf.text import quoted_and_more

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
TRAINING_CONFIG = "config.yaml"
WEIGHTS = "model.safetensors"
_INDEX = ".index.json"
# Named as in transformers; the first existing file is read.
_OF_FOLDER = (WEIGHTS, WEIGHTS + _INDEX, "pytorch_model.bin", f"pytorch_model.bin{_INDEX}")
# Without documents such as LICENSE: ASDF reads no other files.
_READ = (*SUFFIXES, ".json", ".yaml", ".md")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ANSWER_WITHIN_S = 10
_SHOWN = 8
_MEGABYTE = 1_000_000
_MAIN = "main"


def hub_library() -> ModuleType:
    """Return the module huggingface_hub.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import huggingface_hub
    except ImportError as error:
        raise UsageError(
            f"hub names need the package huggingface_hub ({error}): pip install "
            "'asdf-antispoofing[hub]'. Or download the files in a browser and name their path."
        ) from error
    return huggingface_hub


def is_unreachable(error: Exception) -> bool:
    """Whether the hub did not respond: no network, offline mode, or the hub is down."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        return status_of(error) >= 500
    # Errors of the connection are those of httpx or requests, depending on the version.
    is_of_connection = type(error).__module__.startswith(("httpx", "requests"))
    return is_of_connection or isinstance(error, OfflineModeIsEnabled | ConnectionError)


def status_of(error: Exception) -> int:
    """Return the status of the hub's response; 0 if there was none."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


@contextmanager
def explained(name: HubName, writing: bool = False) -> Iterator[None]:
    """Turn the library's errors in a block into one message on the repository.

    Args:
        writing: Whether the block pushes to the repository.

    Raises:
        AsdfError: the hub, the network or the disk failed.
    """
    try:
        yield
    except AsdfError:
        raise
    # The library's errors have no common class: those of the network are another library's.
    except Exception as error:
        cause = (_cause_of_writing(name, error) if writing else "") or _cause(name, error)
        if not cause:
            raise
        raise AsdfError(f"{name}: {cause}{not_a_path(name)}") from error


def not_a_path(name: HubName) -> str:
    """Return the remark that a name without 'hub:' may be a path; '' for a name with it."""
    if name.is_explicit:
        return ""
    return f" If '{str(name).removeprefix('hub:')}' is meant as a path, it does not exist."


def _cause(name: HubName, error: Exception) -> str:
    """Return the cause and the remedy; '' for an error in the program."""
    from huggingface_hub import errors

    folder = "datasets/" if name.kind == "dataset" else ""
    page = f"{endpoint()}/{folder}{name.repository}"
    if isinstance(error, errors.GatedRepoError):
        return (
            f"access requires agreeing to its owners' terms. Agree to them on {page}, then log in "
            "here with the same account: hf auth login, or HF_TOKEN."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        kind, near, listed = "data set", "", ""
        if name.kind == "model":
            kind, near = "repository", nearest_known(name.repository)
            listed = " `python -m asdf detectors` lists known ones."
        return (
            f"the hub has no such {kind}, or it is private: see {page}.{near} Is the name spelt as "
            f"there?{listed} For a private one log in: hf auth login, or HF_TOKEN."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"the repository has no revision '{name.revision or 'main'}': its branches, tags and "
            f"commits are on {page}/commits/main."
        )
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return f"a file is missing there: {first_line(error)}."
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        # The reason why the library looked only on the disk.
        error = error.__cause__
    return _cause_of_transfer(error)


def _cause_of_transfer(error: Exception) -> str:
    from huggingface_hub.errors import OfflineModeIsEnabled

    status = status_of(error)
    if isinstance(error, OfflineModeIsEnabled):
        return (
            f"HF_HUB_OFFLINE disables the hub, and the cache ({cache_folder()}) does not hold it. "
            "Unset it, or download it where there is internet access."
        )
    if status in (401, 403):
        return (
            f"the hub denies access ({status}): log in with an account that has access: hf auth "
            "login, or HF_TOKEN. An expired token is denied as well."
        )
    if status == 429:
        return "the hub reports too many requests (429): wait some minutes, or log in."
    if status and status < 500:
        return f"the hub rejects the request: {first_line(error)}."
    if is_unreachable(error):
        return (
            f"the hub at {endpoint()} cannot be reached: {first_line(error)}. Compute nodes often "
            "have no internet access: run the same command where there is, such as a login node, "
            "with the same HF_HOME or home folder; it is then in the cache. For a mirror, set "
            "HF_ENDPOINT."
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"the disk of the cache {cache_folder()} is full. Free some space, or set HF_HOME to a "
            "folder on another disk; the next run continues the download."
        )
    if isinstance(error, PermissionError):
        return f"{first_line(error)}. Set HF_HOME to a writable folder."
    is_of_disk = isinstance(error, OSError)
    return f"it cannot be downloaded: {first_line(error)}. Run it again." if is_of_disk else ""


def _cause_of_writing(name: HubName, error: Exception) -> str:
    """Return why the hub refuses a push; '' for errors that downloads have too."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):
        # The error of one of several files that are sent in parallel.
        error = error.__cause__
    status = status_of(error)
    organisation = name.repository.partition("/")[0]
    if status == 401:
        return (
            "the hub does not recognise the token. Log in with one that may write: hf auth login, "
            "or HF_TOKEN."
        )
    if status == 403:
        return (
            f"the token may not write there ({first_line(error)}). Use one that may "
            f"({endpoint()}/settings/tokens), from a member of {organisation}."
        )
    # The library's error for a card that the hub does not accept.
    if type(error) is ValueError:
        return f"the hub rejects the model card: {' '.join(str(error).split())}"
    return ""


def first_line(error: Exception) -> str:
    """Return the text of an error in one line, without its final full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def endpoint() -> str:
    """Return the address of the hub."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def cache_folder() -> str:
    """Return the folder in which the library caches repositories."""
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


@dataclass(frozen=True)
class Contents:
    """The files of a repository at one commit.

    Attributes:
        name: Repository, with the commit as its revision.
        sizes: Sizes of the files, in bytes.
        unreachable: Why these are only the files in the cache; None: they are those on the hub.
    """

    name: HubName
    sizes: Mapping[str, int]
    unreachable: Exception | None = field(default=None, compare=False)

    def bytes_missing(self, wanted: Iterable[str]) -> int:
        """Return how many bytes a download of these files would transfer."""
        library = hub_library()
        missing = 0
        for file in wanted:
            cached = library.try_to_load_from_cache(
                self.name.repository, file, revision=self.name.revision, repo_type=self.name.kind
            )
            missing += 0 if isinstance(cached, str) else self.sizes[file]
        return missing

    def download(self, wanted: Iterable[str], **details: Any) -> Path:
        """Return the folder of the commit, with the wanted files.

        Args:
            details: Further arguments of the library's `snapshot_download`.
        """
        library = hub_library()
        wanted = list(wanted)
        missing = self.bytes_missing(wanted)
        if missing:
            LOG.info("downloading %s MB of %s", f"{missing / _MEGABYTE:,.1f}", self.name)
        if not sys.stderr.isatty():
            library.utils.disable_progress_bars()
        folder = library.snapshot_download(
            self.name.repository,
            repo_type=self.name.kind,
            revision=self.name.revision,
            allow_patterns=[escape(file) for file in wanted],
            endpoint=endpoint(),
            **details,
        )
        return Path(folder)


# A commit never changes, so one request is sufficient for each.
_LOOKED_UP: dict[tuple[str, str, str | None], Contents] = {}


def look_up(name: HubName) -> Contents:
    """Return the content of a repository, from the hub or, without a network, the cache.

    Nothing is downloaded.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: the repository or revision does not exist, or there is no response.
    """
    known = _LOOKED_UP.get((name.kind, name.repository, name.revision))
    if known is not None:
        return known
    api = hub_library().HfApi(endpoint=endpoint())
    revision = name.revision or _MAIN
    with explained(name):
        try:
            information = api.repo_info(
                name.repository,
                repo_type=name.kind,
                revision=revision,
                files_metadata=True,
                timeout=_ANSWER_WITHIN_S,
            )
        except Exception as error:
            known = _cached(name)
            # Other errors are answers, such as that the repository is private now.
            if known is None or not is_unreachable(error):
                raise
            commit = known.name.revision
            LOG.warning("%s: the hub does not respond; using the cached commit %s", name, commit)
            return replace(known, unreachable=error)
    pinned = replace(name, revision=str(information.sha))
    if pinned.revision != revision:
        LOG.info("%s: '%s' is commit %s", name, revision, pinned.revision)
        # For use without a network; the library notes it only if it downloads by this name.
        parts = [f"{name.kind}s", *name.repository.split("/")]
        ref = Path(cache_folder(), "--".join(parts), "refs", revision)
        # The cache may be read-only.
        with suppress(AsdfError):
            write_text(ref, str(pinned.revision))
    sizes = {}
    for entry in information.siblings or []:
        # A path that leads out of the cache is not part of a repository.
        path = PurePosixPath(entry.rfilename)
        if ".." not in path.parts and not path.is_absolute():
            sizes[entry.rfilename] = int(entry.size or 0)
    contents = Contents(pinned, sizes)
    _LOOKED_UP[name.kind, name.repository, pinned.revision] = contents
    return contents


def _cached(name: HubName) -> Contents | None:
    """Return the files of a revision in the cache; None if it is not there."""
    library = hub_library()
    try:
        folder = library.snapshot_download(
            name.repository,
            repo_type=name.kind,
            revision=name.revision,
            # The folder alone: the library would refuse one that holds only some files.
            allow_patterns=[],
            local_files_only=True,
        )
    except library.errors.LocalEntryNotFoundError:
        return None
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    return Contents(replace(name, revision=Path(folder).name), sizes)


def download_folder(name: HubName, patterns: Sequence[str]) -> Path:
    """Return the folder of a repository's files that match any of the `patterns` (`*.json`).

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: the repository or revision does not exist, no file matches, or the download
            fails.
    """
    contents = look_up(name)
    with explained(name):
        wanted = _choose(contents.sizes, patterns)
        if not wanted:
            _raise_unreachable(contents)
            raise AsdfError(
                f"{name} holds none of the requested files ({', '.join(patterns)}), but "
                f"{quoted_and_more(sorted(contents.sizes), _SHOWN)}."
            )
        return contents.download(wanted)


def download_network(name: HubName) -> Path:
    """Return the network of a repository: its folder if it has config.json, else its weights.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: it cannot be downloaded, or has no weights, or several files of weights.
    """
    contents = look_up(name)
    with explained(name):
        files = network_files(contents)
        folder = contents.download(files)
    return folder if CONFIG in files else folder / files[0]


def network_files(contents: Contents) -> list[str]:
    """Return the files of a repository's network: with its config.json, or a single one first.

    Raises:
        AsdfError: there are no weights, or several files of weights.
    """
    files = contents.sizes
    for weights in _OF_FOLDER if CONFIG in files else ():
        if weights in files:
            stem, _, suffix = weights.removesuffix(_INDEX).rpartition(".")
            parts = [f"{stem}-*-of-*.{suffix}"] if weights.endswith(_INDEX) else []
            # In transformers folders it describes how recordings are prepared for the network.
            return _choose(files, [CONFIG, PREPROCESSOR, weights, *parts])
    found = [file for file in files if file.endswith(SUFFIXES)]
    # Safetensors is preferred to other formats.
    preferred = [file for file in found if file.endswith(".safetensors")] or found
    if not preferred:
        _raise_unreachable(contents)
        raise AsdfError(
            f"{contents.name} holds no network: no file ends in {', '.join(SUFFIXES)}, but "
            f"{quoted_and_more(sorted(files), _SHOWN)}.{not_a_path(contents.name)}"
        )
    if len(preferred) > 1:
        raise AsdfError(
            f"{contents.name} holds {len(preferred)} weight files, "
            f"{quoted_and_more(sorted(preferred), _SHOWN)}, and none is {WEIGHTS} with {CONFIG}. "
            "Download one (hf download), then name its path."
        )
    (weights,) = preferred
    # In DeepFense's repositories it describes how recordings are prepared for the network.
    beside = str(PurePosixPath(weights).with_name(TRAINING_CONFIG))
    return [weights, beside] if beside in files else [weights]


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


def _raise_unreachable(contents: Contents) -> None:
    """Raise the hub's error if only files in the cache are known, and the wanted are not there."""
    if contents.unreachable is not None:
        raise contents.unreachable


def _choose(files: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the files that match, limited to those that ASDF reads."""
    chosen = []
    for name in files:
        if name.endswith(_READ) and any(fnmatchcase(name, pattern) for pattern in patterns):
            chosen.append(name)
    return chosen


def push_folder(folder: Path, name: HubName, private: bool, message: str) -> tuple[HubName, str]:
    """Push the files of a folder to a repository, which is created if it does not exist.

    Args:
        name: Repository, whose revision is the branch to push to, created if missing; None: main.
        private: Whether the repository must be visible only to its owners.

    Returns:
        Repository at the commit that contains the folder, and the address of the commit's page.

    Raises:
        UsageError: huggingface_hub is not installed, or nobody is logged in.
        AsdfError: the repository is public but a private one is requested; or the hub refuses the
            push.
    """
    library = hub_library()
    if library.get_token() is None:
        raise UsageError(
            f"{name}: publishing needs an account of {endpoint()}. Log in with a token that may "
            "write: hf auth login, or HF_TOKEN."
        )
    api = library.HfApi(endpoint=endpoint())
    branch = name.revision or _MAIN
    with explained(name, writing=True):
        # None: visibility of a new repository follows its organisation's setting.
        api.create_repo(name.repository, private=private or None, exist_ok=True)
        # A repository that exists already keeps its visibility.
        if private and not api.model_info(name.repository).private:
            raise AsdfError(
                f"{name} exists and is public; nothing was pushed. Make it private in its settings "
                f"({endpoint()}/{name.repository}/settings), or choose another name."
            )
        if branch != _MAIN:
            api.create_branch(name.repository, branch=branch, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name.repository, folder_path=folder, revision=branch, commit_message=message
        )
    return HubName(name.repository, commit.oid), str(commit.commit_url)


def parse_dataset(text: str) -> tuple[HubName, str]:
    """Parse 'ORG/NAME', 'ORG/NAME/CONFIGURATION' or either with '@REVISION'.

    Returns:
        Repository with its revision, and configuration; '' for none.

    Raises:
        UsageError: it is not the name of a data set.
    """
    repository, at, revision = text.partition("@")
    parts = repository.split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise UsageError(
            f"'hub:{text}' is not a data set of the hub: write hub:ORG/NAME:SPLIT, with a "
            "configuration hub:ORG/NAME/CONFIGURATION:SPLIT, and with a revision "
            "hub:ORG/NAME@REVISION:SPLIT."
        )
    name = parse_name(f"hub:{parts[0]}/{parts[1]}{at}{revision}")
    assert name is not None  # 'hub:' makes it one, or an error
    return replace(name, kind="dataset"), "/".join(parts[2:])


def download_into(name: HubName, folder: Path) -> list[Path]:
    """Download all files of a data set into a folder; return their paths.

    Raises:
        UsageError: huggingface_hub is not installed.
        AsdfError: the data set does not exist or cannot be downloaded.
    """
    contents = look_up(name)
    with explained(name):
        contents.download(contents.sizes, local_dir=folder)
    return [folder / file for file in contents.sizes]
