"""The documents are a site: it builds without a warning, has every page, and loads nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

mkdocs = pytest.importorskip("mkdocs", reason="pip install '.[docs]'")
pytest.importorskip("mkdocstrings")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").with_suffix("")
        folder = page.parent if page.name == "index" else page
        assert (site / folder / "index.html").exists(), page
    notebooks = [f"notebooks/{path.stem}" for path in (ROOT / "docs/notebooks").glob("*.ipynb")]
    for page in ("recipe", "results", "contributing", "changelog", *notebooks):
        assert (site / page / "index.html").exists()


def test_the_interface_is_on_it(site: Path) -> None:
    page = (site / "code" / "index.html").read_text(encoding="utf-8")
    for name in ("score", "score_many", "score_whole", "score_over_time"):
        assert f'id="asdf.scoring.detector.Detector.{name}"' in page
    assert 'id="asdf.evaluation.eer"' in page or 'id="asdf.metrics.detection.eer"' in page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?(https?:[^\"' >]+)")
    for path in site.rglob("*.html"):
        assert loaded.findall(path.read_text(encoding="utf-8")) == [], path


def test_every_picture_of_a_document_is_on_its_page(site: Path) -> None:
    shown = re.compile(r"<img[^>]+src=\"?([^\" >]+)")
    pages = {"index": "index.html", "results": "results/index.html"}
    pictures = {}
    for name, page in pages.items():
        (source,) = shown.findall((site / page).read_text(encoding="utf-8"))
        pictures[name] = (site / page).parent / source
    assert pictures["index"].read_bytes() == (ROOT / "docs/quickstart.svg").read_bytes()
    assert pictures["results"].read_bytes() == (ROOT / "benchmarks/results.svg").read_bytes()
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for source in shown.findall(text):
            assert (path.parent / source).exists(), (path, source)
        # What a picture's sign leaves where its link was taken from it.
        assert not re.search(r">![A-Za-z]", text), path


def test_names_of_settings_stay_on_one_line(site: Path) -> None:
    page = (site / "settings" / "index.html").read_text(encoding="utf-8")
    (sheet,) = re.findall(r"href=\"?([^\" >]*site\.css)", page)
    rules = (site / "settings" / sheet).read_text(encoding="utf-8")
    assert re.search(r"td:first-child code \{\s*white-space: nowrap;", rules)
