"""What differs between two runs: settings, code and machine, and results with a significance test.

    python -m asdf compare output/net output/larger_net
    python -m asdf compare output/net output/net --networks epoch.10 epoch.20
    python -m asdf compare output/net output/larger_net --json differences.json

RUN is a system folder: paths.output_folder/paths.system_folder. Of each run the first network of its last report is
taken, of one without a report the best on its validation set. Results are tested on the same trials: whole speakers are
drawn where they are known, else trials.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from asdf.commands.outputs import show, text_stream
from asdf.errors import UsageError
from asdf.metrics.bootstrap import SIGNIFICANT, Interval
from asdf.report import (
    Difference,
    ResultDifference,
    chosen_network,
    different_environments,
    different_results,
    different_settings,
)
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.trials.how_scored import different_precisions
from asdf.trials.run_folder import RunFolder, open_run_folder


def main(arguments: list[str]) -> int:
    """Print the differences; 0, or 1 where a set that both scored cannot be tested, which is told on stderr.

    Raises:
        UsageError: too few replicates.
        AsdfError: a folder is not that of a run, or it has no scores of a network asked for.
    """
    parser = argparse.ArgumentParser(
        prog="python -m asdf compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", metavar="RUN_A", type=Path)
    parser.add_argument("second", metavar="RUN_B", type=Path)
    parser.add_argument(
        "--networks", nargs=2, metavar=("A", "B"), help="networks to compare, such as epoch.20"
    )
    parser.add_argument(
        "--replicates", type=int, metavar="N", default=1000, help="bootstrap replicates (1000)"
    )
    parser.add_argument(
        "--json",
        metavar="OUT",
        type=Path,
        help="write the differences to a file too; - is standard output",
    )
    given = parser.parse_args(arguments)
    if given.replicates < 20:
        raise UsageError(
            f"--replicates {given.replicates}: fewer than 20 tell nothing of a 95 % interval."
        )
    runs = open_run_folder(given.first), open_run_folder(given.second)
    asked = given.networks or (None, None)
    networks = chosen_network(runs[0], asked[0]), chosen_network(runs[1], asked[1])
    settings, environments = different_settings(*runs), different_environments(*runs)
    results: list[ResultDifference] = []
    refused: list[str] = []
    if networks[0] is not None and networks[1] is not None:
        results, refused = different_results(*runs, (networks[0], networks[1]), given.replicates)
    screen = text_stream([given.json])
    if given.json:
        content = {
            "runs": [
                {"folder": str(run.path), "network": name}
                for run, name in zip(runs, networks, strict=True)
            ],
            "settings": [asdict(one) for one in settings],
            "environment": [asdict(one) for one in environments],
            "results": [_record(one) for one in results],
            "not_tested": refused,
        }
        write_text(given.json, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    for letter, run, network in zip("AB", runs, networks, strict=True):
        show(f"{letter}  {run.path}, {network or 'no scores yet'}", screen)
    show("\nSettings that differ\n" + (_settings(settings) if settings else "  none"), screen)
    show(
        "\nCode and machine that differ\n"
        + (_environments(environments) if environments else "  none"),
        screen,
    )
    if results or not refused:
        show("\nResults (B - A: below zero, B is better)\n" + _results(results, runs), screen)
    for message in refused:
        show_error(f"error: {message}")
    return 1 if refused else 0


def _record(one: ResultDifference) -> dict[str, Any]:
    """For JSON, with how much of each recording was scored, and in which precision."""
    record = asdict(one)
    for which in ("first", "second"):
        scored = record[f"{which}_scored"]
        record[f"{which}_scored"] = scored["length"]
        record[f"{which}_precision"] = scored["precision"]
    return record


def _settings(differences: Sequence[Difference]) -> str:
    lines = []
    for one in differences:
        lines.append(f"  {one.name}")
        for letter, value, source in (
            ("A", one.first, one.first_source),
            ("B", one.second, one.second_source),
        ):
            told = source.split(", over ")[0]  # what it overrode is in the JSON
            lines.append(f"    {letter}  {value}" + (f"    ({told})" if told else ""))
    return "\n".join(lines)


def _environments(differences: Sequence[Difference]) -> str:
    return "\n".join(
        line
        for one in differences
        for line in (f"  {one.name}", f"    A  {one.first}", f"    B  {one.second}")
    )


def _results(results: Sequence[ResultDifference], runs: tuple[RunFolder, RunFolder]) -> str:
    if not results:
        return f"  no set was scored by both: A has {_sets(runs[0])}; B has {_sets(runs[1])}"
    rows: list[tuple[str, ...]] = [("set", "metric", "A", "B", "B - A", "95 % interval", "p", "")]
    for one in results:
        eer, cost = one.difference.eer, one.difference.min_dcf
        rows.append((one.set, "EER %", *_numbers(one.first.eer, one.second.eer, eer, 100, 3)))
        rows.append(("", "minDCF", *_numbers(one.first.min_dcf, one.second.min_dcf, cost, 1, 4)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    drawn = {"speakers" if one.by_speakers else "trials" for one in results}
    notes = [f"  paired bootstrap over {' or '.join(sorted(drawn))}, two-sided"]
    for one in results:
        if not one.of_one_length:
            lengths = f"A {one.first_scored.describe()}, B {one.second_scored.describe()}"
            notes.append(
                f"  {one.set} was scored from different lengths ({lengths}), which differ in"
            )
            notes.append("  their results too: score both in the same way before you compare them")
        if named := different_precisions([one.first_scored, one.second_scored]):
            notes.append(
                f"  {one.set} was scored in different precisions (A, B: {named}), which moves scores a"
            )
            notes.append("  little: score both in fp32 where a small difference counts")
    return "\n".join([*lines, *notes])


def _numbers(
    first: float, second: float, drawn: Interval, unit: float, digits: int
) -> tuple[str, ...]:
    assert drawn.p_value is not None
    interval = f"{unit * drawn.low:+.{digits}f} .. {unit * drawn.high:+.{digits}f}"
    better = "B is better" if drawn.value < 0 else "A is better"
    verdict = better if drawn.p_value < SIGNIFICANT else "no significant difference"
    texts = (
        f"{unit * first:.{digits}f}",
        f"{unit * second:.{digits}f}",
        f"{unit * drawn.value:+.{digits}f}",
    )
    return (*texts, interval, f"{drawn.p_value:.3f}", verdict)


def _sets(run: RunFolder) -> str:
    names: Iterable[str] = dict.fromkeys(
        name for files in run.score_files().values() for name in files
    )
    return ", ".join(names) or "none"
