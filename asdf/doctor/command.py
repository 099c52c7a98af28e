"""Check what ASDF needs on this machine: what works, and how to fix what does not.

    python -m asdf doctor                        # Python, torch, GPUs, decoders, disks
    python -m asdf doctor --json doctor.json     # to attach to a question

Each line begins with ok, warning (runs work, but more slowly or with limitations) or missing (runs
do not work). The exit status is 1 if something is missing. Nothing is changed.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import asdf
from asdf.commands.options import Command, option
from asdf.commands.outputs import describe_version, show, text_stream, write_outputs
from asdf.distributed.devices import TORCH_PAIR, installed_torch, usable_cores
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import write_text
from asdf.runs.systems import can_lock
from asdf_antispoofing import clash

# Packages are imported in the checks: the doctor works without any of them.
if TYPE_CHECKING:
    import torch

OK = "ok"
WARNING = "warning"
"""Level: runs work, but slower or with limitations."""

MISSING = "missing"
"""Level: runs do not work."""

_GIB = 2**30
_PAIR = f"pip install --force-reinstall {TORCH_PAIR}"
_ELSEWHERE = "Choose another folder (of a run: paths.output_folder; caches: HF_HOME, TMPDIR)"
# Formats of libsndfile; public corpora are in the first two.
_FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
# 'captum>=0.9; extra == "why"'
_OF_EXTRA = re.compile(r"""^([\w.-]+).*\bextra\s*==\s*['"]([\w-]+)['"]""")
_FOR_DEVELOPERS = {"test", "test-all", "docs"}
# A product of matrices of halves is exact in any order of summation.
_SIZE = 64
_WIDTH = 100
_INDENT = " " * 10


@dataclass(frozen=True)
class Finding:
    """What was checked, and its state; `mend` is '' if nothing needs to be done."""

    name: str
    status: str
    text: str
    mend: str = ""


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Options of the command."""

    json: Path | None = option("write the findings as JSON; - is standard output", "OUT")


COMMAND = Command("doctor", __doc__, DoctorOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Print the findings as they arrive; return 1 if something is missing, else 0."""
    args = COMMAND.read(arguments)
    findings = show_findings(examine(), text_stream([args.json]))
    record = {"version": describe_version(), "findings": [asdict(finding) for finding in findings]}
    text = json.dumps(record, indent=1) + "\n"
    write_outputs([(args.json, lambda path: write_text(path, text))])
    return int(any(finding.status == MISSING for finding in findings))


def show_findings(findings: Iterable[Finding], stream: TextIO) -> list[Finding]:
    """Show findings as they arrive, then their number; return them."""
    shown = []
    for finding in findings:
        shown.append(finding)
        lines = _wrap(f"{finding.status:<{len(_INDENT)}}{finding.name}: {finding.text}")
        if finding.mend:
            lines += _wrap(f"{_INDENT}-> {finding.mend}")
        show("\n".join(lines), stream)
        # The next finding may take a while.
        stream.flush()
    statuses = [finding.status for finding in shown]
    missing, warnings = statuses.count(MISSING), statuses.count(WARNING)
    show(f"{len(shown)} checks: {missing} missing, {warnings} with a warning", stream)
    return shown


def _wrap(text: str) -> list[str]:
    # Paths and commands are not broken, so that they can be copied.
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )


def examine() -> Iterator[Finding]:
    """Yield the findings as they arrive; folders are the working, the temporary and the cache's."""
    checks: list[tuple[str, Callable[[], Iterable[Finding]], str]] = [
        ("ASDF", look_at_asdf, "Reinstall ASDF in a fresh environment"),
        ("torch", look_at_torch, _PAIR),
        ("GPU", look_at_gpus, "Check whether nvidia-smi works"),
        ("libsndfile", look_at_libsndfile, "pip install --upgrade soundfile"),
        ("PyAV", look_at_pyav, "pip install av"),
        ("machine", look_at_machine, ""),
    ]
    cache = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    written = [Path.cwd(), Path(tempfile.gettempdir()), Path(cache).expanduser()]
    for folder in dict.fromkeys(map(Path.absolute, written)):
        checks.append((f"folder {folder}", partial(look_at_folder, folder), _ELSEWHERE))
    for name, look, mend in checks:
        try:
            yield from look()
        except Exception as error:
            reason = str(error).strip() or type(error).__name__
            yield Finding(name, MISSING, reason.splitlines()[0], mend)


