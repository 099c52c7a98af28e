"""Upload of a folder to a repository on the hub, as one commit.

Invariant: nothing is pushed to a public repository if a private one was requested, and a
repository's earlier commits stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.hub.hub_names import HubName
from asdf.hub.library import endpoint, explained, hub_library

_MAIN = "main"


@dataclass(frozen=True)
class Pushed:
    """The result of a push.

    Attributes:
        name: Repository at the commit that contains the folder.
        address: Address of the commit's page.
    """

    name: HubName
    address: str


def push_folder(folder: Path, name: HubName, private: bool, message: str) -> Pushed:
    """Push the files of a folder to a repository, which is created if it does not exist.

    Args:
        name: Repository, whose revision is the branch to push to, created if missing; None: main.
        private: Whether the repository must be visible only to its owners.

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
    return Pushed(HubName(name.repository, commit.oid), str(commit.commit_url))
