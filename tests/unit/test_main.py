"""`python -m asdf` and run.py: what they do with errors, and with output that is not written."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import COMMANDS as COMMANDS_OF_ASDF
from asdf.__main__ import GROUPS, main
from asdf.errors import UsageError
from asdf.evaluation import write_scores
from asdf.recipe.ending import _report
from asdf.runs.streams import NobodyReadsError
from asdf.text import shorten
from tests.conftest import PATIENCE_S, RECIPE

FULL = Path("/dev/full")
CANNOT_WRITE = (
    "error: cannot write to standard output: No space left on device. The output there is "
    "incomplete. Free some space or redirect it, then start the same command again.\n"
)
FOLDER_REMOVED = (
    "error: the folder that this command was started in was removed. Change to a folder that "
    "exists (cd), then start "
    "the same command again.\n"
)
ASDF = ("-m", "asdf")
RUN = (str(RECIPE / "run.py"),)
EVALUATE = (*ASDF, "evaluate", "scores.txt", "--replicates", "0")
COMMANDS = {
    "help": (*ASDF, "--help"),
    "help of a command": (*ASDF, "compare", "--help"),
    "corpora": (*ASDF, "corpora"),
    "list of a corpus": (*ASDF, "corpora", "list.txt", ".", "--list", "out.txt"),
    "evaluate": EVALUATE,
    "compare": (*ASDF, "compare", "run", "run", "--replicates", "20", "--json", "out.txt"),
    "help of a recipe": (*RUN, "--help"),
    "configs": (*RUN, "--list"),
    "settings": (*RUN, "quickstart", "--explain"),
    "dry run": (*RUN, "quickstart", "--dry-run", "paths.output_folder=/nowhere"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A score file, a list with its recordings, and a folder of a run."""
    folder = tmp_path_factory.mktemp("work")
    ids = [f"{number}.flac" for number in range(40)]
    labels = [number % 2 for number in range(40)]
    scores = np.random.default_rng(1).normal(size=40) + labels
    write_scores(folder / "scores.txt", ids, labels, scores)
    write_scores(folder / "run" / "scores" / "epoch.1" / "dev.txt", ids, labels, scores)
    (folder / "run" / "settings.py").write_text("network.max_epochs = 1\n")
    (folder / "run" / "environment.json").write_text("[{}]")
    (folder / "list.txt").write_text("a.flac 1\nb.flac 0\n")
    for name in ("a.flac", "b.flac"):
        (folder / name).touch()
    return folder


