"""List published detectors: training data, error rates, licences, and how to use them.

    python -m asdf detectors                            # all of them, in a table
    python -m asdf detectors mms-300m-anti-deepfake     # everything that is known of one
    python -m asdf detectors --json -                   # everything, as JSON

Those of the hub are used by their names, and downloaded when they are used first:

    python -m asdf score hub:nii-yamagishilab/mms-300m-anti-deepfake call.mp3

The facts are those of the sources; nothing here was measured with ASDF. An empty cell, or "not
known here", is a fact that no source states. An error rate says how a detector does on that set: on
other recordings, and on sets that are made of its training data, it says little.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap

from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import show, text_stream
from asdf.errors import UsageError
from asdf.hub import KnownDetector, known_detectors
from asdf.runs.files import write_text
from asdf.text import aligned, did_you_mean

_HEADINGS = ("detector", "parameters", "trained on", "published EERs, %", "licence")
# In this order; further sets of a detector follow.
_SHORT_SETS = {
    "ASVspoof 2019 LA": "19LA",
    "ASVspoof 2021 LA": "21LA",
    "ASVspoof 2021 DF": "21DF",
    "In-the-Wild": "In-the-Wild",
    "Deepfake-Eval-2024": "Deepfake-Eval-2024",
}
_NOT_KNOWN = "not known here"
_MEGABYTE = 1_000_000
_LABEL_WIDTH = 12
_TEXT_WIDTH = 84
_NOTES = """\
19LA, 21LA, 21DF: ASVspoof 2019 LA (trained on its training part, measured on the evaluation part),
2021 LA and DF. 74,000 h: speech in over 100 languages, with nearly every set that the field trains
on, so that EERs on those would mean little. All numbers are the sources'; none was measured with
ASDF. `python -m asdf detectors NAME` shows who measured them, the training sets, how much of a
recording is scored, size and SHA-256, and how to use it."""


@dataclass(frozen=True, kw_only=True)
class DetectorsOptions:
    """Options of the command."""

    name: str | None = argument("show everything of this one", "NAME", default=None)
    json: Path | None = option("write everything as JSON; - is standard output", "OUT")


COMMAND = Command("detectors", __doc__, DetectorsOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Show the detectors; return 0.

    Raises:
        UsageError: there is none of that name.
        AsdfError: the JSON cannot be written.
    """
    args = COMMAND.read(arguments)
    detectors = known_detectors()
    if args.name is not None:
        detectors = _named(args.name, detectors)
    stream = text_stream([args.json])
    if args.json is not None:
        content = json.dumps([asdict(detector) for detector in detectors], indent=2)
        write_text(args.json, content + "\n")
    if args.name is not None:
        show("\n\n".join(map(_details, detectors)), stream)
    elif args.json is None:
        show(_table(detectors), stream)
    return 0


def _named(name: str, detectors: Sequence[KnownDetector]) -> list[KnownDetector]:
    """Return the detectors of a name, with or without the organisation, in any case of letters."""
    wanted = name.removeprefix("hub:").lower()
    named = []
    names = []
    for detector in detectors:
        short = detector.name.rpartition("/")[2]
        names += [detector.name, short]
        if wanted in (detector.name.lower(), short.lower()):
            named.append(detector)
    if not named:
        raise UsageError(
            f"no detector '{name}' is known here.{did_you_mean(wanted, names)} `python -m asdf "
            "detectors` lists them. Any other repository of the hub is used by its name as well: "
            "hub:ORG/NAME."
        )
    return named


def _table(detectors: Sequence[KnownDetector]) -> str:
    rows: list[Sequence[str]] = [_HEADINGS]
    for detector in detectors:
        rows.append(
            (
                _shown_name(detector),
                detector.parameters or "",
                detector.trained_on_short,
                _short_eers(detector),
                detector.licence or "",
            )
        )
    return "\n".join([*aligned(rows), "", _NOTES])


def _short_eers(detector: KnownDetector) -> str:
    """Return the EERs on the sets that most are measured on, the first stated of each."""
    percents: dict[str, float] = {}
    for eer in detector.eers:
        percents.setdefault(eer.evaluation_set, eer.percent)
    cells = []
    for name, short in _SHORT_SETS.items():
        if name in percents:
            cells.append(f"{short} {percents[name]:.2f}")
    return ", ".join(cells)


def _details(detector: KnownDetector) -> str:
    size = _NOT_KNOWN
    if detector.size_bytes is not None:
        size = f"{detector.size_bytes / _MEGABYTE:,.1f} MB ({detector.size_bytes:,} bytes)"
    rows = {
        "trained on": detector.trained_on,
        "overlap": detector.overlap or _NOT_KNOWN,
        "scored": detector.protocol,
        "parameters": detector.parameters or _NOT_KNOWN,
        "licence": detector.licence or _NOT_KNOWN,
        "size": size,
        "SHA-256": detector.sha256 or _NOT_KNOWN,
        "weights": detector.weights,
        "use": detector.command,
        "paper": detector.paper,
    }
    lines = [_shown_name(detector)]
    for label, text in rows.items():
        first, *others = wrap(text, _TEXT_WIDTH, break_on_hyphens=False, break_long_words=False)
        lines.append(f"  {label:<{_LABEL_WIDTH}}{first}")
        lines += [" " * (_LABEL_WIDTH + 2) + other for other in others]
    return "\n".join([*lines, *_eer_lines(detector)])


def _eer_lines(detector: KnownDetector) -> list[str]:
    """Return the EERs under what is the same of them."""
    if not detector.eers:
        return [f"  EERs as published: {_NOT_KNOWN}"]
    by_remark: dict[str, list[tuple[str, str]]] = {}
    for eer in detector.eers:
        row = (f"    {eer.evaluation_set}", f"{eer.percent:.2f} %")
        by_remark.setdefault(eer.remark, []).append(row)
    lines = []
    for remark, rows in by_remark.items():
        heading = f"EERs as published, {remark}" if remark else "EERs as published"
        lines += wrap(heading, _TEXT_WIDTH, initial_indent="  ", subsequent_indent="  ")
        lines += aligned(rows, right=(1,))
    return lines


def _shown_name(detector: KnownDetector) -> str:
    """Return the name as commands take it."""
    return f"hub:{detector.name}" if detector.on_hub else detector.name
