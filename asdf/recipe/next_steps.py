"""Next steps for a newcomer after a demo: the page, your own recording, a real config."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from asdf.recipe.declared_corpora import find_corpus, set_parts
from asdf.recipe.run import Run
from asdf.text import as_typed

_REPORT_STAGE = 3


def describe_next_steps(run: Run, next_config: str) -> list[str]:
    """Return lines for the end of a demo run, on corpora that a recipe makes; else [].

    Args:
        next_config: Config to try next; '' for none.
    """
    report = run.folders.layout.report
    sets = run.sets_in_use()
    parts = [part for name in sets for part in set_parts(name, run.corpora)]
    is_demo = all(find_corpus(part, run.corpora).make is not None for part in parts)
    reports = run.settings.recipe.execute_stage(_REPORT_STAGE) and report.is_file()
    if not (sets and is_demo and reports):
        return []
    run_file = _shown(run.recipe_folder / "run.py")
    steps = [(f"open {_shown(report)}", "the results as a page")]
    names = run.selected_networks()
    if names:
        network = _shown(run.folders.networks / names[-1])
        command = as_typed(f"python -m asdf score {network} your_recording.wav")
        purpose = "a demonstration: trained on the demo corpus, its scores say nothing about real "
        steps.append((command, f"{purpose}recordings"))
    if next_config:
        command = f"python {run_file} {next_config} --dry-run"
        steps.append((command, "what a real training needs and does"))
    steps.append((f"python {run_file} --list", "the other configs"))
    return ["what next:", *(f"  {command}    # {purpose}" for command, purpose in steps)]


def _shown(path: Path) -> str:
    """Return a path for use in a command, relative to the working folder if it is below it."""
    here = Path.cwd()
    if path.is_relative_to(here):
        path = path.relative_to(here)
    return shlex.quote(os.fspath(path))
