"""What lies where in a system folder, and what killed runs have left there.

Invariant: a file in the place of a folder, or the other way round, is found before anything is
written.
"""

from __future__ import annotations

from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.files import remove_unfinished

METRICS = "metrics.jsonl"
FILES = (
    "owner.json",
    "log.txt",
    "settings.py",
    "environment.json",
    METRICS,
    "networks/evaluations.json",
)
FOLDERS = ("networks", "scores", "trials", "results", "code")
# Other runs may be writing to a folder that they share with this one: what they write is touched
# every few seconds.
_SURELY_LEFT_S = 3600.0


def check_layout(system: Path) -> None:
    """Make sure that nothing lies in the place of a file or folder that a run writes.

    Raises:
        AsdfError: names all that does.
    """
    misplaced = []
    for name in FILES:
        if (system / name).is_dir():
            misplaced.append(f"{system / name} is a folder, and a run writes a file there")
    for name in FOLDERS:
        if (system / name).exists() and not (system / name).is_dir():
            misplaced.append(f"{system / name} is a file, and a run writes a folder there")
    if misplaced:
        raise AsdfError(
            f"{'; '.join(misplaced)}. Move it away, or give this run another paths.system_folder."
        )


def remove_leftovers(system: Path, shared: Path) -> None:
    """Remove the unfinished files of killed runs from a system folder, and old ones from a folder that runs share.

    Only the owner of the system folder may call this.
    """
    for folder in (system, *(system / name for name in FOLDERS), *(system / "scores").glob("*/")):
        remove_unfinished(folder)
    remove_unfinished(shared, older_than_s=_SURELY_LEFT_S)
