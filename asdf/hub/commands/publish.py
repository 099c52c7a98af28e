"""Push a network with its model card to a repository of the hub (huggingface.co).

    python -m asdf publish net.pt ORG/NAME                      # created if needed
    python -m asdf publish net.pt ORG/NAME --private            # visible to its owners only
    python -m asdf publish net.pt ORG/NAME --licence cc-by-4.0  # stated in the card
    python -m asdf publish net.pt ORG/NAME --revision v2        # to a separate branch

Requires the package huggingface_hub and an account: log in with a token that has write access (hf
auth login, or HF_TOKEN). The pushed files are those of `export --format hub`, with which you can
look at them first: model.safetensors, config.json and README.md, a model card with the corpora,
settings and error rates in the network's file or its run. Paths and user names of your machine are
not included. Earlier commits of the repository are kept.

To score with a published network: python -m asdf score hub:ORG/NAME FILE
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from asdf.commands.options import NETWORK_HELP, Command, WeightsOptions, argument, flag, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.hub import HubName, parse_name, push_folder
from asdf.text import shorten


@dataclass(frozen=True, kw_only=True)
class PublishOptions(WeightsOptions):
    """Options of the command."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    repository: str = argument("repository to push to", "ORG/NAME")
    private: bool = flag("create a repository that only its owners can see")
    licence: str = option(
        "licence of the weights, by its name on the hub: mit, cc-by-4.0, cc-by-nc-sa-4.0, other",
        "NAME",
        default="",
    )
    revision: str | None = option("branch to push to, created if needed (main)", "BRANCH")


COMMAND = Command("publish", __doc__, PublishOptions)


def main(arguments: list[str]) -> int:
    """Publish a network and print its address; return 0.

    Raises:
        UsageError: a mistake in the command line, or nobody is logged in.
        AsdfError: the network cannot be read, or the hub refuses the upload.
    """
    args = COMMAND.read(arguments)
    name = _repository(args.repository, args.revision)
    # torch is needed from here on, and takes seconds to import.
    from asdf.interchange import read_detector
    from asdf.interchange.commands.export_network import write_card_and_weights

    network, file = read_detector(args.network, args.network_folder, args.base)
    with TemporaryDirectory(prefix="asdf-publish-") as temporary:
        # The card gives the repository in the form used by commands.
        folder = Path(temporary) / name.repository.rpartition("/")[2]
        card = {"address": f"hub:{name.repository}", "licence": args.licence}
        eers = write_card_and_weights(folder, args.network, network, file, **card)
        pushed = push_folder(folder, name, args.private, f"Add {folder.name}")
    show(f"published: {pushed.address}")
    remark = ""
    if not args.licence:
        remark = "; it states no licence: add one there, or publish again with --licence"
    show(f"the card has {eers} measured EERs{remark}")
    show(f'usage: asdf.Detector("hub:{name.repository}"), or this commit: "{pushed.name}"')
    return 0


def _repository(text: str, branch: str | None) -> HubName:
    """Return the repository to push to.

    Raises:
        UsageError: it is not a valid repository name, or includes a revision.
    """
    name = parse_name(f"hub:{text.removeprefix('hub:')}")
    assert name is not None  # with 'hub:' it is a name or an error
    if name.revision:
        raise UsageError(
            f"'{shorten(text)}' contains a revision. Give the branch to push to with "
            f"--revision {name.revision}."
        )
    with_branch = f"{name}@{branch}" if branch else str(name)
    return parse_name(with_branch) or name
