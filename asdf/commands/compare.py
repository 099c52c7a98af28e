"""Compare two runs: settings, code, machine, and results with a significance test.

    python -m asdf compare output/net output/larger_net
    python -m asdf compare output/net output/net --networks epoch.10 epoch.20
    python -m asdf compare output/net output/larger_net --json differences.json
    python -m asdf compare output/net-seed* output/larger_net-seed*  # over seeds

RUN is a system folder: paths.output_folder/paths.system_folder. The compared network of a run is
the first one in its last report, or without a report the best one on its validation set. The test
is a paired bootstrap over the speakers, or over the trials if speakers are unknown, of the trials
that both runs scored. More than two runs are grouped by their recorded settings: runs that differ
only in recipe.seed form one configuration, and the means of the two configurations are compared by
a bootstrap over seeds and trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asdf.commands.options import Command, argument, option, replicates_option
from asdf.commands.outputs import show, text_stream
from asdf.metrics.bootstrap import SIGNIFICANT, Interval
from asdf.metrics.metric_columns import EER, MIN_DCF
from asdf.report import (
    Comparison,
    Difference,
    ResultDifference,
    SetDifference,
    compare_configurations,
    compare_runs,
)
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.scoring.network_check import replaced_network
from asdf.tables.renderers import as_json
from asdf.tables.table import each
from asdf.text import aligned, p_value_text
from asdf.trials.how_scored import (
    different_precisions,
    different_recordings,
    role_notes,
    role_record,
)
from asdf.trials.run_folder import RunFolder, open_run_folder

_HEAD = ("set", "metric", "A", "B", "B - A", "95 % interval", "p")


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of the command."""

    first: Path = argument("system folder of a run", "RUN_A")
    second: Path = argument("system folder of the run to compare it with", "RUN_B")
    others: tuple[Path, ...] = argument(
        "more runs of the two configurations, with other seeds", "RUN", default=()
    )
    networks: tuple[str, str] | None = option("network of each run, such as epoch.20", ("A", "B"))
    replicates: int = replicates_option("number of bootstrap replicates", may_be_none=False)
    json: Path | None = option("also write the differences as JSON; - is standard output", "OUT")


