"""Evaluate source tracing: attack, vocoder, system, language etc.

    python -m asdf trace scores/epoch.20/demo-eval.sources.tsv
    python -m asdf trace A=first.sources.tsv B=second.sources.tsv --reject energy --json out.json
    python -m asdf trace A.sources.tsv --protocol P --column vocoder --picture matrix.svg

The files are written by stage 2 of a run with source.column. Closed-set metrics, for trials of
classes that the network knows, are accuracy, macro-F1 and the confusion matrix. Open-set metrics,
if there are trials of other classes, are the EER of known against unknown classes by a rejection
score, and OSCR (Dhamija et al., NeurIPS 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from asdf.commands.judged_files import named_systems
from asdf.commands.options import Command, argument, option, replicates_option
from asdf.commands.outputs import check_file, check_inputs, show, text_stream, write_outputs
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_text
from asdf.tables.plain_json import as_json
from asdf.tasks.tracing.classes import BonaFideRule

if TYPE_CHECKING:
    from asdf.tasks.tracing.source_measures import SourceResult


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """Options of the command."""

    sources: tuple[str, ...] = argument(
        "FILE or NAME=FILE, written by stage 2",
        metavar="SOURCES",
    )
    protocol: Path | None = option(
        "label file with the classes of the trials",
        metavar="P",
    )
    subset: str | None = option(
        "evaluate only this subset of the protocol",
        metavar="NAME",
    )
    column: str | None = option(
        "column of the protocol with the classes (the column in the file)",
        metavar="C",
    )
    bona_fide: BonaFideRule = option(
        "class of the protocol's bona fide trials, as in source.bona_fide",
        default="left_out",
    )
    reject: Literal["probability", "logit", "energy", "entropy"] = option(
        "rejection score for unknown sources",
        default="probability",
    )
    replicates: int = replicates_option(
        "number of bootstrap replicates (%(default)s); 0: no intervals"
    )
    set: str = option(
        "name of the set in the output",
        metavar="NAME",
        default="",
    )
    json: Path | None = option(
        "write all results as JSON, with all digits",
        metavar="OUT",
    )
    picture: Path | None = option(
        "draw the confusion matrix of one system, or the OSCR curves of several: .svg, .pdf, .png",
        metavar="OUT",
    )


_PICTURES = dict.fromkeys((".svg", ".pdf", ".png"), "picture")
COMMAND = Command("trace", __doc__, TraceOptions, {".json": "json", **_PICTURES})


def main(arguments: list[str]) -> int:
    """Print the metrics; return 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or measured.
    """
    args = COMMAND.read(arguments)
    systems = named_systems(args.sources)
    _check(args)
    screen = text_stream([args.json])
    results = {}
    for system in systems:
        results[system.name] = _measure(args, system.path)
    from asdf.tasks.tracing.source_tables import sources_record, sources_text

    records = [sources_record(name, args.set, result) for name, result in results.items()]
    content = as_json(records, indent=1)
    write_outputs([(args.json, lambda path: write_text(path, content))])
    if args.picture:
        _draw(args.picture, results)
    texts = [sources_text(name, result) for name, result in results.items()]
    show("\n\n".join(texts), screen)
    return 0


def _measure(args: TraceOptions, path: Path) -> SourceResult:
    from asdf.tasks.tracing.source_measures import evaluate_sources
    from asdf.tasks.tracing.source_scores import read_source_scores

    scores = read_source_scores(path)
    speakers = None
    if args.protocol:
        from asdf.corpora import choose_subset, read_protocol
        from asdf.tasks.tracing.classes import values_of

        trials = read_protocol(args.protocol)
        if args.subset:
            trials = choose_subset(trials, args.subset, args.protocol)
        rows = []
        for utterance in scores.ids:
            row = trials.index_of(utterance)
            if row is None:
                raise AsdfError(
                    f"{path}: {utterance!r} is not a trial of {args.protocol}. Check that "
                    "--protocol is the label file of this set."
                )
            rows.append(row)
        values = values_of(trials, args.column or scores.column, args.bona_fide)
        scores = replace(scores, truths=[values[row] for row in rows])
        if "speaker" in trials.columns:
            speakers = [trials.columns["speaker"][row] for row in rows]
    return evaluate_sources(scores, args.reject, speakers=speakers, replicates=args.replicates)


def _draw(path: Path, results: dict[str, SourceResult]) -> None:
    """Write the confusion matrix of one system, or the OSCR curves of several."""
    name, result = next(iter(results.items()))
    # Without matplotlib, which only the other pictures need.
    if len(results) == 1 and path.suffix.lower() == ".svg":
        from asdf.tasks.tracing.source_tables import confusion_svg

        write_text(path, confusion_svg(name, result))
        return
    from asdf.report.plots import confusion_plot, oscr_plot, save_figure

    figure = confusion_plot(result, name) if len(results) == 1 else oscr_plot(results)
    save_figure(figure, path)


def _check(args: TraceOptions) -> None:
    """Raise UsageError for contradictory options."""
    check_inputs([args.protocol])
    if args.picture:
        check_file(args.picture)
    if (args.subset or args.column) and not args.protocol:
        raise UsageError("--subset and --column need a protocol. Give --protocol P too.")
