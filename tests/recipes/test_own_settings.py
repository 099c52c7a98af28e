"""Settings of a user's own network, as commands, records, network files and compare see them."""

import pytest

from asdf import Detector
from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.trials.run_folder import open_run_folder

NETWORK = '''
from dataclasses import dataclass

from torch import nn

from asdf.settings import OwnSettings, setting
from small_networks import Plain


@dataclass
class WideSettings(OwnSettings, section_name="wide"):
    """What the wide network needs."""

    hidden: int = setting(6, "width of the hidden layer", unit="units", at_least=1, at_most=99)


class Wide(Plain):
    own_settings = WideSettings

    def __init__(self, settings):
        super().__init__(settings)
        hidden = settings.wide.hidden
        self.output = nn.Sequential(nn.Linear(48, hidden), nn.Linear(hidden, 2))
'''
CONFIG = """
wide < debug
network.network_class = 'my_network.Wide'
network.max_epochs = 1
wide.hidden = 5
"""


@pytest.fixture
def wide(recipe):
    return recipe.with_files(CONFIG, my_network=NETWORK)


def test_commands_know_the_section(wide, capsys):
    explained = wide.call(capsys, "wide", "wide.hidden=7", "--explain", "wide.hidden")
    assert explained.output.splitlines()[:2] == [
        "wide.hidden = 7",
        "  width of the hidden layer (a whole number, at least 1, at most 99, unit: units)",
    ]
    wide.call(capsys, "--list").ok()
    wide.call(capsys, "wide", "--dry-run").ok()
    typo = wide.call(capsys, "wide", "wide.hiden=7")
    assert typo.status == 2
    assert "there is no setting 'wide.hiden'; the nearest is 'wide.hidden'" in typo.output


def test_it_is_recorded_compared_and_in_the_network_file(wide, capsys):
    for name, hidden in (("five", 5), ("four", 4)):
        words = (f"paths.system_folder={name}", f"wide.hidden={hidden}", "recipe.end_stage=1")
        wide.call(capsys, "wide", *words).ok()
    five = wide.system("five")
    assert open_run_folder(five).settings()["wide.hidden"].text == "5"
    capsys.readouterr()
    assert main(["compare", str(five), str(wide.system("four"))]) == 0
    assert "wide.hidden" in capsys.readouterr().out

    network = five / "networks" / "epoch.1.pt"
    assert wide.load(system="five")["settings"]["wide"] == {"hidden": 5}
    # The file, not a default, says how wide it is.
    words = ("paths.system_folder=five", "recipe.start_stage=2", "recipe.end_stage=2")
    wide.call(capsys, "wide", *words, "wide.hidden=9").ok()
    detector = Detector(network, network_folder=wide.folder)
    assert detector.settings.wide.hidden == 5
    with pytest.raises(AsdfError, match="my_network"):
        Detector(network)
