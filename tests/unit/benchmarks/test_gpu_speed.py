"""Utterances per second that are computed: what limits them, and that the page has them."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

# Not installed: it lies next to asdf/ in the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks import gpu_speed
from benchmarks.harness import ROOT


def test_the_slower_of_host_and_gpu_decides():
    work = gpu_speed.WORKS[0]
    # 2 x 14 x 225.3e9 / (1e15 x 0.4); 1,959 operations at 9.47 + 2 microseconds.
    assert gpu_speed.gpu_seconds(work, 1e15, 0.4) == pytest.approx(0.01577, rel=1e-3)
    assert gpu_speed.host_seconds(work) == pytest.approx(0.02246, rel=1e-3)
    assert gpu_speed.rate(work, 1e15, 0.4) == pytest.approx(623.3, rel=1e-3)
    assert gpu_speed.rate(work, 1e14, 0.4) == pytest.approx(88.77, rel=1e-3)
    graphed = replace(work, operations=32)
    assert gpu_speed.rate(graphed, 1e15, 0.4) == pytest.approx(887.7, rel=1e-3)


def test_the_page_has_what_is_computed():
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert f"{gpu_speed.BEGIN}\n\n{gpu_speed.tables()}\n\n{gpu_speed.END}" in page