COMMAND = Command("compare", __doc__, CompareOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Print the differences; return 1 if a set that both scored cannot be tested, else 0.

    Raises:
        UsageError: too few replicates.
        AsdfError: a folder is not that of a run, or it has no scores of a requested network.
    """
    args = COMMAND.read(arguments)
    runs = [open_run_folder(path) for path in (args.first, args.second, *args.others)]
    requested = args.networks or (None, None)
    comparison: Comparison[Any]
    if args.others:
        comparison = compare_configurations(runs, requested, args.replicates)
        record, blocks = _seeds_record(comparison), _seeds_blocks(comparison)
    else:
        comparison = compare_runs(runs[0], runs[1], requested, args.replicates)
        record, blocks = _record(comparison), _blocks(comparison)
    screen = text_stream([args.json])
    if args.json:
        write_text(args.json, as_json(record))
    for block in blocks:
        show(block, screen)
    for side in comparison.sides:
        for run, network in zip(side.runs, side.networks, strict=True):
            for path in run.score_files().get(network or "", {}).values():
                if remark := replaced_network(path):
                    show_error(f"warning: {remark}")
    for message in comparison.refused:
        show_error(f"error: {message}")
    return 1 if comparison.refused else 0


def _record(comparison: Comparison[ResultDifference]) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    results = []
    for result in comparison.results:
        record = asdict(result)
        # The scoring of each run is recorded as a length and a precision.
        for run, known in (("first", result.first_scored), ("second", result.second_scored)):
            record[f"{run}_role"] = role_record(known.role)
            record[f"{run}_scored"] = None if known.length is None else known.length.record()
            record[f"{run}_precision"] = known.precision
        results.append(record)
    sides = [(side.runs[0], side.networks[0]) for side in comparison.sides]
    return {
        "runs": [{"folder": str(run.path), "network": network} for run, network in sides],
        "settings": list(map(asdict, comparison.settings)),
        "environment": list(map(asdict, comparison.environments)),
        "results": results,
        "not_tested": comparison.refused,
    }


def _blocks(comparison: Comparison[ResultDifference]) -> Iterator[str]:
    """Yield the parts of the text, in the order in which they are shown."""
    runs = [side.runs[0] for side in comparison.sides]
    for letter, run, of_run in zip("AB", runs, comparison.sides, strict=True):
        yield f"{letter}  {run.path}, {of_run.networks[0] or 'no scores yet'}"
        for change in run.changes():
            yield f"   {change}"
    yield "\nSettings that differ\n" + _differences_text(comparison.settings)
    yield "\nCode and machine that differ\n" + _differences_text(comparison.environments)
    if comparison.results or not comparison.refused:
        table = _results_text(comparison.results, runs)
        yield "\nResults (B - A: below zero, B is better)\n" + table


def _differences_text(differences: Sequence[Difference]) -> str:
    lines = []
    for known in differences:
        lines.append(f"  {known.name}")
        sides = (("A", known.first, known.first_source), ("B", known.second, known.second_source))
        width = max(len(known.first), len(known.second))
        for letter, value, source in sides:
            # The JSON states what a value overrode; the screen shows its source.
            origin = f"({source.split(', over ')[0]})" if source else ""
            lines.append(f"    {letter}  {value or 'none':<{width}}    {origin}".rstrip())
    return "\n".join(lines) or "  none"


def _results_text(results: Sequence[ResultDifference], runs: Sequence[RunFolder]) -> str:
    if not results:
        sets = []
        for run in runs:
            names = dict.fromkeys(name for files in run.score_files().values() for name in files)
            sets.append(", ".join(names) or "none")
        return f"  no set was scored by both runs: A has {sets[0]}; B has {sets[1]}"
    rows: list[Sequence[str]] = [(*_HEAD, "")]
    for result in results:
        for name, metric in ((result.set, EER), ("", MIN_DCF)):
            tested: Interval = getattr(result.difference, metric.key)
            assert tested.p_value is not None
            # Error rates and costs: lower is better.
            verdict = "B is better" if tested.value < 0 else "A is better"
            if tested.p_value >= SIGNIFICANT:
                verdict = "no significant difference"
            values = each([result.first, result.second], metric.key)
            texts = [*map(metric.format, values), *metric.format_difference(tested)]
            rows.append((name, metric.heading, *texts, verdict))
    drawn = sorted({"speakers" if result.by_speakers else "trials" for result in results})
    notes = [f"paired bootstrap over {' or '.join(drawn)}, two-sided"]
    for result in results:
        first = result.first_scored
        second = result.second_scored
        ours, theirs = first.length, second.length
        if ours is not None and theirs is not None and not ours.agrees_with(theirs):
            lengths = f"A {first.describe_computing()}, B {second.describe_computing()}"
            notes.append(f"{result.set} was scored from different lengths ({lengths}), which")
            notes.append("changes results too: score both in the same way before you compare")
        if precisions := different_precisions([first, second]):
            notes.append(f"{result.set} was scored in different precisions (A, B: {precisions}),")
            notes.append("which moves scores a little: score both in fp32 for small differences")
        if different_recordings([first, second]):
            notes.append(f"{result.set} was scored from different recordings of the same names,")
            notes.append("which cannot be compared: score the set again with both networks")
        roles = [(f"{result.set}, A", first.role), (f"{result.set}, B", second.role)]
        notes += role_notes(roles)
    return "\n".join(f"  {line}" for line in [*aligned(rows), *notes])


def _seeds_record(comparison: Comparison[SetDifference]) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    configurations = []
    for side in comparison.sides:
        members = zip(side.runs, side.seeds, side.networks, strict=True)
        runs = [{"folder": str(run.path), "seed": seed, "network": of} for run, seed, of in members]
        configurations.append({"name": side.name, "runs": runs})
    return {
        "configurations": configurations,
        "settings": list(map(asdict, comparison.settings)),
        "results": list(map(asdict, comparison.results)),
        "not_tested": comparison.refused,
    }


def _seeds_blocks(comparison: Comparison[SetDifference]) -> Iterator[str]:
    """Yield the parts of the text, in the order in which they are shown."""
    for letter, side in zip("AB", comparison.sides, strict=True):
        words = f"{len(side.runs)} runs, seeds {', '.join(side.seeds)}"
        if len(side.runs) == 1:
            words = f"1 run, seed {side.seeds[0]}" if side.seeds[0] else "1 run"
        yield f"{letter}  {side.name}: {words}"
    yield "\nSettings that differ\n" + _differences_text(comparison.settings)
    if comparison.results:
        table = _seed_results_text(comparison)
        yield f"\nResults over seeds (B - A: below zero, B is better)\n{table}"
        for result in comparison.results:
            yield f"\nOn {result.set}, {result.sentence}"
            yield from result.remarks
    elif not comparison.refused:
        first, second = (", ".join(side.sets()) or "none" for side in comparison.sides)
        yield f"\nno set was scored by all runs: A has {first}; B has {second}"


def _seed_results_text(comparison: Comparison[SetDifference]) -> str:
    rows: list[Sequence[str]] = [(*_HEAD, "p, Welch")]
    for result in comparison.results:
        tested = result.tested
        # Sentences have 'p = 0.012', a column only the number.
        p_value = "-" if tested.eer_welch_p is None else p_value_text(tested.eer_welch_p)
        of_eer = (result.set, EER, result.first, result.second, p_value.removeprefix("= "))
        of_cost = ("", MIN_DCF, result.first_min_dcf, result.second_min_dcf, "")
        for name, metric, first, second, welch in (of_eer, of_cost):
            texts = []
            for spread in (first, second):
                text = metric.format(spread.mean, paper=True)
                if spread.deviation is not None:
                    text += f" +- {metric.format(spread.deviation, paper=True)}"
                texts.append(text)
            texts += metric.format_difference(getattr(tested.difference, metric.key), paper=True)
            rows.append((name, metric.heading, *texts, welch))
    lines = [f"  {line}" for line in aligned(rows)]
    shown = comparison.results[0]
    drawn = "speakers" if shown.by_speakers else "trials"
    pairing = "paired by seed" if shown.tested.is_paired else "seeds not paired"
    words = f"bootstrap over seeds and {drawn}, {pairing}, two-sided"
    lines.append(f"  {words}; Welch's test over seeds alone")
    return "\n".join(lines)
