"""Names of networks: repositories on the hub, and published detectors with their facts.

Invariant: a name 'ORG/NAME' without 'hub:' that exists on this machine, looks like a file, or is in
a folder of this machine is never taken for a name on the hub, so that a mistyped path sends no
request.

Each fact in `detectors.json` is in the source that its entry names; one that no source states is
missing there, and shown as unknown. None of the error rates was measured with ASDF; CPU times were,
by `python -m benchmarks.detector_speed`, for networks of these sizes with random weights.
Downloads, names and words in a name are not facts. A recommendation follows only from published
numbers and licences.

Sources, read in November 2026: the READMEs and licences of the named repositories on GitHub; for
AntiDeepfake `protocols/README.md` and the table of EERs in its README up to 16 October 2025
(commit dca72e0 removed it when the authors corrected how they compute EERs); the model cards and
result files of the Speech Anti-Spoofing Arena for In-the-Wild and for DF-Arena; the model cards of
lab260's repositories on the hub, of SpeechAntiSpoofingBenchmarks/WhisperMFCCMesoNet and of
garystafford/wav2vec2-deepfake-voice-detector; for the other classifiers of transformers, programs
that use them; configurations in the package deepfense 0.2.2; digests are of the files in
clovaai/aasist at commit a04c986, and in eurecom-asp/RawGAT-ST-antispoofing at commit e3b049f.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from asdf.errors import AsdfError, UsageError
from asdf.runs.files import sha256_of
from asdf.settings.front_end_values import BUNDLE
from asdf.shipped import SMALL, shipped_detector
from asdf.text import did_you_mean, from_here, shorten

PREFIX = "hub:"
SUFFIXES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
"""Suffixes of files with weights."""

# The hub's rules: letters, digits, '-', '_' and '.'; the last three not at either end.
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[A-Za-z0-9_]+"
_REPOSITORY = re.compile(rf"(?:{_PART})/(?:{_PART})")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
# Refused by huggingface_hub, whose cache separates the parts of a name by '--'.
_FORBIDDEN = ("--", "..")
_MAX_LENGTH = 96
# A repository name with such a suffix is a path that does not exist.
_OF_FILES = (*SUFFIXES, ".onnx", ".ts", ".json", ".git", ".tar", ".zip", ".wav", ".flac", ".mp3")


@dataclass(frozen=True)
class HubName:
    """A repository on the hub.

    Attributes:
        repository: Name of the repository, 'ORG/NAME'.
        revision: Branch, tag or commit; None: the newest commit of the branch main.
        is_explicit: Whether it was written with 'hub:'; otherwise it may be a missing path.
        kind: Kind of the repository, in the hub's terms.
    """

    repository: str
    revision: str | None = None
    is_explicit: bool = True
    kind: Literal["model", "dataset"] = "model"

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{PREFIX}{self.repository}{revision}"


def parse_name(text: str | Path) -> HubName | None:
    """Return the name on the hub in `text`; None if it is a path.

    Raises:
        UsageError: it begins with 'hub:' but is not a valid repository name.
    """
    text = str(text)
    is_explicit = text.startswith(PREFIX)
    repository, at, revision = text.removeprefix(PREFIX).partition("@")
    # The revision becomes a part of a path in the cache.
    is_name = (
        _REPOSITORY.fullmatch(repository) is not None
        and len(repository) <= _MAX_LENGTH
        and not any(part in repository for part in _FORBIDDEN)
        and (not at or _REVISION.fullmatch(revision) is not None)
        and not revision.endswith("/")
        and ".." not in revision
    )
    if is_explicit and not is_name:
        raise UsageError(
            f"'{shorten(text)}' is not a hub name: write hub:ORG/NAME or hub:ORG/NAME@REVISION, "
            "where REVISION is a branch, a tag or a commit, such as "
            "hub:nii-yamagishilab/mms-300m-anti-deepfake."
        )
    if not is_name:
        return None
    # If a folder 'networks' exists here, 'networks/epoch' is a mistyped path.
    is_here = (
        repository.lower().endswith(_OF_FILES)
        or Path(text).exists()
        or Path(repository).parent.exists()
    )
    if is_here and not is_explicit:
        return None
    return HubName(repository, revision or None, is_explicit)


def hub_name(weights: str | None) -> HubName | None:
    """Return the repository on the hub in `front_end.weights`; None for other values.

    Raises:
        UsageError: it begins with 'hub:' but is not a valid repository name.
    """
    return None if weights is None or weights.startswith(BUNDLE) else parse_name(weights)


MEASURED_ON = "one thread of an AMD EPYC under other load, float32"
HARDEST = "Deepfake-Eval-2024"
_IN_THE_WILD = "In-the-Wild"
_NOT_STATED = "not stated"
_FACTS = Path(__file__).with_name("detectors.json")
_COMMERCIAL = {
    "MIT": True,
    "Apache-2.0": True,
    "Apache 2.0": True,
    "BSD 3-Clause": True,
    "CC BY-NC-SA 4.0": False,
    "DF Arena, non-commercial": False,
}
_FLOAT32_BYTES = 4
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9}
_NUMBER = re.compile(r"([\d.,]+) ?([kMB]?)")


@dataclass(frozen=True)
class PublishedEer:
    """A published equal error rate.

    Attributes:
        percent: Equal error rate, in %.
        remark: Source or method of the measurement, if it is not the detector's `protocol`.
    """

    evaluation_set: str
    percent: float
    remark: str = ""


@dataclass(frozen=True)
class KnownDetector:
    """A published detector with its facts; None for facts that the sources do not state.

    Attributes:
        name: Name of the repository on the hub, or the authors' name.
        trained_on, trained_on_short: Training sets in words, and in short for a table.
        protocol: Part of a recording that the authors score.
        weights: Location of the weights.
        command: Command by which ASDF reads them.
        paper: Number of the paper on arXiv, or the conference.
        on_hub: Whether it is downloaded by its name.
        overlap: Sets that are training data, on which EERs mean little, in words.
        parameters: Number of parameters, as stated, such as 300 M + 447 k.
        licence: Licence of the weights.
        size_bytes, sha256: Size and SHA-256 of the file with the weights.
        cpu_seconds_per_minute: CPU seconds per minute of audio (`MEASURED_ON`).
    """

    name: str
    trained_on: str
    trained_on_short: str
    protocol: str
    weights: str
    command: str
    paper: str
    on_hub: bool = False
    overlap: str | None = None
    eers: tuple[PublishedEer, ...] = ()
    parameters: str | None = None
    licence: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    cpu_seconds_per_minute: float | None = None

    @property
    def short_name(self) -> str:
        """Name without the organisation."""
        return self.name.rpartition("/")[2]

    @property
    def commercial_use(self) -> bool | None:
        """Whether the licence of the weights allows commercial use; None if unknown."""
        return _COMMERCIAL.get(self.licence or "")

    @property
    def parameter_count(self) -> int | None:
        """The stated number of parameters; None if not stated."""
        if self.parameters is None:
            return None
        numbers = _NUMBER.findall(self.parameters)
        return round(sum(float(text.replace(",", "")) * _UNITS[unit] for text, unit in numbers))

    @property
    def weights_bytes(self) -> int | None:
        """The size of the weights: of their file, or approximately as float32 numbers."""
        if self.size_bytes is not None or self.parameter_count is None:
            return self.size_bytes
        return _FLOAT32_BYTES * self.parameter_count

    def percent_on(self, evaluation_set: str) -> float | None:
        """Return the first stated EER on a set, in %; None if there is none."""
        percents = (eer.percent for eer in self.eers if eer.evaluation_set == evaluation_set)
        return next(percents, None)


@dataclass(frozen=True)
class DetectorTable:
    """Detectors that are shown in one table.

    Attributes:
        sets: Evaluation sets of its columns, with their short names.
    """

    title: str
    sets: Mapping[str, str]
    detectors: Sequence[KnownDetector]


@cache
def detector_tables() -> tuple[DetectorTable, ...]:
    """Return all published detectors, in tables by their training sets or authors."""
    tables: dict[str, DetectorTable] = {}
    for group in json.loads(_FACTS.read_text(encoding="utf-8")):
        title, sets = group["title"], group["sets"]
        detectors = list(tables[title].detectors) if title in tables else []
        for own in group["detectors"]:
            by_name = {
                "weights": f"https://huggingface.co/{own['name']}",
                "command": f'asdf.Detector("{PREFIX}{own["name"]}")',
            }
            facts = {**by_name, **group["shared"], **own}
            eers = []
            for remark, percents in facts.get("eers", {}).items():
                eers += [PublishedEer(name, percent, remark) for name, percent in percents.items()]
            detectors.append(KnownDetector(**{**facts, "eers": tuple(eers)}))
        tables[title] = DetectorTable(title, sets, detectors)
    return tuple(tables.values())


def known_detectors() -> list[KnownDetector]:
    """Return all published detectors, table by table."""
    return [detector for table in detector_tables() for detector in table.detectors]


def shipped_known() -> KnownDetector:
    """Return the facts about the shipped detector, in the form of those of published ones."""
    facts = shipped_detector()
    rates = {"held-out attacks and speakers": facts.eer, facts.elsewhere: facts.elsewhere_eer}
    return KnownDetector(
        name=SMALL,
        trained_on="; ".join([facts.trained_on, *map(": ".join, facts.sources.items())]),
        trained_on_short="mini",
        overlap="mini",
        protocol="whole recordings",
        weights="a part of ASDF",
        command="python -m asdf score call.mp3",
        paper="docs/reproduce.md",
        eers=tuple(PublishedEer(name, rate) for name, rate in rates.items()),
        parameters=f"{facts.parameters:,}",
        licence=facts.licence,
        size_bytes=facts.path.stat().st_size,
        sha256=facts.sha256,
        cpu_seconds_per_minute=0.4,
    )


@dataclass(frozen=True)
class Recommendation:
    """A recommended detector for a need.

    Attributes:
        need: Need in a few words.
        why: Rule of the choice, with the decisive number.
    """

    need: str
    detector: KnownDetector
    why: str


def recommended() -> list[Recommendation]:
    """Return a detector for each of three needs."""
    detectors = known_detectors()
    measured = [each for each in detectors if each.percent_on(HARDEST) is not None]
    best = min(measured, key=lambda each: each.percent_on(HARDEST) or 0.0)
    # An error rate is meaningless if the set may be training data.
    usable = [each for each in detectors if each.commercial_use]
    stated = [each for each in usable if each.trained_on_short != _NOT_STATED]
    measured = [each for each in stated if each.percent_on(_IN_THE_WILD) is not None]
    free = min(measured, key=lambda each: each.percent_on(_IN_THE_WILD) or 0.0)
    return [
        Recommendation("offline and small", shipped_known(), "included in ASDF; needs no download"),
        Recommendation(
            "best known error rates",
            best,
            f"the lowest EER on {HARDEST}, {best.percent_on(HARDEST):.2f} %",
        ),
        Recommendation(
            "commercial use allowed",
            free,
            f"the lowest EER on {_IN_THE_WILD} under such a licence and with known training data, "
            f"{free.percent_on(_IN_THE_WILD):.2f} %",
        ),
    ]


def find_published(named: Path) -> HubName | Path | None:
    """Return the location of a published detector with a name in the list of `detectors`.

    Returns:
        Its repository on the hub; or the file with its weights in the current folder, which is
        verified if its SHA-256 is known; None if `named` exists.

    Raises:
        UsageError: it is neither a path nor such a name.
        AsdfError: that file is missing, or another one; the message gives its location, and the
            command.
    """
    # A front end of torchaudio is named for what it is where networks are read.
    if named.exists() or str(named).startswith(BUNDLE):
        return None
    wanted = str(named).lower()
    for detector in known_detectors():
        if wanted == detector.short_name.lower():
            return HubName(detector.name) if detector.on_hub else _local_weights(detector)
    files = [path.name for path in named.parent.glob("*") if path.suffix in SUFFIXES]
    problem = f"there is no file {named}{from_here(named)}"
    if len(named.parts) > 1:
        raise UsageError(f"{problem}.{did_you_mean(named.name, files)} Check the path.")
    names = [SMALL, *(detector.short_name for detector in known_detectors())]
    # Of a family, the beginning of its names is what people remember.
    family = [name for name in names if name.lower().startswith(wanted)]
    near = f" Did you mean '{family[0]}'?" if family else did_you_mean(wanted, [*files, *names])
    raise UsageError(
        f"{problem}, and no detector of that name.{near} `python -m asdf detectors` lists them."
    )


def _local_weights(detector: KnownDetector) -> Path:
    """Return the path of a detector's weights in the current folder."""
    # python -m asdf import FILE net.pt
    path = Path(detector.command.split()[-2])
    if not path.is_file():
        raise AsdfError(
            f"{detector.name} is a published detector whose weights are not here. Download them "
            f"from {detector.weights}, then convert the file to a network of ASDF: "
            f"{detector.command}. In the folder with {path} the name is enough."
        )
    if detector.sha256 is not None and sha256_of(path) != detector.sha256:
        raise AsdfError(
            f"{path} is not the file of {detector.name} that its authors published: its SHA-256 is "
            f"not {detector.sha256}. Download it again from {detector.weights}, or pass {path} "
            "itself if you mean it."
        )
    return path


def nearest_known(repository: str) -> str:
    """Return " Did you mean 'hub:ORG/NAME'?" for the closest known name, or ''."""
    names = [detector.name for detector in known_detectors() if detector.on_hub]
    return did_you_mean(repository, names, prefix=PREFIX)
