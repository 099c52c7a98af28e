"""The hub's library, `huggingface_hub`, and explanations of its errors.

Invariant: every failure of the hub becomes one message: the repository, the cause, the remedy.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from asdf.errors import AsdfError, UsageError
from asdf.hub.hub_names import HubName
from asdf.hub.published_detectors import nearest_known


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
    return _cause_of_disk(error) if isinstance(error, OSError) else ""


def _cause_of_disk(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"the disk of the cache {cache_folder()} is full. Free some space, or set HF_HOME to a "
            "folder on another disk; the next run continues the download."
        )
    if isinstance(error, PermissionError):
        return f"{first_line(error)}. Set HF_HOME to a writable folder."
    return f"it cannot be downloaded: {first_line(error)}. Run the command again."


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
