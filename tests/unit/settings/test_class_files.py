"""What files of classes say is read without importing them."""

from __future__ import annotations

import sys

from asdf.settings import class_files
from asdf.settings.catalogue import our_catalogue, settings_of
from asdf.settings.class_files import fact, network_modules, short_names
from asdf.settings.declared import declared_by

OWN = '''
from dataclasses import dataclass
from asdf.settings import OwnSettings, setting

@dataclass
class Common(OwnSettings):
    depth: int = 3
    """layers of
    the stack"""

@dataclass
class Mine(Common, section_name="mine_here"):
    width: int = setting(4, at_least=1)
    """values of a layer"""
    rate: float = setting(0.5, "the rate", at_least=0)

class Net:
    own_settings = Mine
'''


def test_a_users_meanings_stand_below_or_in_a_setting(tmp_path):
    (tmp_path / "module_of_meanings.py").write_text(OWN)
    kind = declared_by("module_of_meanings.Net", "network.network_class", tmp_path)
    known = settings_of("mine_here", kind)
    assert {each.name: each.meaning for each in known.values()} == {
        "depth": "layers of the stack",
        "width": "values of a layer",
        "rate": "the rate",
    }
    assert known["mine_here.width"].metadata["at_least"] == 1
    sys.modules.pop("module_of_meanings")


def test_every_setting_of_ours_has_a_meaning():
    assert [name for name, known in our_catalogue().settings.items() if not known.meaning] == []
    # Of the section's own class, and of the last of those that add to it.
    assert our_catalogue().settings["back_end.back_end_class"].meaning.startswith("the back end of")


def test_a_fact_is_the_classes_own_or_of_the_nearest_base():
    # Its first base has none of its own, and is read before the base of both.
    assert fact("asdf.networks.ECAPABackEnd", "frame_step") == 1
    assert fact("asdf.networks.LCNNBackEnd", "frame_step").endswith("lcnn.POOL")
    assert fact("asdf.networks.MLPBackEnd", "frame_step", "none") is None
    assert fact("asdf.networks.SSL_SLS", "back_end_class").endswith("sls.SLSBackEnd")
    others = ("my_networks.Net", "my_networks.MLPBackEnd", "my_networks.RawNet2")
    for path in (*others, "asdf.networks.Missing", "torch.nn.Linear", "asdf.nowhere.Net"):
        assert fact(path, "frame_step", "none") == "none"


def test_classes_are_found_by_their_folders():
    assert short_names("BackEnd")["mhfa"] == "asdf.networks.MHFABackEnd"
    assert short_names("FrontEnd")["cqt"] == "asdf.networks.CQTFrontEnd"
    assert network_modules()["MHFABackEnd"] == "asdf.networks.back_ends.mhfa"
    assert "MaxFeatureMap" not in network_modules()


def test_bases_on_several_lines_are_read(tmp_path, monkeypatch):
    folder = tmp_path / "asdf" / "networks" / "back_ends"
    folder.mkdir(parents=True)
    bases = 'class WideBackEnd(\n    BackEnd,\n    Timed,\n):\n    short_name = "wide"\n'
    (folder / "wide.py").write_text(bases)
    monkeypatch.setattr(class_files, "OUR_PACKAGE", tmp_path / "asdf")
    class_files._network_classes.cache_clear()
    try:
        assert short_names("BackEnd") == {"wide": "asdf.networks.WideBackEnd"}
    finally:
        class_files._network_classes.cache_clear()
