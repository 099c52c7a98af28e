"""Costs of a step that may only fall: a file per version of torch, whose operations are its own.

    ASDF_RATCHETS=1 pytest tests/gpu

writes the costs that the installed torch has into its file. Under a version without a file, those
of the nearest version below it hold, as far as that goes: it may need its own.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "ratchets"

# The allocator rounds small tensors in an order that varies a little; a patch release of torch may
# queue an operation more.
SLACK = {"operations": 4, "bytes": 2**26, "peak": 2**20}


def version_of(text: str) -> tuple[int, int]:
    """Return major and minor version of '2.14.1+cpu' or '2.14'."""
    major, minor = text.split("+")[0].split(".")[:2]
    return int(major), int(minor)


def check(name: str, costs: Mapping[str, float]) -> None:
    """Fail where one of `costs` is above that in the file of the installed torch.

    Args:
        name: Name of what was measured, unique among all tests.
        costs: Costs by their unit, such as 'operations' or 'bytes'.
    """
    installed = version_of(torch.__version__)
    path = FOLDER / f"torch-{installed[0]}.{installed[1]}.json"
    if os.environ.get("ASDF_RATCHETS"):
        known = json.loads(path.read_text()) if path.exists() else {}
        known[name] = dict(costs)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
        return
    limits = json.loads(_file_for(installed).read_text())[name]
    assert set(costs) == set(limits), name
    above = {}
    for unit, cost in costs.items():
        if cost > limits[unit] + SLACK.get(unit, 0):
            above[unit] = (cost, limits[unit])
    assert not above, f"{name} costs more than it did: {above}"


def _file_for(installed: tuple[int, int]) -> Path:
    files = {}
    for path in FOLDER.glob("torch-*.json"):
        files[version_of(path.stem.removeprefix("torch-"))] = path
    below = [version for version in files if version <= installed]
    return files[max(below) if below else min(files)]
