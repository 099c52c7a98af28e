"""Outputs of commands: files before text, at most one on stdout, no foreign control characters."""

import sys
from pathlib import Path

import pytest

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


def test_the_text_goes_to_stderr_where_an_output_goes_to_stdout(tmp_path):
    assert text_stream([None, tmp_path / "file"]) is sys.stdout
    assert text_stream([None, Path("-"), tmp_path / "file"]) is sys.stderr
    assert text_stream([Path("/dev/stdout")]) is sys.stderr


def test_two_outputs_on_stdout_are_refused():
    with pytest.raises(UsageError) as caught:
        text_stream([Path("-"), None, Path("/dev/stdout")])
    assert str(caught.value) == (
        "2 outputs go to standard output (-, /dev/stdout) and would be mixed. Write all but one to "
        "files."
    )


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
    captured = capsys.readouterr()
    assert (
        captured.out == "attack \\x1b[31mA01\\u202e\n  next line\n" and captured.err == "a\\x07\n"
    )
