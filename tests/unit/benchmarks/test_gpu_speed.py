"""Utterances per second that are computed: what limits them, and that the page has them."""

from dataclasses import replace

import pytest

from benchmarks import gpu_speed
from benchmarks.harness import ROOT


def test_the_slower_of_host_and_gpu_decides():
    work = gpu_speed.Work("a network", minibatch=14, giga=225.3, operations=1836, moved=53.0)
    # 2 x 14 x 225.3e9 / (1e15 x 0.7) and 53.0e9 / (4e12 x 0.8); 1,836 operations at 9.47 + 2 us.
    fast = gpu_speed.Gpu(1e15, 4e12)
    assert gpu_speed.gpu_seconds(work, fast) == pytest.approx(0.009012 + 0.016563, rel=1e-3)
    assert gpu_speed.host_seconds(work) == pytest.approx(0.021051, rel=1e-3)
    assert gpu_speed.rate(work, fast) == pytest.approx(547.4, rel=1e-3)
    faster = gpu_speed.Gpu(2e15, 8e12)
    assert gpu_speed.rate(work, faster) == pytest.approx(665.1, rel=1e-3)
    graphed = replace(work, operations=32)
    assert gpu_speed.rate(graphed, faster) == pytest.approx(2 * 547.4, rel=1e-3)


@pytest.mark.slow
def test_the_page_has_what_is_computed():
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert f"{gpu_speed.BEGIN}\n\n{gpu_speed.tables()}\n\n{gpu_speed.END}" in page
