"""The losses of 56 steps on one process and on two, and of a run that was stopped and went on."""

import json
from functools import partial

import pytest

from tests.proofs.frozen import compare

# Dropout and batch norm turn the last digit of one step into more of the next.
RELATIVE, ABSOLUTE = 0.0, 1e-3
WORDS = ("network.print_interval=1", "recipe.end_stage=1")


def write_losses(system, path) -> None:
    rows = [json.loads(line) for line in (system / "metrics.jsonl").read_text().splitlines()]
    steps = [f"{row['step']} {row['loss']:.9e}" for row in rows if row["kind"] == "step"]
    evaluated = [json.dumps(row["eer"]) for row in rows if row["kind"] == "evaluation"]
    path.write_text("\n".join([*steps, *evaluated]) + "\n")


@pytest.mark.slow_but("1")
@pytest.mark.parametrize("processes", [1, 2])
def test_losses_and_what_goes_on_are_as_before(recipe, capsys, tmp_path, processes) -> None:
    run = (
        partial(recipe.run, processes=processes) if processes > 1 else partial(recipe.call, capsys)
    )
    folder = tmp_path / "outputs"
    folder.mkdir()
    for system, epochs in (("straight", 8), ("parts", 3), ("parts", 8)):
        changed = (f"paths.system_folder={system}", f"network.max_epochs={epochs}")
        run("normed", *WORDS, *changed).ok()
    write_losses(recipe.system("straight"), folder / "straight.txt")
    write_losses(recipe.system("parts"), folder / "parts.txt")
    assert (folder / "parts.txt").read_text() == (folder / "straight.txt").read_text()
    compare(folder, f"losses/{processes}", RELATIVE, ABSOLUTE)
