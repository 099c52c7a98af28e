"""The time of each part of training, and the profile of some steps (`computing.profile_steps`).

Invariants: the parts add up to the total, since all time from one mark to the next belongs to one
part. On a GPU, marks are events in the stream of its work, read long after they have passed, so
nothing waits for the measurement; a part is the time in which the GPU worked for it or was idle.
A profile changes no result of training. It includes work between the steps, such as a checkpoint,
but ends before an evaluation of the network or with the epoch; its files are named by its steps.

The share of the GPUs' peak throughput that training uses (MFU), if the peak is known.

It includes matrix products and convolutions of the network's forward and backward pass, once per
clip; recomputed layers and padding of batches are not counted. Operations are counted on torch's
meta device, without computing any number. Peaks are dense products (without sparsity) from NVIDIA's
datasheets, in TFLOP/s: bf16 and fp16 on tensor cores with float32 sums, float32 without them.

Source: Chowdhery et al., "PaLM", JMLR 2023, appendix B, for the measure.
"""

from __future__ import annotations

import copy
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity
from torch.utils.flop_counter import FlopCounterMode

from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.interface import as_outputs, waveform_shape
from asdf.runs.files import atomic_write, write_text
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.gradients import Precision

# Whole words of the driver's GPU name; the first match counts.
_PEAKS: tuple[tuple[tuple[str, ...], dict[str, float]], ...] = (
    (("GH200",), {"bf16": 989.4, "fp16": 989.4, "fp32": 66.9}),
    (("H200", "NVL"), {"bf16": 835.5, "fp16": 835.5, "fp32": 60.0}),
    (("H200",), {"bf16": 989.4, "fp16": 989.4, "fp32": 66.9}),
    (("H100", "PCIe"), {"bf16": 756.0, "fp16": 756.0, "fp32": 51.2}),
    (("H100", "NVL"), {"bf16": 835.5, "fp16": 835.5, "fp32": 60.0}),
    (("H100",), {"bf16": 989.4, "fp16": 989.4, "fp32": 66.9}),
    (("A100",), {"bf16": 312.0, "fp16": 312.0, "fp32": 19.5}),
    (("A40",), {"bf16": 149.7, "fp16": 149.7, "fp32": 37.4}),
    (("A30",), {"bf16": 165.0, "fp16": 165.0, "fp32": 10.3}),
    (("L40S",), {"bf16": 362.1, "fp16": 362.1, "fp32": 91.6}),
    (("L40",), {"bf16": 181.1, "fp16": 181.1, "fp32": 90.5}),
    (("L4",), {"bf16": 121.0, "fp16": 121.0, "fp32": 30.3}),
    (("V100",), {"fp16": 125.0, "fp32": 15.7}),
    (("T4",), {"fp16": 65.0, "fp32": 8.1}),
)

_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", None: "fp32"}


def peak_flops(gpu: str, precision: str) -> float | None:
    """Return the peak FLOP/s of a GPU; None if it is not in the table.

    Args:
        gpu: Name of the GPU, such as 'NVIDIA A100-SXM4-40GB'.
        precision: Precision: 'bf16', 'fp16' or 'fp32'.
    """
    words = set(re.split(r"[\s-]+", gpu))
    if "MIG" in words:
        return None  # a part of a GPU
    for name, peaks in _PEAKS:
        if set(name) <= words:
            return peaks[precision] * 1e12 if precision in peaks else None
    return None


def known_peak(precision: Precision, tf32: bool) -> float | None:
    """Return the peak FLOP/s of this process's GPU in training; None if it is unknown."""
    # Products in TF32 have another peak, which the table lacks.
    if precision.device.type != "cuda" or (tf32 and precision.dtype is None):
        return None
    return peak_flops(torch.cuda.get_device_name(precision.device), _NAMES[precision.dtype])


def find_cost(network: nn.Module, settings: Sections, precision: Precision) -> ClipCost | None:
    """Return the cost of the passes over a clip; None if clips differ, or no peak is known.

    Args:
        network: Network before it is compiled.
    """
    peak = known_peak(precision, settings.computing.tf32)
    front_end = settings.front_end
    differ = settings.lengths.minibatch_s is not None or front_end.layer_drop
    if peak is None or differ or front_end.cache_features:
        return None
    return ClipCost(network, settings.network.train_clip_size, peak)


