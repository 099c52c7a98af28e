"""Explain scores: the stretches of time and the frequency bands that a score depends on.

    python -m asdf why net.pt call.mp3 -o call
    python -m asdf why net.pt call.mp3 -o call --by both --filler silence --start 12

OUT.json has the maps of all recordings, and each recording gets a plot next to it. A map is of one
window: the one with the lowest score, or the one that starts at --start. Each takes hundreds of
passes through the network. After Ctrl-C, the same command continues with the next recording.

Exit status: 0 all recordings explained, 1 some could not be, 2 error in the command line.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from asdf.commands.journal import Journal, stamp_of
from asdf.commands.options import Command, argument, option
from asdf.commands.outputs import base_of_several, show
from asdf.commands.score import NetworkOptions
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import digest_of, write_text
from asdf.runs.streams import show_error
from asdf.text import numbered, printable

if TYPE_CHECKING:
    from asdf.extras.forensic.why.explaining import Explainer
    from asdf.extras.forensic.why.explanation import Method


@dataclass(frozen=True, kw_only=True)
class WhyOptions(NetworkOptions):
    """Options of the command."""

    recordings: tuple[str, ...] = argument(
        "recordings to explain, by file, folder or list", "FILE|FOLDER|LIST"
    )
    output: Path | None = option(
        "write OUT.json with the maps, and plots next to it", "OUT", short="-o"
    )
    by: Literal["occlusion", "gradients", "both"] = option(
        "method (%(default)s: cells are replaced; gradients: integrated gradients, which need the "
        "package captum)",
        default="occlusion",
    )
    filler: Literal["noise", "silence"] = option(
        "replacement of cells (%(default)s at the recording's level in each band)", default="noise"
    )
    start: float | None = option(
        "start of the explained window in seconds (the window with the lowest score)", "S"
    )


COMMAND = Command("why", __doc__, WhyOptions)


def main(arguments: list[str]) -> int:
    """Explain the given recordings.

    Returns:
        0 if all are explained, 1 if one could not be, 130 after Ctrl-C.

    Raises:
        UsageError: an option is wrong, a path does not exist, or captum is missing.
        AsdfError: the network cannot be read, or an output cannot be written.
    """
    args = COMMAND.read(arguments)
    if args.output is None:
        raise UsageError("--output OUT is missing: the common name of the JSON and the plots.")
    base = base_of_several("--output", args.output, "why", (".json", ".svg"))
    # torch is needed from here on, and takes seconds to import.
    from asdf.commands.score import open_detector
    from asdf.commands.score_recordings import find_recordings
    from asdf.extras.forensic.why.explaining import Explainer
    from asdf.extras.forensic.why.explanation import Options

    paths = find_recordings(args.recordings).paths
    detector = open_detector(args)
    methods: list[Method] = ["occlusion", "gradients"]
    options = Options(
        methods=methods if args.by == "both" else [args.by], filler=args.filler, start_s=args.start
    )
    explainer = Explainer(detector, options, progress=True)
    source = Path(detector.source)
    # Everything that a map depends on.
    work: dict[str, Any] = {
        "command": "why",
        "options": options.entry(),
        # A commit on the hub never changes.
        "network": digest_of(source) if source.exists() else detector.source,
        "threshold": detector.threshold,
        "paths": paths,
    }
    # with_suffix would not do: a name may contain a dot, as in 'call.2'.
    output = base.with_name(f"{base.name}.json")

    def still_holds(entry: dict[str, Any]) -> bool:
        return bool(entry["stamp"] == stamp_of(paths[entry["index"]]))

    try:
        with closing(Journal(output, work, len(paths), still_holds)) as journal:
            failed = _explain_all(explainer, paths, output, base.name, journal)
    except KeyboardInterrupt:
        show_error(f"stopped by Ctrl-C: finished explanations are saved next to {output}")
        return 130
    return int(failed > 0)


def _explain_all(
    explainer: Explainer, paths: list[str], output: Path, base: str, journal: Journal
) -> int:
    """Write the explanations; return how many recordings could not be explained."""
    from asdf.extras.forensic.why.explanation import explanation_svg, explanation_text

    names = [printable(path, one_line=True) for path in paths]
    pictures = numbered([f"{base} - {Path(name).stem}" for name in names])
    failed = 0
    for index, path in enumerate(paths):
        if index in journal:
            continue
        try:
            explanation = replace(explainer.explain(path), name=names[index])
        except (AsdfError, OSError) as error:
            failed += 1
            show_error(f"{names[index]}: not explained: {error}")
            continue
        show(explanation_text(explanation), sys.stderr)
        svg = output.with_name(f"{pictures[index]}.svg")
        svg.parent.mkdir(parents=True, exist_ok=True)
        # The plot first: an entry in the journal means that its plot is written.
        write_text(svg, explanation_svg(explanation))
        entry = {**explanation.entry(), "picture": svg.name}
        journal.add(index, {"why": entry, "stamp": stamp_of(path)})
    entries = [journal[index]["why"] for index in range(len(paths)) if index in journal]
    content = {"network": explainer.network, "recordings": entries}
    write_text(output, json.dumps(content, indent=1) + "\n")
    # Removed last: until then it is the only copy.
    journal.remove()
    show(f"written to {output}, with {len(entries)} plots", sys.stderr)
    return failed