def run(words, cwd, shell='"$@"', **environment):
    """Run `shell`, in which "$@" is the command; PYTHONUNBUFFERED is off, as it is for users."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}", "bash", sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        env={**os.environ, "PYTHONUNBUFFERED": "", **environment},
        timeout=PATIENCE_S,
    )


@pytest.mark.slow_but("help", "list of a corpus", "evaluate", "help of a recipe")
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_behind_stdout_is_one_message(folder, name):
    (folder / "out.txt").unlink(missing_ok=True)
    ended = run(COMMANDS[name], folder, '"$@" > /dev/full')
    errors = ended.stderr.decode().replace("list.txt: reading ...\n", "")
    assert (ended.returncode, errors) == (1, CANNOT_WRITE)
    if "out.txt" in COMMANDS[name]:
        assert (folder / "out.txt").stat().st_size  # written before anything was shown


@pytest.mark.slow_but("evaluate", "configs")
@pytest.mark.parametrize("name", ["corpora", "evaluate", "configs"])
def test_a_reader_that_has_enough_ends_a_command_quietly(folder, name):
    ended = run(COMMANDS[name], folder, '"$@" | head -c 1')
    assert (ended.returncode, len(ended.stdout), ended.stderr) == (0, 1, b"")


@pytest.mark.slow_but("ascii")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_shows_as_escapes_the_letters_that_it_lacks(folder, encoding):
    (folder / "Täter 漢.txt").write_bytes((folder / "scores.txt").read_bytes())
    words = (*ASDF, "evaluate", "Täter 漢.txt", "--replicates", "0", "--csv", "out.csv")
    ended = run(words, folder, PYTHONIOENCODING=encoding)
    name = rb"T\xe4ter \u6f22" if encoding == "ascii" else b"T\xe4ter \\u6f22"
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(name + b"\n")
    assert "Täter 漢" in (folder / "out.csv").read_text()
    missing = run((*ASDF, "evaluate", "漢.txt"), folder, PYTHONIOENCODING=encoding)
    assert missing.returncode == 1
    assert missing.stderr.startswith(rb"error: cannot read \u6f22.txt: No such file or directory.")


@pytest.mark.parametrize(
    "words",
    [
        (*ASDF, "evaluate", "s.txt", "--json", "o"),
        (*RUN, "quickstart", "--dry-run", "paths.output_folder=x"),
    ],
)
def test_a_removed_working_folder_is_one_message(tmp_path, words):
    ended = run(words, tmp_path, 'mkdir gone && cd gone && rmdir ../gone && "$@"')
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr.decode() == FOLDER_REMOVED


def test_closed_streams_leave_the_files_as_they_should_be(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    assert main([*EVALUATE[2:], "--json", str(tmp_path / "whole.json")]) == 0
    words = (*EVALUATE, "--json", str(tmp_path / "closed.json"))
    closed = run(words, folder, '"$@" <&- >&-')
    assert (closed.returncode, closed.stderr) == (0, b"")
    assert (tmp_path / "closed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_an_output_on_stdout_is_alone_there(folder, capfd, monkeypatch):
    monkeypatch.chdir(folder)

    def shown(*words):
        assert main(list(words)) == 0
        return capfd.readouterr()

    comparison = shown(*COMMANDS["compare"][2:-1], "-")
    run_a = {"folder": str(folder / "run"), "network": "epoch.1"}
    assert json.loads(comparison.out)["runs"][0] == run_a
    assert comparison.err.startswith(f"A  {folder / 'run'}, epoch.1\n")
    results = shown(*EVALUATE[2:], "--json", "-", "--csv", "evaluated.csv")
    assert json.loads(results.out)[0]["system"] == "scores"
    assert "EER threshold" in results.err and (folder / "evaluated.csv").stat().st_size
    page = shown("report", "run", "--networks", "all", "--replicates", "0", "--output", "-")
    assert page.out.startswith("<!DOCTYPE html>") and page.out.endswith("</html>\n")
    assert page.err.endswith("written to standard output\n")
    listed = shown("corpora", "list.txt", ".", "--list", "-")
    assert listed.out == "a.flac 1\nb.flac 0\n" and "2: 1 bona fide, 1 spoof" in listed.err


def test_scores_are_read_from_stdin(folder, capsys, monkeypatch):
    ended = run((*ASDF, "evaluate", "-", "--replicates", "0"), folder, '"$@" < scores.txt')
    monkeypatch.chdir(folder)
    assert main(list(EVALUATE[2:])) == ended.returncode == 0
    assert ended.stdout.decode().splitlines()[1:] == capsys.readouterr().out.splitlines()[1:]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("corpora", "list.txt", ".", "--list", "-", "--trials", "-"),
            "2 outputs go to standard output (-, -) and would be mixed",
        ),
        (
            ("evaluate", "scores.txt", "--json", "-", "--latex", "-"),
            "2 outputs go to standard output (-, -) and would be mixed",
        ),
        (("evaluate", "-", "--protocol", "-"), "two inputs are '-', but standard input"),
        (("evaluate", "scores.txt", "--plot", "-"), "'-' is standard output, but this output is"),
        (("calibrate", "net.pt", "scores.txt", "--out", "-"), "'-' is standard output, but this"),
        (("import", "net.pt", "-"), "'-' is standard output, but this output is a binary file"),
        (("export", "net.pt", "--format", "hub", "-"), "'-' is standard output, but this output"),
    ],
)
def test_streams_that_cannot_be_shared_are_refused(folder, capsys, monkeypatch, words, said):
    monkeypatch.chdir(folder)
    assert main(list(words)) == UsageError.exit_status
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"error: {said}")


def test_an_error_names_a_file_without_obeying_its_name(capsys, tmp_path):
    name = "\x1b]0;title\x07\u202e.txt"
    assert main(["evaluate", str(tmp_path / name)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        rf"error: cannot read {tmp_path}/\x1b]0;title\x07\u202e.txt: No such"
    )


def test_a_path_that_the_system_refuses_is_one_message(capsys):
    name = "x" * 300 + ".pt"
    assert main(["score", name, "a.wav"]) == 1
    said = f"error: cannot access {shorten(name)}: File name too long. Correct the path or its"
    assert capsys.readouterr().err.startswith(said)
    for number, why in {errno.EACCES: "Permission denied", errno.EROFS: "Read-only file"}.items():
        assert _report(OSError(number, why, "/theirs/net.pt")) == 1
        said = f"error: cannot access /theirs/net.pt: {why}. Correct the path or its"
        assert capsys.readouterr().err.startswith(said)


def test_an_error_is_of_a_bounded_length(capsys):
    assert main(["corpora", "x" * 1_000_000]) == UsageError.exit_status
    error = capsys.readouterr().err
    assert error.startswith("error: there is no corpus 'xxx") and len(error) < 20_200
    assert "characters of this message are left out ...\n" in error


def test_a_broken_pipe_other_than_stdout_is_a_failure_that_is_seen(monkeypatch, capsys):
    broken = BrokenPipeError(32, "Broken pipe")
    assert _report(broken) == 1 and _report(NobodyReadsError(32, "Broken pipe")) == 0

    def fail(arguments):
        raise broken

    monkeypatch.setattr("asdf.__main__._run", fail)
    with pytest.raises(BrokenPipeError):
        main(["networks"])


def test_a_failure_of_code_is_reported_by_the_main_process_alone(caplog, monkeypatch):
    failed = ZeroDivisionError("division by zero")
    assert _report(failed) == 1
    assert "ZeroDivisionError: division by zero" in caplog.text
    caplog.clear()
    failed.reported_by_main = True
    assert _report(failed) == 1 and caplog.text == ""

    def fail(_):
        raise failed

    monkeypatch.setattr("asdf.commands.embed.embed", fail)
    with pytest.raises(SystemExit) as ended:
        main(["embed", "n.pt", "l.txt", "-o", "o.npz"])
    assert ended.value.code == 1


def test_without_a_command_all_are_listed_in_groups(capsys):
    assert main([]) == 2
    shown = capsys.readouterr().out
    positions = [shown.index(f"\n{group}:") for group in list(GROUPS)[1:]]
    assert positions == sorted(positions)
    assert re.findall(r"^  ([a-z][\w-]*) ", shown, re.MULTILINE) == list(COMMANDS_OF_ASDF)
    assert len(COMMANDS_OF_ASDF) == sum(map(len, GROUPS.values()))


def test_commands_are_imported_without_torch_and_without_their_work():
    """The folder of its subject stands on the way to a command: its door has to be a lazy one."""
    code = (
        "import importlib, sys\nfrom asdf.__main__ import COMMANDS, module_name\n"
        "for name in COMMANDS:\n    importlib.import_module(module_name(name))\n"
        "heavy = {'torch', 'fastapi', 'huggingface_hub', 'asdf.demo.synthetic_corpus'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("word", "near"), [("scor", "score"), ("evalute", "evaluate")])
def test_a_wrong_command_names_the_nearest(capsys, word, near):
    assert main([word, "x"]) == 2
    assert capsys.readouterr().err == (
        f"error: there is no command '{word}'. Did you mean '{near}'? python -m asdf --help lists "
        "all of them.\n"
    )