class ClipCost:
    """The cost of the passes over a clip.

    Attributes:
        flops: Number of floating-point operations of both passes with the current trained
            parameters; a multiplication and an addition are two. None if the network's computation
            depends on values, which an outline lacks.

    Args:
        network: Network that is not compiled; it is not changed.
        samples: Number of samples of a clip.
        peak: Peak FLOP/s of a process's GPU.
    """

    def __init__(self, network: nn.Module, samples: int, peak: float) -> None:
        self.peak = peak
        self.flops: float | None = None
        self._samples = samples
        self._outline: nn.Module | None = None
        self.learn_as(network)

    def learn_as(self, network: nn.Module) -> None:
        """Count with the trained parameters of `network`, at first and after they have changed."""
        try:
            if self._outline is None:
                self._outline = _outline_of(network)
            outline = self._outline
            for outlined, parameter in zip(outline.parameters(), network.parameters(), strict=True):
                outlined.requires_grad_(parameter.requires_grad)
            waveforms = torch.empty(waveform_shape(outline, 1, self._samples), device="meta")
            with torch.device("meta"), FlopCounterMode(display=False) as counter:
                as_outputs(outline(waveforms)).logits_B2.sum().backward()
            outline.zero_grad(set_to_none=True)
            self.flops = float(counter.get_total_flops())
        except Exception as error:
            # A user's network may raise anything, and training does not need this number.
            self.flops = None
            LOG.info("MFU not known: the network cannot be outlined (%s)", type(error).__name__)


def _outline_of(network: nn.Module) -> nn.Module:
    """Return a copy with shapes but without values."""
    tensors: dict[int, Tensor] = {}
    # deepcopy treats the entries of this table as copies already made.
    for parameter in network.parameters():
        shape = torch.empty_like(parameter, device="meta")
        tensors[id(parameter)] = nn.Parameter(shape, requires_grad=parameter.requires_grad)
    for buffer in network.buffers():
        tensors[id(buffer)] = torch.empty_like(buffer, device="meta")
    outline: nn.Module = copy.deepcopy(network, tensors)
    for module in outline.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.gradient_checkpointing = False  # type: ignore[assignment]
    # Nothing is drawn at random, and norms work with a single utterance.
    return outline.eval()


DATA = "waiting for data"
FORWARD = "forward"
BACKWARD = "backward"
OPTIMISER = "optimiser"
COMMUNICATION = "communication"
REST = "rest"
PARTS = (DATA, FORWARD, BACKWARD, OPTIMISER, COMMUNICATION, REST)

# Events are read when more than this many are pending, since by then most have passed.
_MAX_PENDING = 64

_NOTE = (
    "Times include the profiler's own. Waiting for slower processes is part of the communication; "
    "the exchange of gradients is part of the backward pass. Open the .json.gz in "
    "https://ui.perfetto.dev."
)


