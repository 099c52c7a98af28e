"""Lists and lengths that the processes of a run map from one file: the same run, to the byte."""

import pytest

from tests.conftest import PATIENCE_S
from tests.distributed.test_exactness import weights
from tests.distributed.test_faults import wait_for

MAPPED = """
from asdf.data.samplers import BalancedAttacks
from asdf.distributed import shared_files

# Also the lists of a small corpus.
shared_files.MIN_BYTES = 1


class Mapped(BalancedAttacks):
    def describe(self):
        return f"ids are {type(self.utterances.ids.block).__name__}"
"""


@pytest.mark.slow
def test_a_run_with_mapped_lists_is_that_with_lists_of_its_own(recipe):
    (recipe.folder / "mapped.py").write_text(MAPPED)
    options = ("normed", "network.max_epochs=2")
    plain = ("recipe.sampler=balanced_attacks", "paths.system_folder=plain")
    mapped = ("recipe.sampler=mapped.Mapped", "paths.system_folder=mapped")
    for words in (plain, mapped):
        outcome = recipe.run(*options, *words, processes=2)
        assert outcome.status == 0, outcome.output
    assert "ids are memmap" in outcome.output
    one, other = recipe.system("plain"), recipe.system("mapped")
    for epoch in (1, 2):
        ends = [weights(folder / "networks" / f"epoch.{epoch}.pt") for folder in (one, other)]
        assert all(ends[0][name].equal(ends[1][name]) for name in ends[0])
    files = sorted(path.relative_to(one) for path in (one / "scores").rglob("*.txt"))
    assert files
    for path in (*files, "results/results.json"):
        assert (one / path).read_bytes() == (other / path).read_bytes(), path
    assert not list(other.glob(".shared-*"))


@pytest.mark.slow
def test_a_stop_leaves_no_file_of_the_lists(recipe, tmp_path):
    (recipe.folder / "mapped.py").write_text(MAPPED)
    stop_file = tmp_path / "stop"
    words = ("normed", "network.max_epochs=100000", "recipe.sampler=mapped.Mapped")
    process = recipe.start(*words, processes=2, ASDF_STOP_FILE=str(stop_file))
    wait_for(recipe.system("normed") / "networks" / "epoch.1.pt", process)
    assert list(recipe.system("normed").glob(".shared-*"))
    stop_file.touch()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "the same command goes on from there" in output
    assert not list(recipe.system("normed").glob(".shared-*"))
