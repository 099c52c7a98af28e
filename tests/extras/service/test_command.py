"""`python -m asdf serve`: what is refused before anything is served."""

import socket
import subprocess
import sys

import pytest

from asdf.__main__ import main
from asdf.extras.service.access import VARIABLE, Token, read_token
from tests.conftest import PATIENCE_S, ROOT


@pytest.fixture
def serve(network_file, capsys, monkeypatch):
    """Run the command, which must end by itself: exit status and message."""
    monkeypatch.delenv(VARIABLE, raising=False)

    def run(*words: str) -> tuple[int, str]:
        status = main(["serve", str(network_file), "--port", "0", *words])
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "at 0.0.0.0 other machines can use the service. Set a token"),
        (["--host", "::"], "at :: other machines can use the service"),
        (["--workers", "0"], "workers = 0: give 1 or more"),
        (["--queue", "0"], "queue = 0: give 1 or more"),
        (["--max-seconds", "nan"], "max_seconds = nan: give a positive number"),
        (["--threshold", "inf"], "would give every recording the same verdict"),
        (["--port", "70000"], "port 70000 does not exist"),
        (["--host", "192.0.2.1", "--without-token"], "cannot serve at 192.0.2.1"),
    ],
)
def test_mistakes_are_one_message(serve, words, message):
    status, error = serve(*words)
    assert status == 2 and message in error


def test_a_port_that_is_taken_is_reported(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, error = serve("--port", str(taken.getsockname()[1]))
    assert status == 2 and "Another program uses it" in error


@pytest.mark.slow_but("1")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_network_that_is_none_ends_the_service(tmp_path, workers):
    path = tmp_path / "text.pt"
    path.write_text("no network")
    words = ["-m", "asdf", "serve", str(path), "--port", "0", "--workers", workers]
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": PATIENCE_S}
    done = subprocess.run([sys.executable, *words], **options)
    assert done.returncode == 1
    assert str(path) in done.stderr and "Traceback" not in done.stderr


def test_a_token_comes_from_a_file_or_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert read_token(None) is None
    path = tmp_path / "token"
    path.write_text("one of sixteen characters\n")
    for authorization in ("Bearer one of sixteen characters", "bearer  one of sixteen characters "):
        read_token(path).check(authorization)
    monkeypatch.setenv(VARIABLE, "another of sixteen and more")
    read_token(None).check("Bearer another of sixteen and more")
    # The file is what was named.
    read_token(path).check("Bearer one of sixteen characters")


@pytest.mark.parametrize("text", ["", "short", " " * 30])
def test_a_weak_token_is_refused(serve, tmp_path, monkeypatch, text):
    path = tmp_path / "token"
    path.write_text(text)
    status, error = serve("--token-file", str(path))
    assert status == 2 and "use 16 or more" in error
    monkeypatch.setenv(VARIABLE, text)
    assert serve()[0] == 2


def test_a_token_that_is_no_text_is_just_wrong():
    token = Token("sixteen characters and ä")
    token.check("Bearer sixteen characters and ä")
    for stated in ("", "Bearer", "Bearer \udcff", "sixteen characters and ä"):
        with pytest.raises(Exception, match="requires its token"):
            token.check(stated)


def test_help_and_mistakes_need_neither_torch_nor_fastapi():
    code = "import sys; from asdf.__main__ import main; main(['serve', 'x', '--threshold', 'inf']);"
    code += "print(sorted({'torch', 'fastapi', 'granian'} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
