"""The networks of a run by their file names, and what the validation sets said of them; no torch is needed to ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asdf.runs.files import write_text

RESUME = "resume.pt"
AVERAGE = "average.pt"


def network_files(folder: Path) -> dict[Path, tuple[int, int]]:
    """The networks in `folder` with (whole epochs, step inside the next epoch), oldest first."""
    found = {}
    for path in folder.glob("epoch.*.pt"):
        parts = path.name.split(".")
        if len(parts) == 3 and parts[1].isdigit():
            found[path] = (int(parts[1]), 0)
        elif len(parts) == 5 and parts[1].isdigit() and parts[2] == "step" and parts[3].isdigit():
            found[path] = (int(parts[1]) - 1, int(parts[3]))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def networks_present(folder: Path) -> str:
    """A sentence on the networks that there are, for messages."""
    names = [path.name for path in network_files(folder)]
    return f"There are {', '.join(names[-8:])}." if names else "There are no networks: run stage 1 first."


def write_evaluations(folder: Path, evaluations: list[dict[str, Any]]) -> None:
    """Keep the EERs of the validation sets beside the networks, for choosing among them without opening them."""
    write_text(folder / "evaluations.json", json.dumps(evaluations, indent=1) + "\n")


def read_evaluations(folder: Path) -> list[dict[str, Any]]:
    """What `write_evaluations` kept; nothing where there is nothing."""
    try:
        return list(json.loads((folder / "evaluations.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


def by_eer(evaluations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evaluations from the best on, judged by the first validation set; of equals the later one comes first."""
    return sorted(evaluations, key=lambda evaluation: (next(iter(evaluation["eer"].values())), -evaluation["step"]))
