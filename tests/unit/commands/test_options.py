"""Options of commands: what is read, shown and refused; and outputs, of which one is on stdout."""

import importlib
import re
import subprocess
import sys
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from asdf.__main__ import COMMANDS, main, module_name
from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import (
    check_file,
    check_inputs,
    output_name,
    show,
    text_stream,
    write_outputs,
)
from asdf.errors import UsageError
from asdf.runs.streams import input_name
from asdf.text import TYPED, as_typed
from tests.conftest import PATIENCE_S


def refuse_negative(value: float) -> None:
    if value < 0:
        raise UsageError(f"--share {value:g}: no share is negative.")


@dataclass(frozen=True, kw_only=True)
class Inherited:
    """The place where it grows."""

    soil: str | None = option("what it grows in", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class Options(Inherited):
    """Options of a command of the tests."""

    files: tuple[Path, ...] = argument("what is read", "FILE")
    kind: Literal["oak", "ash"] = option("kind of tree; python -m asdf trees", default="oak")
    share: float = option("its share", metavar="R", default=0.0, check=refuse_negative)
    needed: int = option("a number", metavar="N", default=MISSING)
    tags: tuple[str, ...] = option("named again", metavar="T", default=(), repeated=True)
    pair: tuple[str, str] | None = option("two of them", metavar=("A", "B"))
    text: Path | None = option("a text", metavar="OUT", aliases=("--txt",))
    table: Path | None = option("a table", metavar="OUT")
    brief: bool = flag("say less")
    older: str | None = option("of an earlier version", hidden=True)


COMMAND = Command(
    "trees", "Trees: python -m asdf trees", Options, {".txt": "text", ".csv": "table"}
)


def test_words_become_a_typed_dataclass() -> None:
    words = "a --needed 3 --tags x --tags y b --pair 1 2 --txt c.txt --share 1e-3 --brief"
    numbers = {"needed": 3, "share": 0.001, "brief": True}
    texts = {"tags": ("x", "y"), "pair": ("1", "2"), "text": Path("c.txt")}
    assert COMMAND.read(words.split()) == Options(files=(Path("a"), Path("b")), **numbers, **texts)
    least = COMMAND.read(["a", "--needed", "3"])
    assert least == Options(files=(Path("a"),), needed=3)
    assert (least.kind, least.share, least.tags, least.brief) == ("oak", 0.0, (), False)


def test_the_suffix_of_an_output_says_what_is_written() -> None:
    named = COMMAND.read(["a", "--needed", "3", "-o", "x.TXT", "--output", "x.csv"])
    assert (named.text, named.table) == (Path("x.TXT"), Path("x.csv"))
    with pytest.raises(UsageError, match=r"--output x\.md: .* \.txt as --text, \.csv as --table"):
        COMMAND.read(["a", "--needed", "3", "-o", "x.md"])
    with pytest.raises(UsageError, match=r"--table x\.csv, but --table y\.csv is also given"):
        COMMAND.read(["a", "--needed", "3", "--table", "y.csv", "-o", "x.csv"])


def test_what_cannot_be_meant_is_refused(capsys) -> None:
    with pytest.raises(UsageError, match=r"--share -1: no share is negative"):
        COMMAND.read(["a", "--needed", "3", "--share", "-1"])
    for words in (["a"], ["--needed", "3"], ["a", "--needed", "3", "--kind", "elm"]):
        with pytest.raises(SystemExit) as ended:
            COMMAND.read(words)
        assert ended.value.code == 2
    assert "invalid choice: 'elm'" in capsys.readouterr().err


def test_help_has_what_the_fields_say(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = COMMAND.parser().format_help()
    assert shown.startswith("usage: python -m asdf trees FILE ... --needed N [options]\n")
    lines = [line.strip() for line in shown.splitlines()]
    assert "--kind {oak,ash}      kind of tree; python -m asdf trees (oak)" in lines
    assert "--share R             its share (0)" in lines
    assert lines[lines.index("The place where it grows:") + 1].startswith("--soil NAME")
    assert "--txt" not in shown and "--older" not in shown


def test_help_shows_what_comes_first_and_help_all_the_rest(capsys) -> None:
    command = replace(COMMAND, first=("kind", "brief"))
    texts = []
    for words in (["--help"], ["-h", "all"]):
        with pytest.raises(SystemExit) as ended:
            command.read(words)
        assert ended.value.code == 0
        texts.append(capsys.readouterr().out)
    short, whole = texts
    # A required option is always shown, and what --output stands for.
    for word in ("--kind", "--brief", "--needed N", "-o OUT", "FILE ..."):
        assert word in short and word in whole
    hidden = ["--soil NAME", "--share R", "--tags T", "--pair A B", "--text OUT", "--table OUT"]
    assert [word for word in hidden if word in short] == []
    assert [word for word in hidden if word not in whole] == []
    assert "`python -m asdf trees --help all` shows 7 more options." in " ".join(short.split())
    assert command.read(["a", "--needed", "3", "--share", "0.5"]).share == 0.5


@pytest.mark.parametrize("name", COMMANDS)
def test_a_beginner_meets_few_options_and_the_command_as_it_was_typed(monkeypatch, name) -> None:
    command = importlib.import_module(module_name(name)).COMMAND
    shown = command.parser(is_whole=False).format_help()
    count = len(re.findall(r"^  (?:-\w.*, )?--", shown, re.MULTILINE)) - 1  # without --help
    assert count <= (10 if name == "score" else 12)

    assert f"python -m asdf {name}" in command.parser().format_help()
    monkeypatch.setattr(sys, "argv", ["/usr/bin/asdf-antispoofing"])
    shown = command.parser().format_help()
    assert shown.startswith(f"usage: asdf-antispoofing {name} ")
    assert "python -m asdf" not in shown


def test_errors_name_commands_as_they_were_typed(monkeypatch, capsys) -> None:
    words = ["train", "nowhere"]
    assert main(words) == 2
    assert "python -m asdf new-recipe my_recipe" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["/usr/bin/asdf-antispoofing"])
    assert main(words) == 2
    assert ": asdf-antispoofing new-recipe my_recipe" in capsys.readouterr().err


def test_a_recipe_that_a_command_became_names_the_command(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["recipe/run.py"])
    assert as_typed("python -m asdf score") == "python -m asdf score"
    monkeypatch.setenv(TYPED, "asdf-antispoofing")
    assert as_typed("python -m asdf score") == "asdf-antispoofing score"


def test_each_output_is_named_by_the_same_option() -> None:
    without = {"quickstart", "new-recipe", "serve", "train", "launch"}
    for name in COMMANDS:
        actions = importlib.import_module(module_name(name)).COMMAND.parser()._actions
        has_output = any("--output" in action.option_strings for action in actions)
        assert has_output == (name not in without), name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("calibrate", ["net.pt", "--out", "x"]),
        ("fuse", ["a", "b", "--out", "x"]),
        ("import", ["net.pth", "x", "network.max_epochs=2"]),
        ("export", ["net.pt", "x", "--format", "onnx"]),
    ],
)
def test_older_names_of_outputs_are_understood(name, words) -> None:
    command = importlib.import_module(module_name(name)).COMMAND
    older = command.read(words)
    newer = command.read([word for word in words if word not in ("--out", "x")] + ["-o", "x"])
    output = "out" if name in ("import", "export") else "output"
    assert getattr(older, output) == getattr(newer, output) == Path("x")
    assert "--out " not in command.parser().format_help()
    if name == "import":
        assert older.settings == newer.settings == ("network.max_epochs=2",)


