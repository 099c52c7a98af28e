"""The configs that the documents show are read, by names and values that exist."""

import re
import sys
from pathlib import Path

import pytest

from asdf.settings import Settings
from asdf.settings.mistakes import SettingsError
from tests.conftest import ROOT
from tests.documents.blocks import blocks_of
from tests.test_your_own import EXAMPLES

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What the lines that are shown are set over; a block that names its parents has these.
BASE = """
net
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'wav2vec2'
front_end.architecture = 'tiny'
back_end.back_end_class = 'linear'

larger_net < net

plain
"""


def config_blocks(page: Path) -> list[list[str]]:
    """Return the configs of a page as lines; a setting that is set again begins another config."""
    configs = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.kind != "config":
            continue
        lines: list[str] = []
        for line in block.text.splitlines():
            shown = re.split(r"\s{2,}", line.strip())[0]
            name = shown.split(" = ")[0]
            if any(earlier.startswith(f"{name} = ") for earlier in lines):
                configs.append(lines)
                lines = []
            lines.append(shown)
        configs.append(lines)
    return configs


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A recipe folder with the files of docs/your_own.md."""
    folder = tmp_path_factory.mktemp("recipe")
    for module, example in EXAMPLES.items():
        (folder / f"{module}.py").write_text(example.code)
    (folder / "init.py").write_text("paths.output_folder = 'output'\n")
    yield folder
    for module in EXAMPLES:
        sys.modules.pop(module, None)


@pytest.mark.parametrize("page", [p for p in PAGES if config_blocks(p)], ids=lambda path: path.name)
def test_a_config_that_is_shown_is_read(page: Path, folder: Path) -> None:
    for lines in config_blocks(page):
        try:
            read_config(lines, folder)
        except SettingsError as error:
            if "contradicts" not in str(error):
                raise
            # Alternatives, one per line.
            for line in lines:
                read_config([line], folder)


def read_config(lines: list[str], folder: Path) -> None:
    """Read lines as a block of a recipe's configs, and see each of their settings in force."""
    names_network = any(line.startswith("network.network_class") for line in lines)
    header = "shown < plain" if names_network else "shown < net"
    if " < " in lines[0]:
        header, *lines = lines
        header = header.replace("larger_net <", "shown <")
    text = "\n".join([BASE, header, *lines])
    (folder / "run_configs.py").write_text(f"{text}\n")
    settings = Settings(folder / "init.py", folder)
    configs = settings.read_configs(folder / "run_configs.py", [header.split(" < ")[0]])
    for account in settings.apply_each(configs):
        for line in lines:
            assert line.split(" = ")[0].split(".")[1] in account, line
