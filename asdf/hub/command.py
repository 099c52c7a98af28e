"""List published detectors with their training data, error rates, licences and usage.

    python -m asdf detectors                            # recommendations and all detectors
    python -m asdf detectors --commercial               # those that allow commercial use
    python -m asdf detectors mms-300m-anti-deepfake     # all details of one
    python -m asdf detectors --json -                   # all details of all, as JSON
    python -m asdf score hub:nii-yamagishilab/mms-300m-anti-deepfake call.mp3

Every command that takes a network accepts these names, with or without hub:ORG/. Detectors on the
hub are downloaded on first use; of others, the file with the weights must be in the current folder.

Facts are quoted from the sources, except for CPU times and the facts about `small`, which were
measured with ASDF; an empty cell means that no source states the fact. An error rate says little
about other recordings, or about a detector that was trained on similar data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap

from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show, text_stream
from asdf.errors import UsageError
from asdf.hub import (
    HARDEST,
    MEASURED_ON,
    DetectorTable,
    KnownDetector,
    detector_tables,
    known_detectors,
    recommended,
    shipped_known,
)
from asdf.runs.files import write_text
from asdf.shipped import SMALL, shipped_detector
from asdf.text import aligned, did_you_mean

_SHORT_LICENCES = {
    "CC BY-NC-SA 4.0": "BY-NC-SA",
    "DF Arena, non-commercial": "NC",
    "BSD 3-Clause": "BSD",
    None: "",
}
_NOT_KNOWN = "not known here"
_MEGABYTE = 1_000_000
_GIGABYTE = 1_000_000_000
_LABEL_WIDTH = 12
_TEXT_WIDTH = 84
_WIDTH = 80
_NOTES = """\
EERs in %, as their sources state them, not measured with ASDF. 19LA, 21LA,
21DF: ASVspoof 2019 LA, 2021 LA and DF. ITW: In-the-Wild, public figures. DFE24:
Deepfake-Eval-2024, what circulated in 2024. BY-NC-SA: CC BY-NC-SA 4.0, no
commercial use. NC: a licence of its own, no commercial use. No licence: none is
known here, so ask the authors.

`python -m asdf detectors NAME` shows who measured an EER, the training sets,
how much of a recording is scored, size and SHA-256, and how to use it."""


@dataclass(frozen=True, kw_only=True)
class DetectorsOptions:
    """Options of the command."""

    name: str | None = argument("detector to show in detail", "NAME", default=None)
    commercial: bool = flag("show only detectors whose licence is known to allow commercial use")
    json: Path | None = option("write all details as JSON; - is standard output", "OUT")


COMMAND = Command("detectors", __doc__, DetectorsOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Show the detectors; return 0.

    Raises:
        UsageError: there is no detector with that name.
        AsdfError: the JSON cannot be written.
    """
    args = COMMAND.read(arguments)
    detectors = [shipped_known(), *known_detectors()]
    if args.name is not None:
        wanted = args.name.removeprefix("hub:").lower()
        names = [name for each in detectors for name in (each.name, each.short_name)]
        detectors = [
            each for each in detectors if wanted in (each.name.lower(), each.short_name.lower())
        ]
        if not detectors:
            raise UsageError(
                f"no detector '{args.name}' is known here.{did_you_mean(wanted, names)} "
                "`python -m asdf detectors` lists all. Other repositories on the hub are used by "
                "name: hub:ORG/NAME."
            )
    if args.commercial:
        detectors = [each for each in detectors if each.commercial_use]
        if not detectors:
            raise UsageError(
                f"the licence of {args.name} is not known to allow commercial use. Leave "
                "--commercial out to see it, or leave the name out to see the detectors that do."
            )
    stream = text_stream([args.json])
    if args.json is not None:
        entries = []
        for detector in detectors:
            derived = {
                "commercial_use": detector.commercial_use,
                "approximate_bytes": detector.weights_bytes,
                "recommended_for": [
                    each.need for each in recommended() if each.detector == detector
                ],
            }
            entries.append({**asdict(detector), **derived})
        write_text(args.json, json.dumps(entries, indent=2) + "\n")
    if args.name is not None:
        show("\n\n".join(map(_details, detectors)), stream)
    elif args.json is None:
        show(_overview(detectors), stream)
    return 0


