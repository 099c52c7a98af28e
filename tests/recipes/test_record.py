"""The record of a run sees the user's own code, and `compare` shows what of it differs."""

import hashlib
import json
import subprocess

import pytest

from asdf.__main__ import main


def git(folder, *words):
    name = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", "-C", str(folder), *name, *words], check=True, capture_output=True)


def test_the_users_own_code_is_in_the_record_and_in_a_comparison(recipe, capsys):
    git(recipe.folder, "init", "-q", "-b", "trunk")
    (recipe.folder / ".gitignore").write_text("output/\n__pycache__/\n")
    git(recipe.folder, "add", "run.py", "configs", ".gitignore")
    git(recipe.folder, "commit", "-q", "-m", "first")
    network = recipe.folder / "small_networks.py"
    words = ("debug", "network.max_epochs=1", "recipe.end_stage=1")
    recipe.call(capsys, *words, "paths.system_folder=a").ok()
    first = network.read_bytes()
    network.write_bytes(first + b"\n# another loss\n")
    recipe.call(capsys, *words, "paths.system_folder=b").ok()
    [this] = json.loads((recipe.system("a") / "environment.json").read_text())
    [other] = json.loads((recipe.system("b") / "environment.json").read_text())
    assert this["recipe_git"]["branch"] == "trunk" and this["recipe_git"]["changed"] == []
    assert this["recipe_git"]["untracked"] == ["small_networks.py"]
    assert this["git"] != this["recipe_git"]
    assert this["libraries"] == {"cuda": None, "cudnn": None, "nccl": None, "driver": None}
    digests = [hashlib.sha256(text).hexdigest() for text in (first, network.read_bytes())]
    assert [record["code"]["small_networks.py"] for record in (this, other)] == digests
    configs = {"configs/init_config.py", "configs/run_configs.py"}
    assert set(this["code"]) == {"run.py", "small_networks.py", *configs}
    assert (recipe.system("a") / "code" / "small_networks.py").read_bytes() == first
    peak = this["peak_memory_mb"]["rank 0"]
    assert list(peak) == ["host", "gpu"] and peak["host"] > 50 and peak["gpu"] is None
    assert this["ended"] >= this["started"] and this["finished"] is True
    capsys.readouterr()
    assert main(["compare", str(recipe.system("a")), str(recipe.system("b"))]) == 0
    shown = capsys.readouterr().out
    difference = f"  code.small_networks.py\n    A  {digests[0]}\n    B  {digests[1]}\n"
    assert difference in shown and "code.run.py" not in shown
    assert "ended" not in shown and "finished" not in shown


def test_a_run_that_fails_records_its_memory_too(recipe, capsys):
    outcome = recipe.call(capsys, "debug", "network.initial_learning_rate=1e38")
    assert outcome.status == 1
    [record] = json.loads((recipe.system() / "environment.json").read_text())
    assert record["peak_memory_mb"]["rank 0"]["host"] > 50 and "ended" in record
    assert record["finished"] is False


@pytest.mark.slow
def test_every_process_is_in_the_record(recipe):
    recipe.run("debug", "recipe.end_stage=0", processes=2).ok()
    [record] = json.loads((recipe.system() / "environment.json").read_text())
    assert list(record["peak_memory_mb"]) == ["rank 0", "rank 1"]
