"""The results of source tracing, of the files that stage 2 has written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.recipe.run import Run
from asdf.runs.log import LOG
from asdf.runs.network_names import NetworkName
from asdf.tables.plain_json import as_json

if TYPE_CHECKING:
    from asdf.trials.source_scores import SourceScores

# Of intervals that a run reports by itself; `python -m asdf trace` draws more.
_REPLICATES = 200


def read_traced(score_file: Path) -> SourceScores | None:
    """Return the traced sources that belong to a score file; None where there are none."""
    from asdf.trials.source_scores import read_source_scores, sources_file

    path = sources_file(score_file)
    return read_source_scores(path) if path.exists() else None


def report_sources(run: Run, networks: Iterable[str], sets: Iterable[str]) -> None:
    """Measure the traced sources of networks on sets; log and write them, and pictures.

    Sets without a trial of a known class are left out.
    """
    from asdf.metrics.sources import evaluate_sources
    from asdf.report import confusion_svg, sources_record, sources_text
    from asdf.runs.files import write_text

    sets = list(sets)
    folder = run.folders.results
    records: list[dict[str, Any]] = []
    texts = []
    for network in networks:
        name = str(NetworkName.parse(network))
        for corpus in sets:
            traced = read_traced(run.folders.scores(network, corpus))
            if traced is None or not set(traced.truths) & set(traced.classes):
                continue
            result = evaluate_sources(traced, replicates=_REPLICATES)
            title = f"{name} on {corpus}"
            records.append(sources_record(name, corpus, result))
            texts.append(sources_text(title, result))
            write_text(folder / f"sources - {title}.svg", confusion_svg(title, result))
    if not records:
        return
    write_text(run.folders.layout.sources_text, "\n\n".join(texts) + "\n")
    write_text(run.folders.layout.sources_json, as_json(records, indent=1))
    LOG.info("sources\n%s", "\n\n".join(texts))