def look_at_asdf() -> Iterator[Finding]:
    """Yield the versions of Python and ASDF, and which extras are installed."""
    yield Finding("Python", OK, f"{platform.python_version()}, {sys.executable}")
    yield Finding("ASDF", OK, f"{asdf.__version__}, {Path(asdf.__file__).resolve().parent}")
    neighbour = clash.describe_neighbour()
    if neighbour:
        yield Finding("import name", WARNING, neighbour)
    try:
        requirements = metadata.requires(clash.DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        text = "unknown: ASDF is not installed but runs from a folder on the path"
        yield Finding("extras", OK, text, "pip install -e . in that folder")
        return
    packages: dict[str, list[str]] = {}
    for requirement in requirements:
        match = _OF_EXTRA.match(requirement)
        # An extra may refer to another one.
        if match and match[1] != clash.DISTRIBUTION and match[2] not in _FOR_DEVELOPERS:
            packages.setdefault(match[2], []).append(match[1])
    absent = [extra for extra, names in packages.items() if not all(map(_is_installed, names))]
    installed = [extra for extra in packages if extra not in absent]
    text = f"installed: {', '.join(installed) or 'none'}"
    mend = ""
    if absent:
        text += f"; not installed: {', '.join(absent)}"
        mend = f"where needed: pip install '{clash.DISTRIBUTION}[{','.join(absent)}]'"
    yield Finding("extras", OK, text, mend)


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def look_at_torch() -> Iterator[Finding]:
    """Yield the versions of torch and torchaudio, and whether it computes and compiles."""
    build = installed_torch()
    if not build.version:
        yield Finding("torch", MISSING, "not installed", f"pip install {TORCH_PAIR}")
        return
    import torch

    if not _computes(torch.device("cpu")):
        yield Finding("torch", MISSING, f"{build} computes wrong values on the CPU", _PAIR)
        return
    yield Finding("torch", OK, str(build))
    import torchaudio

    yield Finding("torchaudio", OK, str(torchaudio.__version__))
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        text = "no C++ compiler: computing.compile = True would fail"
        yield Finding("compiling", WARNING, text, "Install g++ and python3-dev where needed")


def look_at_gpus() -> Iterator[Finding]:
    """Yield each GPU with its properties and a test, or why none can be used."""
    import torch

    from asdf.distributed.devices import usable_gpus
    from asdf.distributed.gpus import look_at_gpus as look
    from asdf.settings.sections import Computing

    seen = look()
    try:
        count = usable_gpus(Computing(), seen)
    except UsageError as error:
        yield Finding("GPU", MISSING, str(error))
        return
    if not count:
        text = f"none: computing on the CPU. Detected: {seen.describe()}"
        mend = "In a Slurm job request one (--gres=gpu:1); elsewhere check whether nvidia-smi "
        yield Finding("GPU", WARNING, text, f"{mend}lists one, a container needs --gpus all")
        return
    for number in range(count):
        device = torch.device("cuda", number)
        properties = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        text = (
            f"{properties.name}, compute capability {properties.major}.{properties.minor}, "
            f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
        )
        if not _computes(device):
            mend = "Compare with nvidia-smi -q (ECC errors); use another GPU (CUDA_VISIBLE_DEVICES)"
            yield Finding(f"GPU {number}", MISSING, f"{text}: it computes wrong values", mend)
        elif free < total / 2:
            mend = "nvidia-smi lists the programs; choose a GPU with CUDA_VISIBLE_DEVICES"
            yield Finding(f"GPU {number}", WARNING, f"{text}: in use by another program", mend)
        else:
            yield Finding(f"GPU {number}", OK, text)


def _computes(device: torch.device) -> bool:
    """Whether the gradient of a product of matrices is right."""
    import torch

    left = torch.full((_SIZE, _SIZE), 0.5, device=device, requires_grad=True)
    (left @ torch.full((_SIZE, _SIZE), 0.5, device=device)).sum().backward()
    assert left.grad is not None
    return float(left.grad.sum()) == 0.5 * _SIZE**3


def look_at_libsndfile() -> Iterator[Finding]:
    """Yield which formats survive a round trip: a library may list one without its codec."""
    import numpy as np
    import soundfile

    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE)
    works = []
    for name, (container, subtype) in _FORMATS.items():
        file = io.BytesIO()
        with suppress(soundfile.LibsndfileError, ValueError):
            soundfile.write(file, tone, SAMPLE_RATE, format=container, subtype=subtype)
            file.seek(0)
            decoded, _ = soundfile.read(file)
            # Lossy codecs delay and pad; their level is correct within a tenth.
            if abs(decoded.std() / tone.std() - 1) < 0.1:
                works.append(name)
    text = f"{soundfile.__libsndfile_version__}: {', '.join(works)}"
    fails = [name for name in _FORMATS if name not in works]
    if fails:
        status = MISSING if {"wav", "flac"} & set(fails) else WARNING
        text += f"; not {', '.join(fails)}"
        yield Finding("libsndfile", status, text, "pip install --upgrade soundfile")
    else:
        yield Finding("libsndfile", OK, text)


