"""Description of the machine of a benchmark."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from asdf.runs.start_records import git_state

_PACKAGES = (
    "torch",
    "torchaudio",
    "numpy",
    "scipy",
    "soundfile",
    "transformers",
    "accelerate",
    "audiomentations",
)


def describe_machine() -> dict[str, Any]:
    """Return CPU, cores, memory, GPUs, versions, commit and date, as plain values."""
    import torch

    from asdf.distributed.devices import usable_cores

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "cpu": _cpu(),
        "cores": usable_cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": gpus,
        "system": platform.platform(),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "git": git_state(Path(__file__).parent),
    }


def headline(machine: dict[str, Any]) -> str:
    """Return the machine in one line."""
    gpus = ", ".join(machine["gpus"]) or "no GPU"
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, {gpus}; "
        f"Python {machine['python']}, torch {machine['versions']['torch']}, "
        f"numpy {machine['versions']['numpy']}; "
        f"{machine['date']}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown CPU"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        "unknown CPU",
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
