"""The recipe's training step against a plain PyTorch loop and Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.verdict import Line, at_least, measured, not_run
from benchmarks.rows import Row
from benchmarks.step import Case, compare_with_plain_loop, compare_with_trainer

NO_BF16 = "the GPU does not compute in bf16"


def plain_loop(setup: Setup) -> Iterable[Line]:
    """The same network in a loop as one writes it."""
    if torch.cuda.get_device_capability() < (8, 0):
        yield not_run("speed over a plain PyTorch loop", NO_BF16)
        return
    yield as_line(compare_with_plain_loop(_case(setup), setup.sizes.samples, _device()), setup)


def trainer(setup: Setup) -> Iterable[Line]:
    """transformers' network of the same sizes, trained by its Trainer."""
    if torch.cuda.get_device_capability() < (8, 0):
        yield not_run("speed over Hugging Face Trainer", NO_BF16)
        return
    yield as_line(compare_with_trainer(_case(setup), setup.sizes.samples, _device()), setup)


def _case(setup: Setup) -> Case:
    sizes = setup.sizes
    return Case(sizes.architecture, sizes.minibatches[0], "bf16", sizes.rounds)


def _device() -> torch.device:
    torch.cuda.empty_cache()
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    return device


def as_line(row: Row, setup: Setup) -> Line:
    """Return a row of the other benchmarks as a line; times are ignored if everything is small."""
    what = f"{row.what}: speed over {row.against}"
    if row.ratio is None:
        return not_run(what, row.note)
    if row.target is None or setup.quick:
        return measured(what, row.ratio, reason=row.note)
    return at_least(what, row.ratio, row.target, reason=row.note)


CHECKS: dict[str, Check] = {"plain loop": plain_loop, "Trainer": trainer}