def look_at_pyav() -> Iterator[Finding]:
    """Yield the versions of PyAV, which decodes what libsndfile does not."""
    import av

    version = ".".join(map(str, av.library_versions["libavcodec"]))
    text = f"{av.__version__}, libavcodec {version}: m4a, mp4, aac, webm and others"
    yield Finding("PyAV", OK, text)


def look_at_machine(system: str = sys.platform) -> Iterator[Finding]:
    """Yield the system, cores, memory and shared memory."""
    is_linux = system.startswith("linux")
    if is_linux:
        yield Finding("system", OK, f"Linux {platform.release()}")
    else:
        name = {"darwin": "macOS", "win32": "Windows"}.get(system, system)
        text = (
            f"{name}: scoring on the CPU (score, Detector, evaluate, report) should work. Not "
            "supported: training, several processes or GPUs, launching runs, Slurm"
        )
        yield Finding("system", WARNING, text, "Train on Linux; on Windows, use WSL")
    cores = usable_cores()
    text = f"{cores} usable of {os.cpu_count()}"
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > cores:
        text += f", but OMP_NUM_THREADS={threads}: threads would compete for cores"
        yield Finding("cores", WARNING, text, f"export OMP_NUM_THREADS={cores}, or unset it")
    else:
        yield Finding("cores", OK, text)
    if not is_linux:
        return
    numbers = re.findall(r"(\w+): +(\d+) kB", Path("/proc/meminfo").read_text())
    sizes = {name: 1024 * int(number) / _GIB for name, number in numbers}
    text = f"{sizes['MemAvailable']:.1f} of {sizes['MemTotal']:.1f} GiB available"
    yield Finding("memory", OK if sizes["MemAvailable"] > 4 else WARNING, text)
    free = shutil.disk_usage("/dev/shm").free
    text = f"{free / _GIB:.1f} GiB free"
    if free < _GIB:
        mend = "computing.network_dataloader_workers = 0, or a container with --shm-size=8g"
        yield Finding("/dev/shm", WARNING, f"{text}: loader processes may fail", mend)
    else:
        yield Finding("/dev/shm", OK, text)


def look_at_folder(folder: Path) -> Iterator[Finding]:
    """Yield the space on a folder's disk, after writing, locking and renaming a file in it."""
    existing = folder
    # A run makes missing folders, on the disk of the nearest one that exists.
    while not existing.is_dir():
        existing = existing.parent
    name = f"folder {folder}"
    free = shutil.disk_usage(existing).free
    text = f"{free / _GIB:.1f} GiB free"
    if existing != folder:
        text += f" (of {existing}: it does not exist yet)"
    try:
        with tempfile.TemporaryDirectory(prefix=".asdf-doctor.", dir=existing) as own:
            path = Path(own) / "part"
            with path.open("wb") as file:
                file.write(b"asdf doctor")
                file.flush()
                os.fsync(file.fileno())
                has_locks = can_lock(file)
            path.replace(path.with_name("whole"))
    except OSError as error:
        text += f"; cannot be written: {error.strerror or error}"
        yield Finding(name, MISSING, text, _ELSEWHERE)
        return
    remarks = []
    if not has_locks:
        remarks.append("no locks: two runs in one folder detect each other a minute late")
    if free < 2 * _GIB:
        remarks.append("little space: checkpoints of a large front end take 4 GB each")
    if remarks:
        yield Finding(name, WARNING, f"{text}; {'; '.join(remarks)}", _ELSEWHERE)
        return
    yield Finding(name, OK, text)