class StepClock:
    """The summed time of each of `PARTS`; time between two parts is 'rest'.

    Each part is also a range with that name in an active profile.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream_time = device.type == "cuda"
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._since: float | None = None
        self._events: deque[tuple[str, torch.cuda.Event]] = deque()

    def restart(self) -> None:
        """Reset all sums to zero; the time since the last part is not counted."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._since = None
        self._events.clear()
        self._mark(REST)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of this block as that of a part."""
        self._mark(REST)
        with torch.profiler.record_function(name):
            yield
        self._mark(name)

    def seconds(self, wait: bool = False) -> dict[str, float]:
        """Return the time of each part since the last `restart`.

        Args:
            wait: Whether to wait for the GPU to finish its work; otherwise work that is still
                queued is not counted yet.
        """
        if wait:
            self._mark(REST)
        self._settle(wait)
        return dict(self._seconds)

    def _mark(self, name: str) -> None:
        """Count the time since the last mark as that of `name`."""
        if self._stream_time:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append((name, event))
            if len(self._events) > _MAX_PENDING:
                self._settle(wait=False)
            return
        now = time.perf_counter()
        if self._since is not None:
            self._seconds[name] += now - self._since
        self._since = now

    def _settle(self, wait: bool) -> None:
        while len(self._events) > 1:
            _, before = self._events[0]
            name, event = self._events[1]
            if wait:
                event.synchronize()
            elif not event.query():
                return
            self._seconds[name] += before.elapsed_time(event) / 1000
            self._events.popleft()


class StepProfile:
    """Profiles this process, the main rank's, during the requested steps.

    Args:
        steps: Numbers of the first and the last step; None for no profile.
        folder: Folder of `steps.FIRST-LAST.json.gz`, a trace for Perfetto, and `.txt`, the table.

    Raises:
        UsageError: the first step comes after the last.
    """

    def __init__(
        self, steps: tuple[int, int] | None, folder: Path, clock: StepClock, world: World
    ) -> None:
        if steps is not None and steps[0] > steps[1]:
            raise UsageError(f"computing.profile_steps = {steps}: write them as (first, last).")
        self.steps = steps if world.is_main else None
        self.folder = folder
        self.clock = clock
        self.world = world
        self._running: torch.profiler.profile | None = None
        self._first_step = 0
        self._last_step = 0
        self._seconds_before: dict[str, float] = {}

    def begin(self, done: int) -> None:
        """Log if some of the requested steps are among the `done` steps taken before."""
        self._last_step = done
        if self.steps is not None and self.steps[1] <= done:
            wanted = f"computing.profile_steps = {self.steps}"
            LOG.info(f"{wanted}: nothing is profiled, step {done} is done already")
            self.steps = None

    def before_step(self, step: int) -> None:
        """Start with the first requested step."""
        self._last_step = step
        if self.steps is None or self._running is not None:
            return
        first, last = self.steps
        if not first <= step <= last:
            return
        activities = [ProfilerActivity.CPU]
        if self.world.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        else:
            # The profiler would report on stderr that it finds no GPU.
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._running = torch.profiler.profile(activities=activities)
        self._running.start()
        self._first_step = step
        self._seconds_before = self.clock.seconds(wait=True)

    def after_step(self, step: int) -> None:
        """Write the profile after the last requested step."""
        if self.steps is not None and step >= self.steps[1]:
            self.end()

    def end(self) -> None:
        """Write the profile if one is running; it is not restarted if it ended early.

        Raises:
            AsdfError: the files cannot be written.
        """
        profile = self._running
        if profile is None:
            return
        now = self.clock.seconds(wait=True)
        seconds = {part: now[part] - before for part, before in self._seconds_before.items()}
        self.close()
        stem = f"steps.{self._first_step}-{self._last_step}"
        path = self.folder / f"{stem}.json.gz"
        # The profiler opens a path by itself, so the file could not appear as a whole.
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json.gz"
            profile.export_chrome_trace(str(trace))
            with atomic_write(path, "wb") as file:
                file.write(trace.read_bytes())
        table = self._table(seconds)
        write_text(self.folder / f"{stem}.txt", f"{table}\n\n{_NOTE}\n")
        LOG.info("%s\nprofile written to %s", table, path)

    def close(self) -> None:
        """Stop profiling without writing anything; log if it never began."""
        if self._running is not None:
            self._running.stop()
        elif self.steps is not None:
            wanted = f"computing.profile_steps = {self.steps}"
            LOG.info(f"{wanted}: nothing was profiled, step {self._last_step} was the last")
        self._running = None
        self.steps = None

    def _table(self, seconds: Mapping[str, float]) -> str:
        """Return the milliseconds per step of each part, and its percentage."""
        world = self.world
        title = f"steps {self._first_step} to {self._last_step}"
        count = self._last_step - self._first_step + 1
        total = sum(seconds.values())
        lines = [f"{title}, rank {world.rank} of {world.size} on {world.device}", ""]
        lines.append(f"{'':20}{'ms per step':>12}{'%':>8}")
        for part, value in {**seconds, "total": total}.items():
            lines.append(f"{part:20}{1000 * value / count:12.3f}{100 * value / total:8.1f}")
        return "\n".join(lines)