def _overview(shown: Sequence[KnownDetector]) -> str:
    """Return the recommendations, the tables and the notes."""
    indent = " " * 4
    needs = ["Which one?"]
    for choice in recommended():
        detector = choice.detector
        if detector in shown:
            text = f"{_size(detector)}, {_speed(detector)}, {detector.licence}; {choice.why}"
            if detector.name == SMALL:
                text += f". {shipped_detector().describe_worth()}"
            needs.append(f"  {choice.need}: {detector.short_name}")
            needs += wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)
    parts = ["\n".join(needs)]
    for table in detector_tables():
        detectors = [each for each in table.detectors if each in shown]
        if detectors:
            parts += [table.title, _table(detectors, table)]
        if detectors and HARDEST in table.sets:
            stated = [each.percent_on(HARDEST) for each in detectors]
            percents = [percent for percent in stated if percent is not None]
            words = (
                f"On {HARDEST} they err in {min(percents):.0f} to {max(percents):.0f} % of the "
                "recordings, where 50 % is guessing: none works on its own there."
            )
            parts.append("\n".join(wrap(words, _WIDTH)))
    return "\n\n".join([*parts, _NOTES])


def _table(detectors: Sequence[KnownDetector], table: DetectorTable) -> str:
    # Without EERs the number of parameters is left out as well.
    head = ("parameters", *table.sets.values()) if table.sets else ()
    rows: list[Sequence[str]] = [("detector", *head, "licence")]
    for detector in detectors:
        parameters = detector.parameters or ""
        if "XLS-R" in parameters:
            # A single number; the details have two.
            parameters = f"{(detector.parameter_count or 0) / _MEGABYTE:.0f} M"
        licence = _SHORT_LICENCES.get(detector.licence, detector.licence)
        percents = [detector.percent_on(name) for name in table.sets]
        eers = ["" if percent is None else f"{percent:.2f}" for percent in percents]
        cells = (parameters, *eers) if table.sets else ()
        rows.append((detector.short_name, *cells, str(licence)))
    return "\n".join(aligned(rows, right=range(1, len(head) + 1)))


def _size(detector: KnownDetector) -> str:
    size = detector.weights_bytes
    if size is None:
        return f"size {_NOT_KNOWN}"
    is_large = detector.size_bytes is None and size >= _GIGABYTE / 10
    unit, name = (_GIGABYTE, "GB") if is_large else (_MEGABYTE, "MB")
    about = "about " if detector.size_bytes is None else ""
    return f"{about}{size / unit:,.1f} {name}"


def _speed(detector: KnownDetector) -> str:
    seconds = detector.cpu_seconds_per_minute
    if seconds is None:
        return "time on a CPU not measured"
    return f"{seconds:.{int(seconds < 1)}f} s of a processor per minute of audio ({MEASURED_ON})"


def _details(detector: KnownDetector) -> str:
    size = _NOT_KNOWN
    if detector.size_bytes is not None:
        size = f"{_size(detector)} ({detector.size_bytes:,} bytes)"
    elif detector.weights_bytes is not None:
        size = f"{_size(detector)}, as float32"
    rows = {
        "trained on": detector.trained_on,
        "overlap": detector.overlap or _NOT_KNOWN,
        "scored": detector.protocol,
        "parameters": detector.parameters or _NOT_KNOWN,
        "licence": detector.licence or _NOT_KNOWN,
        "size": size,
        "speed": _speed(detector),
        "SHA-256": detector.sha256 or _NOT_KNOWN,
        "weights": detector.weights,
        "use": detector.command,
        "paper": detector.paper,
    }
    # The name as used in commands.
    name = f"hub:{detector.name}" if detector.on_hub else detector.name
    if detector.name == SMALL:
        name = f"{SMALL}, which comes with ASDF"
        rows["worth"] = shipped_detector().describe_worth()
    lines = [name]
    for label, text in rows.items():
        # Addresses and commands are copied, so they are never broken.
        first, *others = wrap(text, _TEXT_WIDTH, break_on_hyphens=False, break_long_words=False)
        lines.append(f"  {label:<{_LABEL_WIDTH}}{first}")
        lines += [" " * (_LABEL_WIDTH + 2) + other for other in others]
    if not detector.eers:
        lines.append(f"  EERs as published: {_NOT_KNOWN}")
    by_remark: dict[str, list[tuple[str, str]]] = {}
    for eer in detector.eers:
        cells = (f"    {eer.evaluation_set}", f"{eer.percent:.2f} %")
        by_remark.setdefault(eer.remark, []).append(cells)
    for remark, table in by_remark.items():
        heading = "EERs measured with ASDF" if detector.name == SMALL else "EERs as published"
        heading += f", {remark}" if remark else ""
        lines += wrap(heading, _TEXT_WIDTH, initial_indent="  ", subsequent_indent="  ")
        lines += aligned(table, right=(1,))
    return "\n".join(lines)
