"""Outputs of `python -m asdf score --why`: JSON with the maps, and a plot per recording.

Invariant: results are saved at once, so that the same command resumes after a stop; scores equal
those of the other outputs, because the same detector computes both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.outputs import base_of_several, show
from asdf.commands.score_journal import Journal, stamp_of
from asdf.commands.score_options import ScoreOptions
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import digest_of, write_text
from asdf.runs.streams import show_error
from asdf.text import printable

if TYPE_CHECKING:
    from asdf.attribution import Explainer, Explanation
    from asdf.scoring.detector import Detector

_SUFFIXES = (".json", ".svg")
_NAME_IN_FOLDER = "why"


@dataclass(frozen=True)
class WhyOutputs:
    """The paths of the outputs, and their maker.

    Attributes:
        base: Common path of the outputs, without suffix.
        explainer: Explainer of the recordings.
        work: Facts that maps depend on besides the recordings.
    """

    base: Path
    explainer: Explainer
    work: Mapping[str, Any]

    @property
    def json(self) -> Path:
        """Path of the JSON."""
        # with_suffix would not do: a name may contain a dot, as in 'call.2'.
        return self.base.with_name(f"{self.base.name}.json")

    def write(self, network: str, paths: Sequence[str], stdin_path: str) -> int:
        """Explain recordings and write the outputs; return how many could not be explained.

        A recording that fails is reported, and the others continue.
        """
        names = ["-" if path == stdin_path else printable(path, one_line=True) for path in paths]
        work = {**self.work, "paths": list(paths)}
        failed = 0
        pictures = _picture_names(self.base.name, names)

        def still_holds(entry: dict[str, Any]) -> bool:
            return bool(entry["stamp"] == stamp_of(paths[entry["index"]]))

        with closing(Journal(self.json, work, len(paths), still_holds)) as journal:
            for index, path in enumerate(paths):
                if index in journal:
                    continue
                try:
                    explanation = self.explainer.explain(path)
                except (AsdfError, OSError) as error:
                    failed += 1
                    show_error(f"{names[index]}: not explained: {error}")
                    continue
                self._add(journal, index, explanation, names[index], pictures[index])
            entries = [journal[index]["why"] for index in range(len(paths)) if index in journal]
            content = {"network": network, "recordings": entries}
            write_text(self.json, json.dumps(content, indent=1) + "\n")
            # Removed last: until then it is the only copy.
            journal.remove()
        show(f"written to {self.json}, with {len(entries)} plots", sys.stderr)
        return failed

    def _add(
        self,
        journal: Journal,
        index: int,
        explanation: Explanation,
        name: str,
        picture: str,
    ) -> None:
        from asdf.attribution import explanation_svg, explanation_text

        path = explanation.name
        explanation = replace(explanation, name=name)
        show(explanation_text(explanation), sys.stderr)
        svg = self.base.parent / f"{picture}.svg"
        svg.parent.mkdir(parents=True, exist_ok=True)
        # The plot first: an entry in the journal means that its plot is written.
        write_text(svg, explanation_svg(explanation))
        entry = {**explanation.entry(), "picture": svg.name}
        journal.add(index, {"why": entry, "stamp": stamp_of(path)})


def why_outputs(args: ScoreOptions, detector: Detector, are_trials: bool) -> WhyOutputs | None:
    """Return the outputs of --why: files, or 'why' in a folder; None without the option.

    Args:
        are_trials: Whether scores are of the beginnings of recordings, which are then explained.

    Raises:
        UsageError: they cannot be written there, an option needs --why or is not valid, or captum
            is missing.
    """
    path = args.why
    if path is None:
        if args.why_start is not None or args.why_by != "occlusion" or args.why_filler != "noise":
            raise UsageError(
                "--why-by, --why-filler and --why-start need --why OUT. Give it too, or leave them "
                "out."
            )
        return None
    base = base_of_several("--why", path, _NAME_IN_FOLDER, _SUFFIXES)
    from asdf.attribution import Explainer, Method, Options

    methods: list[Method] = ["occlusion", "gradients"]
    if args.why_by != "both":
        methods = [args.why_by]
    start_s = args.why_start
    if start_s is None and are_trials:
        start_s = 0.0
    options = Options(methods=methods, filler=args.why_filler, start_s=start_s)
    explainer = Explainer(detector, options, progress=True)
    work: dict[str, Any] = {"command": "why", "options": options.entry()}
    work["network"] = _digest(detector)
    work["threshold"] = detector.threshold
    outputs = WhyOutputs(base, explainer, work)
    for other in (args.csv, args.json, args.scores):
        if other is not None and other.resolve() == outputs.json.resolve():
            raise UsageError(
                f"--why would also write {other}, which is another output. Give one of them "
                "another name."
            )
    return outputs


def _digest(detector: Detector) -> str:
    path = Path(detector.source)
    # A commit on the hub never changes.
    return digest_of(path) if path.exists() else detector.source


def _picture_names(output: str, names: list[str]) -> list[str]:
    """Return the name of each recording's plot, with a number for duplicates."""
    pictures: list[str] = []
    for name in names:
        first = f"{output} - {Path(name).stem}"
        number = 1
        picture = first
        while picture in pictures:
            number += 1
            picture = f"{first} ({number})"
        pictures.append(picture)
    return pictures