def test_an_output_has_to_be_named() -> None:
    command = importlib.import_module(module_name("import")).COMMAND
    with pytest.raises(UsageError, match=r"--output OUT\.$"):
        _ = command.read(["net.pt"]).out


def test_train_becomes_the_recipe(tmp_path) -> None:
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    (recipe / "run.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
    words = ["net", "network.max_epochs=2", "--dry-run", "--explain", "x"]
    for named in (recipe, recipe / "run.py"):
        command = [sys.executable, "-m", "asdf", "train", str(named), *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (ended.returncode, ended.stdout, ended.stderr) == (7, f"{words}\n", "")


def test_train_says_what_is_not_a_recipe(tmp_path, capsys) -> None:
    assert main(["train", str(tmp_path), "net"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path}/run.py is not a file. Give the folder of a recipe")


def test_the_text_goes_to_stderr_where_an_output_goes_to_stdout(tmp_path):
    assert text_stream([None, tmp_path / "file"]) is sys.stdout
    assert text_stream([None, Path("-"), tmp_path / "file"]) is sys.stderr
    assert text_stream([Path("/dev/stdout")]) is sys.stderr


def test_two_outputs_on_stdout_are_refused():
    with pytest.raises(
        UsageError, match=r"^2 outputs go to standard output \(-, /dev/stdout\) and"
    ):
        text_stream([Path("-"), None, Path("/dev/stdout")])


def test_stdin_is_read_once():
    check_inputs([Path("-"), None, Path("file")])
    with pytest.raises(UsageError, match="two inputs are '-', but standard input can be read only"):
        check_inputs([Path("-"), None, Path("-")])


def test_what_is_no_text_needs_a_file():
    check_file(Path("net.pt"))
    with pytest.raises(UsageError, match="'-' is standard output, but this output is a binary"):
        check_file(Path("-"))


def test_files_are_written_before_stdout():
    written = []
    paths = [Path("-"), None, Path("one"), Path("two")]
    write_outputs([(path, written.append) for path in paths])
    assert written == [Path("one"), Path("two"), Path("-")]


def test_names_of_streams():
    assert (input_name(Path("-")), output_name(Path("-"))) == ("standard input", "standard output")
    assert (input_name(Path("a")), output_name(Path("b"))) == ("a", "b")


def test_text_is_shown_without_control_characters(capsys):
    show("attack \x1b[31mA01\u202e\n  next line")
    show("a\x07", sys.stderr)
    out, err = capsys.readouterr()
    assert (out, err) == ("attack \\x1b[31mA01\\u202e\n  next line\n", "a\\x07\n")
