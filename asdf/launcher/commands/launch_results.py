"""The page and the table at the end of a launch, as written by `python -m asdf report`.

Invariant: page and table cover all runs of the launch or are not written, so that no table in a
paper lacks a seed silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.launcher import Job
from asdf.report import command as report
from asdf.report import gather, runs_in
from asdf.tasks.studies.left_out import left_out_text


def check_outputs(page: Path | None, table: Path | None) -> None:
    """Refuse outputs that could not be written hours later.

    Raises:
        UsageError: an output is a folder, or both are the same file.
    """
    for option, path in (("--report", page), ("--latex", table)):
        if path is not None and path.is_dir():
            raise UsageError(f"{option} {path} is a folder. Give a file.")
    if page is not None and table is not None and page.resolve() == table.resolve():
        raise UsageError("--report and --latex are the same file. Give two different files.")


def show_left_out(jobs: Sequence[Job]) -> None:
    """Show the EERs on the left-out values of finished folds, if there are any."""
    runs = runs_in(job.system for job in jobs if job.state == "done")
    # Without intervals, whose bootstrap takes seconds per run.
    text = left_out_text(gather(runs, replicates=0).left_out) if runs else ""
    if text:
        show(text)


def write_results(jobs: Sequence[Job], page: Path | None, table: Path | None) -> bool:
    """Write a page and a table of finished runs; log a message if some are unfinished.

    Returns:
        Whether the outputs were written.
    """
    unfinished = [job.label for job in jobs if job.state != "done"]
    if unfinished:
        show(f"no report yet: {len(unfinished)} of {len(jobs)} runs are unfinished")
        return False
    words = [str(job.system) for job in jobs]
    if page is None:
        assert table is not None  # the caller has one of the two
        page = table.with_suffix(".html")
    words += ["--output", str(page)]
    if table is not None:
        words += ["--latex", str(table)]
    report.main(words)
    return True
