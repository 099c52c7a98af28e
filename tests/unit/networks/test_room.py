"""What the room exports: known without torch, and imported when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import asdf.networks
from asdf.errors import UsageError
from asdf.settings.class_path import find_class


@pytest.mark.parametrize("name", asdf.networks.__all__)
def test_every_name_is_importable(name):
    assert getattr(asdf.networks, name).__name__ == name


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'Conformer'"):
        _ = asdf.networks.Conformer


def test_a_dry_run_knows_the_names_without_an_import():
    program = "import asdf.networks, sys; print(asdf.networks.__all__[0], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["AASIST", "False"]
    with pytest.raises(UsageError, match=r"has no class 'SSL_AASITS'\. Did you mean 'SSL_AASIST'"):
        find_class("asdf.networks.SSL_AASITS", Path(), "network.network_class", nn.Module)


def test_what_fits_is_named_where_no_name_is_alike(tmp_path):
    with pytest.raises(
        UsageError, match=r"Available there: AASIST, \w+.* AASIST_L, \w+.* SSL_SLS"
    ) as caught:
        find_class("asdf.networks.Quartz9", tmp_path, "network.network_class", nn.Module)
    assert "Any" not in str(caught.value) and "build_network" not in str(caught.value)
    (tmp_path / "my_nets_here.py").write_text("from torch import nn\nclass Net(nn.Module): ...\n")
    with pytest.raises(UsageError, match="Available there: Net"):
        find_class("my_nets_here.Whisper", tmp_path, "network.network_class", nn.Module)
