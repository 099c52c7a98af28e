"""`evaluate` for source scores: attack, vocoder, system, language etc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from asdf.commands.evaluate import EvaluateOptions
from asdf.commands.judged_files import System
from asdf.commands.outputs import show, write_outputs
from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.tables.renderers import as_json
from asdf.tasks.tracing.source_measures import (
    SourceResult,
    confusion_svg,
    evaluate_sources,
    sources_record,
    sources_text,
)
from asdf.tasks.tracing.source_scores import read_source_scores, values_of
from asdf.trials.matching import rows_of
from asdf.trials.trial_list import known_speakers, values_at


def evaluate(args: EvaluateOptions, systems: Sequence[System], screen: TextIO) -> None:
    """Write the requested files, and print the metrics on `screen`.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or measured.
    """
    if args.subset and not args.protocol:
        raise UsageError("--subset needs a protocol. Give --protocol P too.")
    results = {system.name: _measure(args, system.path) for system in systems}
    records = [sources_record(name, "", result) for name, result in results.items()]
    content = as_json(records, indent=1)
    write_outputs([(args.json, lambda path: write_text(path, content))])
    if args.plot:
        name, result = next(iter(results.items()))
        if len(results) == 1 and args.plot.suffix.lower() == ".svg":
            # That of the page.
            write_text(args.plot, confusion_svg(name, result))
        else:
            from asdf.report.plots import confusion_plot, oscr_plot, save_figure

            figure = confusion_plot(result, name) if len(results) == 1 else oscr_plot(results)
            save_figure(figure, args.plot)
    texts = [sources_text(name, result) for name, result in results.items()]
    show("\n\n".join(texts), screen)


def _measure(args: EvaluateOptions, path: Path) -> SourceResult:
    scores = read_source_scores(path)
    speakers = None
    if args.protocol:
        from asdf.corpora import choose_subset, read_protocol

        trials = read_protocol(args.protocol)
        if args.subset:
            trials = choose_subset(trials, args.subset, args.protocol)
        rows = rows_of(str(path), scores.ids, trials)
        values = values_of(trials, scores.column, args.bona_fide)
        scores = replace(scores, truths=values_at(values, rows))
        known = trials.columns.get("speaker", [""] * len(trials))
        speakers = known_speakers(values_at(known, rows))
    return evaluate_sources(scores, args.reject, speakers=speakers, replicates=args.replicates)
