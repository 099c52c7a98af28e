"""Write an HTML report of runs: results, DET curves, scores, attacks, training and settings.

    python -m asdf report output/net                          # output/net/results/report.html
    python -m asdf report output/net output/larger --output both.html
    python -m asdf report output --output all.html            # all runs in a folder
    python -m asdf report output/net --networks all           # all networks with scores
    python -m asdf report output/net --plots figures          # also every plot as PDF and PNG
    python -m asdf report output/net-seed* --output page.html --latex table.tex

FOLDER is a system folder (paths.output_folder/paths.system_folder), or a folder with several of
them. The page is a single file that needs no other file and no internet connection. Runs whose
recorded settings differ only in the seed are grouped: mean, deviation, interval and test.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asdf.commands.options import Command, argument, option, replicates_option
from asdf.commands.outputs import output_name, show, text_stream
from asdf.errors import UsageError
from asdf.report import fold_findings, gather, report_page, runs_in, runs_to_latex
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.tasks.studies.left_out import left_out_text

PLOT_FORMATS = ("pdf", "png")


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of the command."""

    folders: tuple[Path, ...] = argument("system folders of runs", "FOLDER")
    output: Path | None = option(
        "output page (FOLDER/results/report.html); - is standard output", "PAGE", short="-o"
    )
    title: str = option("title of the page (the names of the runs)", "TEXT", default="")
    networks: Literal["best", "reported", "all"] = option(
        "networks per run: the best on its validation set, those of its last report, or all",
        default="reported",
    )
    plots: Path | None = option("also write every plot as PDF and PNG", "DIR")
    latex: Path | None = option(
        "also write a LaTeX table for a paper (booktabs): systems by set, over seeds", "OUT"
    )
    replicates: int = replicates_option(
        "number of bootstrap replicates for intervals (%(default)s); 0: no intervals"
    )


COMMAND = Command("report", __doc__, ReportOptions)


def main(arguments: list[str]) -> int:
    """Write the report; return 0 even if something looks wrong, which the page and stderr state.

    Raises:
        UsageError: there are several runs, but no --output for their report.
        AsdfError: a folder is not that of a run, or one of its files is malformed.
    """
    args = COMMAND.read(arguments)
    runs = runs_in(args.folders)
    if args.output is None and len(runs) > 1:
        raise UsageError(
            f"{len(runs)} runs are given, so the report has no default location. Give one with "
            "--output report.html."
        )
    output = args.output or runs[0].layout.report
    if args.latex is not None and args.latex.resolve() == output.resolve():
        raise UsageError("--output and --latex are the same file. Give two different files.")
    screen = text_stream([output, args.latex])
    gathered = gather(
        runs,
        args.networks,
        replicates=args.replicates,
        for_plots=args.plots is not None,
        on_start=show_error,
    )
    plots = 0
    if args.plots:
        # Imported here, because matplotlib takes a moment.
        from asdf.report.plots import write_plots

        plots = len(write_plots(args.plots, gathered, PLOT_FORMATS)) // len(PLOT_FORMATS)
    # The page shows the command that reproduces it.
    command = shlex.join(["python", "-m", "asdf", "report", *arguments])
    write_text(output, report_page(gathered, args.title, command))
    if args.latex:
        write_text(args.latex, runs_to_latex(gathered))
    for folded in fold_findings(gathered.findings):
        show_error(folded.as_line())
    if gathered.left_out:
        show(left_out_text(gathered.left_out), screen)
    show(f"written to {output_name(output)}", screen)
    if args.latex:
        show(f"written to {output_name(args.latex)}", screen)
    if args.plots:
        formats = " and ".join(PLOT_FORMATS)
        show(f"written to {args.plots}: {plots} plots, each as {formats}", screen)
    return 0
