"""A recipe run on a corpus in a store: the bits of its folder; the S3 server is a real one."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from asdf.__main__ import main
from tests.conftest import Outcome, RecipeFolder
from tests.stores import memory_store, put, s3_store
from tests.unit.conftest import small_settings, write_small_network

CONFIG = """
stored < debug
recipe.training_sets = ('list-train',)
recipe.validation_sets = ('list-dev',)
recipe.evaluation_sets = ('list-dev',)
network.max_epochs = 2
computing.network_dataloader_workers = 1
"""


@pytest.fixture
def packed(corpus: Path, tmp_path: Path, recipe: RecipeFolder, monkeypatch) -> Path:
    """A folder with lists, and a tar of their recordings; the recipe knows them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = tmp_path / "packed"
    base.mkdir()
    for name in ("train", "dev"):
        shutil.copy(corpus / f"{name}_list.txt", base)
    with tarfile.open(base / "LA.tar", "w") as tar:
        tar.add(corpus / "LA", "LA")
    source = recipe.folder / "run.py"
    train = '    "list-train": Corpus("train_list.txt"),\n'
    dev = '    "list-dev": Corpus("dev_list.txt"),\n'
    text = source.read_text()
    source.write_text(text.replace("}\n\n\ndef measure", f"{train}{dev}}}\n\n\ndef measure"))
    recipe.add_configs(CONFIG)
    return base


def words(name: str, folder: object) -> list[str]:
    return [
        "stored",
        f"paths.database_folder={folder}",
        f"paths.system_folder={name}",
        f"paths.sad_folder=sad{name}",
    ]


def assert_same_results(recipe: RecipeFolder, name: str, other: str) -> None:
    """Compare weights and scores of two runs, bit by bit."""
    weights = []
    scores = []
    for system in (name, other):
        saved = torch.load(recipe.system(system) / "networks" / "epoch.2.pt", weights_only=True)
        weights.append(saved["model_state_dict"])
        scores.append((recipe.system(system) / "scores/epoch.2/list-dev.txt").read_bytes())
    assert scores[0] == scores[1] and scores[0].count(b"\n") == 8
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_store_trains_and_scores_as_a_folder(recipe, packed, capsys) -> None:
    pytest.importorskip("fsspec")
    assert recipe.call(capsys, *words("a", packed)).status == 0
    with memory_store() as store:
        put(packed, f"{store}/db")
        plan = recipe.call(capsys, *words("b", f"{store}/db"), "--dry-run")
        assert f"list-train: {store}/db/train_list.txt: 13 bona fide, 13 spoof" in plan.output
        assert f"recordings come from {store}" in plan.output
        outcome = recipe.call(capsys, *words("b", f"{store}/db"))
        assert outcome.status == 0, outcome.output
        assert "reads 16 recordings of a batch at once" in outcome.output
        lines = (packed / "train_list.txt").read_text().splitlines(keepends=True)
        (packed / "train_list.txt").write_text("".join(f"LA.tar/{line}" for line in lines))
        put(packed / "train_list.txt", f"{store}/db/train_list.txt")
        cached = ("paths.cache_folder=cache", "computing.cache_gb=1e-6", "recipe.sampler=sharded")
        plan = recipe.call(capsys, *words("b", f"{store}/db"), *cached, "--dry-run")
        assert plan.status == 0
        assert "warning: computing.cache_gb = 1e-06 is too small for the " in plan.output
        (packed / "train_list.txt").write_text("LA.tar/no.flac 1\n")
        put(packed / "train_list.txt", f"{store}/db/train_list.txt")
        missing = recipe.call(capsys, *words("c", f"{store}/db"))
        assert missing.status == 1 and "LA.tar/no.flac" in missing.output
    assert_same_results(recipe, "a", "b")


def test_runs_are_not_written_into_stores(recipe, packed, capsys) -> None:
    for setting in ("paths.output_folder", "paths.cache_folder"):
        outcome = recipe.call(capsys, "stored", f"{setting}=s3://bucket/x")
        assert outcome.status != 0
        assert f"{setting} = 's3://bucket/x' is a remote address" in outcome.output


@pytest.fixture
def bucket() -> Iterator[str]:
    """The address of an empty bucket of a local S3 server."""
    with s3_store() as address:
        yield address


def done(outcome: Outcome) -> str:
    assert outcome.status == 0, outcome.output
    return outcome.output


@pytest.mark.slow
def test_s3_gives_the_bits_of_local_files_also_stopped_and_resumed(
    recipe, packed, bucket, tmp_path, capsys
) -> None:
    put(packed, f"{bucket}/db")
    done(recipe.run(*words("a", packed)))
    remote = words("b", f"{bucket}/db")
    copies = tmp_path / "copies"
    first = done(recipe.run(*remote, "network.max_epochs=1", f"paths.cache_folder={copies}"))
    assert f"downloading {bucket}/db/LA.tar" in first
    [copy] = copies.glob("*.LA.tar")
    assert copy.read_bytes() == (packed / "LA.tar").read_bytes()
    second = done(recipe.run(*remote))
    assert "downloading" not in second
    assert_same_results(recipe, "a", "b")


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "kill"), [(1, "0:5"), (2, "1:3")])
def test_a_run_from_s3_that_is_killed_within_an_epoch_has_the_bits_of_a_folder(
    recipe, packed, bucket, processes, kill
) -> None:
    put(packed, f"{bucket}/db")
    options = (
        "network.network_class=small_networks.Normed",
        "network.checkpoint_interval_steps=2",
        "recipe.sampler=sharded",
    )
    done(recipe.run(*words("a", packed), *options, processes=processes))
    remote = (*words("b", f"{bucket}/db"), *options)
    assert recipe.run(*remote, processes=processes, TEST_KILL=kill).status != 0
    resumed = done(recipe.run(*remote, processes=processes))
    assert "going on from resume.pt" in resumed and "starts over" not in resumed
    assert_same_results(recipe, "a", "b")


@pytest.mark.parametrize("kind", ["memory", pytest.param("s3", marks=pytest.mark.slow)])
def test_scores_of_a_store_into_the_store(packed, corpus, kind, request, tmp_path) -> None:
    fsspec = pytest.importorskip("fsspec")
    with ExitStack() as opened:
        if kind == "s3":
            store = request.getfixturevalue("bucket")
        else:
            store = opened.enter_context(memory_store())
        network = write_small_network(tmp_path / "net.pt", small_settings())
        put(packed, f"{store}/db")
        put(network, f"{store}/net.pt")
        local = tmp_path / "local.txt"
        assert main(["score", str(network), str(packed / "dev_list.txt"), "-o", str(local)]) == 0
        remote = f"{store}/out/scores.txt"
        words_of_store = ["score", f"{store}/net.pt", f"{store}/db/dev_list.txt"]
        assert main([*words_of_store, "--output", remote]) == 0
        system = fsspec.filesystem(kind, use_listings_cache=False)
        assert system.cat_file(remote) == local.read_bytes()
        assert system.exists(f"{store}/out/scores.scored.json")
        # One recording of it, into a table.
        member = "loose.flac"
        put(next(corpus.rglob("*.flac")), f"{store}/db/{member}")
        table = f"{store}/out/table.csv"
        assert main(["score", f"{store}/net.pt", f"{store}/db/{member}", "-o", table]) == 0
        text = system.cat_file(table).decode()
        assert f"{store}/db/{member}," in text and text.count("\n") == 2
    assert not list((tmp_path / "cache" / "asdf" / "progress").iterdir())
