"""The GPUs as torch sees them."""

from __future__ import annotations

from dataclasses import replace

import torch

from asdf.distributed.builds import check_kernels, installed_torch
from asdf.distributed.devices import SeenGpus, choose_device, look_without_torch, usable_gpus
from asdf.settings.sections import Computing


def look_at_gpus() -> SeenGpus:
    """What torch and the system know of the GPUs here; CUDA is started where there is a GPU."""
    seen = look_without_torch()
    count, failure = torch.cuda.device_count(), ""
    if count or (seen.on_node and seen.build.platform):
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            count, failure = 0, str(error).splitlines()[0]
    other = "MPS" if torch.backends.mps.is_available() else ""
    other = "XPU" if torch.xpu.is_available() else other
    return replace(seen, count=count, failure=failure, other=other)


def take_device(computing: Computing, local_rank: int, local_size: int) -> tuple[str, str]:
    """Make the device of this process ('cpu', 'cuda:0') torch's own.

    Returns: the device, and what only this GPU has ('' for the CPU).

    Raises:
        UsageError: no GPU can be used although one should be (see `usable_gpus`), it has no kernels
            (see `check_kernels`), or the mapping cannot be (see `choose_device`).
    """
    gpus = usable_gpus(computing, look_at_gpus()) if computing.use_gpu else 0
    device = choose_device(computing, local_rank, local_size, gpus)
    if device == "cpu":
        return device, ""
    properties = torch.cuda.get_device_properties(device)
    capability = (properties.major, properties.minor)
    check_kernels(properties.name, capability, torch.cuda.get_arch_list(), installed_torch())
    torch.cuda.set_device(device)
    return device, identify(properties)


def identify(properties: object) -> str:
    """A name for a GPU that no other has: its UUID and its position on the bus of its machine.

    The position alone tells GPUs apart where a driver gives no UUIDs.
    """
    names = ("uuid", "pci_domain_id", "pci_bus_id", "pci_device_id")
    uuid, domain, bus, number = (getattr(properties, name, 0) for name in names)
    return f"{uuid} at {domain:04x}:{bus:02x}:{number:02x}"
