"""The GPUs as torch sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from asdf.distributed.builds import check_kernels, installed_torch
from asdf.distributed.devices import SeenGpus, choose_device, look_without_torch, usable_gpus
from asdf.settings.sections import Computing


class TakenDevice(NamedTuple):
    """The device of a process, 'cpu' or 'cuda:0', and a unique name of its GPU, or ''."""

    name: str
    gpu: str


def look_at_gpus() -> SeenGpus:
    """Return what torch and the system report on GPUs, starting CUDA if a GPU exists."""
    seen = look_without_torch()
    count = torch.cuda.device_count()
    failure = ""
    if count or (seen.on_node and seen.build.platform):
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            count = 0
            failure = str(error).splitlines()[0]
    other = ""
    if torch.xpu.is_available():
        other = "XPU"
    elif torch.backends.mps.is_available():
        other = "MPS"
    return replace(seen, count=count, failure=failure, other=other)


def take_device(computing: Computing, local_rank: int, local_size: int) -> TakenDevice:
    """Choose the device of this process and make it torch's current device.

    Raises:
        UsageError: no GPU can be used although one should be (see `usable_gpus`), it lacks kernels
            (see `check_kernels`), or the mapping is impossible (see `choose_device`).
    """
    gpus = usable_gpus(computing, look_at_gpus()) if computing.use_gpu else 0
    name = choose_device(computing, local_rank, local_size, gpus)
    if name == "cpu":
        return TakenDevice(name, "")
    properties = torch.cuda.get_device_properties(name)
    capability = (properties.major, properties.minor)
    check_kernels(properties.name, capability, torch.cuda.get_arch_list(), installed_torch())
    torch.cuda.set_device(name)
    return TakenDevice(name, identify(properties))


def identify(properties: object) -> str:
    """Return a unique name for a GPU: its UUID and its position on the machine's bus.

    The position distinguishes GPUs if a driver reports no UUIDs.
    """
    uuid = getattr(properties, "uuid", 0)
    domain = getattr(properties, "pci_domain_id", 0)
    bus = getattr(properties, "pci_bus_id", 0)
    device = getattr(properties, "pci_device_id", 0)
    return f"{uuid} at {domain:04x}:{bus:02x}:{device:02x}"
