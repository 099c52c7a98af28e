"""Compare files with those that an earlier revision wrote."""

import os
import re
import shutil
from pathlib import Path

import pytest

from asdf import removed

FROZEN = Path(__file__).parents[1] / "fixtures" / "proofs"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.\d+(?:e[-+]?\d+)?|[-+]?\d+e[-+]?\d+")
# What differs from day to day, machine to machine and version to version.
PASSING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\s\"<]*"), "DATE"),
    (re.compile(r'("(?:asdf|torch|network_sha256)": ")[^"]*'), r"\1..."),
)


def compare(folder: Path, name: str, rel: float, absolute: float) -> None:
    """Compare the files in `folder` with the frozen ones called `name`, or freeze them.

    Args:
        folder: Folder of text files.
        rel: Relative tolerance of numbers with a point or an exponent; all else is equal.
        absolute: Absolute tolerance of the same numbers.
    """
    for file, (text, expected) in with_frozen(folder, name).items():
        assert NUMBER.sub("#", text) == NUMBER.sub("#", expected), file
        numbers = [float(number) for number in NUMBER.findall(text)]
        assert numbers == pytest.approx(
            [float(number) for number in NUMBER.findall(expected)], rel=rel, abs=absolute
        ), file


def compare_settings(folder: Path, name: str) -> None:
    """Compare lists of settings with the frozen ones called `name`, or freeze them.

    Their frozen lines are all there, in their order, but for settings that have left; one may join.
    """
    for file, (text, expected) in with_frozen(folder, name).items():
        lines = iter(text.splitlines())
        staying = [x for x in expected.splitlines() if x.partition(" ")[0] not in removed.SETTINGS]
        missing = [line for line in staying if line not in lines]
        assert not missing, file


def with_frozen(folder: Path, name: str) -> dict[str, tuple[str, str]]:
    """Return the text of each file in `folder` and the frozen one, which it becomes at first."""
    frozen = FROZEN / name
    texts = {path.name: lasting(path.read_text()) for path in sorted(folder.iterdir())}
    if os.environ.get("ASDF_FREEZE"):
        shutil.rmtree(frozen, ignore_errors=True)
        frozen.mkdir(parents=True)
        for file, text in texts.items():
            (frozen / file).write_text(text)
    assert sorted(texts) == sorted(path.name for path in frozen.iterdir())
    return {file: (text, (frozen / file).read_text()) for file, text in texts.items()}


def lasting(text: str) -> str:
    """Return a text without what is not of the program: dates, versions, digests of networks."""
    for pattern, replacement in PASSING:
        text = pattern.sub(replacement, text)
    return text
