"""Sections that a class of the user's declares: read, checked, explained, recorded like ours."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asdf.settings import Sections, Settings, SettingsError
from asdf.settings.catalogue import settings_of
from asdf.settings.declared import RESERVED, section_of_arguments
from asdf.settings.explaining import explain
from asdf.settings.mistakes import Complaint
from asdf.settings.value_checks import check_value

MODULE = '''
from dataclasses import dataclass
from typing import Literal

from asdf.settings import OwnSettings, setting


@dataclass
class HeadSettings(OwnSettings, section_name="head"):
    """What the head needs."""

    hidden: int = setting(64, "width of the hidden layer", at_least=1, at_most=1000)
    kind: Literal["mean", "max"] = setting("mean", "the pooling")
    rates: tuple[float, ...] = setting((0.1, 0.2), "dropout by layer", at_least=0, at_most=1)
    note: str | None = setting(None, "a note", unit="words")


class Network:
    own_settings = HeadSettings


class Other:
    pass
'''


@pytest.fixture
def module(here: Path) -> Iterator[Path]:
    before = set(sys.modules)
    path = here / "my_network.py"
    path.write_text(MODULE)
    yield path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(here):
            del sys.modules[name]


def read(here: Path, text: str, *overrides: str, init: str = ""):
    (here / "init.py").write_text(init)
    (here / "runs.py").write_text(f"a\n{text}\n")
    Settings("init.py")
    return Settings().read_configs("runs.py", ["a"], overrides)[0]


CLASS = "network.network_class = 'my_network.Network'\n"


def test_defaults_configs_and_the_command_line(here: Path, module: Path) -> None:
    config = read(here, f"{CLASS}head.hidden = 32", "head.kind=max", "head.rates=(0, 1)")
    section = config.sections().head
    assert (section.hidden, section.kind, section.rates, section.note) == (32, "max", (0, 1), None)
    assert explain(config, "head").splitlines() == [
        "head.hidden = 32         runs.py:3 (a)",
        "head.kind = 'max'        command line",
        "head.rates = (0.0, 1.0)  command line",
        "head.note = None         default",
    ]
    assert "width of the hidden layer (a whole number, at least 1, at most 1,000)" in explain(
        config, "head.hidden"
    )


def test_the_singleton_has_the_section_for_its_turn(here: Path, module: Path) -> None:
    config = read(here, f"{CLASS}head.hidden = 32")
    settings = Settings()
    for account in settings.apply_each((config,)):
        assert "head.hidden = 32" in account
        settings.head.hidden = 33
        assert settings.snapshot().head.hidden == 33
        with pytest.raises(AttributeError, match="has no setting 'hiden'; the nearest is 'hidden'"):
            settings.head.hiden = 1
        settings.head.hidden = 0
        with pytest.raises(SettingsError, match=r"head\.hidden = 0: must be at least 1"):
            settings.snapshot()
    with pytest.raises(AttributeError, match="there is no section 'head'"):
        _ = settings.head


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("head.hiden = 1", "there is no setting 'head.hiden'; the nearest is 'head.hidden'"),
        ("head.hidden = 0", "head.hidden = 0: must be at least 1"),
        ("head.kind = 'maxx'", "expected 'mean' or 'max'; the nearest is 'max'"),
        ("haed.hidden = 2", "there is no section 'haed'; the nearest is 'head.hidden'"),
    ],
)
def test_mistakes_have_file_and_line(here: Path, module: Path, line: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read(here, CLASS + line)
    assert str(raised.value).startswith("runs.py:3: ") and message in str(raised.value)


def test_a_section_stays_known_where_a_child_chooses_another_class(here, module):
    (here / "init.py").write_text("")
    (here / "runs.py").write_text(
        f"parent\n{CLASS}head.hidden = 8\n\n"
        "child < parent\nnetwork.network_class = 'asdf.networks.SSL_AASIST'\n"
    )
    Settings("init.py")
    parent, child = Settings().read_configs("runs.py", ["parent", "child"])
    assert parent.sections().head.hidden == child.sections().head.hidden == 8


def test_a_section_is_unknown_without_its_class(here: Path, module: Path) -> None:
    with pytest.raises(SettingsError, match="there is no section 'head'"):
        read(here, "head.hidden = 1")
    assert "my_network" not in sys.modules


def test_only_named_modules_that_may_declare_are_imported(here: Path, module: Path) -> None:
    (here / "unnamed.py").write_text("raise RuntimeError('imported')\n")
    (here / "plain.py").write_text("raise RuntimeError('imported')\nclass Network: ...\n")
    config = read(here, "network.network_class = 'plain.Network'")
    assert config.catalogue.declared == {}
    assert "plain" not in sys.modules and "unnamed" not in sys.modules


@pytest.mark.parametrize(
    "line",
    [
        "from my_network import Network as Base",
        "from my_network import (\n    Network as Base,\n)",
        "import os,my_network\nBase = my_network.Network",
        "if True: from my_network import Network as Base",
        "# coding: latin-1\nfrom my_network import Network as Base  # f\xfcr",
    ],
)
def test_a_declaration_may_be_inherited_from_another_module(
    here: Path, module: Path, line: str
) -> None:
    (here / "derived.py").write_text(f"{line}\n\nclass Network(Base): ...\n", "latin-1")
    config = read(here, "network.network_class = 'derived.Network'")
    assert list(config.catalogue.declared) == ["head"]


def test_a_declaration_may_be_inherited_in_a_folder_without_init(here: Path, module: Path) -> None:
    (here / "parts").mkdir()
    module.rename(here / "parts" / "base.py")
    (here / "parts" / "mine.py").write_text("from .base import Network as B\nclass Mine(B): ...\n")
    config = read(here, "network.network_class = 'parts.mine.Mine'")
    assert list(config.catalogue.declared) == ["head"]


def test_a_module_that_fails_is_a_mistake_at_its_line(here: Path, module: Path) -> None:
    module.write_text(f"{MODULE}\nraise RuntimeError('no GPU')\n")
    with pytest.raises(SettingsError) as raised:
        read(here, CLASS)
    assert str(raised.value).startswith(
        "runs.py:2: network.network_class: importing my_network failed: RuntimeError: no GPU ("
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('section_name="head"', 'section_name="network"', "has the name of a built-in section"),
        ('section_name="head"', 'section_name="save"', "has the name of a method of the settings"),
        (', section_name="head"', "", "does not name its section"),
        (
            "setting(64,",
            "setting(0,",
            "the default of hidden of my_network.HeadSettings is invalid",
        ),
        ('= setting("mean", "the pooling")', '= "mean"', "is not declared with setting(default"),
        ("rates: tuple[float, ...]", "rates: dict", "has type <class 'dict'>"),
        ("own_settings = HeadSettings", "own_settings = 3", "its own_settings must be a dataclass"),
        ("hidden: int", "hidden: Nothing", "the types of HeadSettings cannot be read"),
    ],
)
def test_declarations_with_mistakes(here, module, before, after, message):
    text = f"from __future__ import annotations\n{MODULE}" if "Nothing" in after else MODULE
    module.write_text(text.replace(before, after))
    with pytest.raises(SettingsError) as raised:
        read(here, CLASS)
    assert str(raised.value).startswith("runs.py:2: ") and message in str(raised.value)


def test_no_method_is_hidden_by_a_section() -> None:
    methods = set()
    for kind in (Settings, Sections):
        methods |= {name for name in dir(kind) if callable(getattr(kind, name))}
    public = {name for name in methods if not name.startswith("_")}
    assert public == set(RESERVED)


def test_two_classes_may_not_declare_one_name(here: Path, module: Path) -> None:
    (here / "my_callbacks.py").write_text(MODULE.replace("hidden", "wait"))
    with pytest.raises(
        SettingsError,
        match=(r"HeadSettings and my_network\.HeadSettings both declare section 'head'"),
    ):
        read(here, f"{CLASS}network.callbacks = ('my_callbacks.Network',)")


def test_a_snapshot_is_read_back(here: Path, module: Path) -> None:
    config = read(here, f"{CLASS}head.hidden = 5")
    settings = Settings()
    for _ in settings.apply_each((config,)):
        settings.save(here / "run" / "settings.py")
    # A run has copies of the user's modules.
    (here / "run" / "code").mkdir()
    (here / "run" / "code" / "my_network.py").write_text(MODULE)
    del sys.modules["my_network"]
    assert Settings(here / "run" / "settings.py").snapshot().head.hidden == 5


class Lion:
    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.99), eps=0, cautious=False, clip=None, weight_decay=0,
        *, mode="sign",
    ):  # fmt: skip
        """Take what optimisers take."""


def test_the_arguments_of_a_constructor_are_a_section() -> None:
    kind = section_of_arguments(Lion, "optimizer")
    assert vars(kind()) == {
        "betas": (0.9, 0.99),
        "eps": 0,
        "cautious": False,
        "clip": None,
        "mode": "sign",
    }
    settings = settings_of("optimizer", kind)
    assert check_value(settings["optimizer.clip"], 0.5) == 0.5
    with pytest.raises(Complaint, match="expected a tuple of numbers"):
        check_value(settings["optimizer.betas"], 0.5)


def test_a_section_may_be_called_own(here: Path, module: Path) -> None:
    module.write_text(MODULE.replace('section_name="head"', 'section_name="own"'))
    sections = read(here, f"{CLASS}own.hidden = 5").sections()
    assert sections.own.hidden == 5
    assert sections.plain()["own"]["hidden"] == 5


def test_sections_are_copied_pickled_and_plain(here: Path, module: Path) -> None:
    sections = read(here, f"{CLASS}head.hidden = 5").sections()
    import my_network  # read above

    assert sections.section_of(my_network.HeadSettings).hidden == 5
    assert sections.plain()["head"] == {
        "hidden": 5,
        "kind": "mean",
        "rates": (0.1, 0.2),
        "note": None,
    }
    assert pickle.loads(pickle.dumps(sections)) == sections == copy.deepcopy(sections)
    assert "declared" not in sections.plain()
    with pytest.raises(AttributeError, match="there is no section 'haed'; the nearest is 'head'"):
        _ = sections.haed
    assert not hasattr(Sections(), "head")


OPTIMISERS = """
class First:
    def __init__(self, params, lr, betas=(0.9, 0.99), eps=0.5): ...

class Second:
    def __init__(self, params, lr, eps=0.25, decay=2): ...
"""


def optimizer_section(here: Path, text: str, *overrides: str, init: str = "") -> dict[str, object]:
    (here / "my_optimisers.py").write_text(OPTIMISERS)
    return vars(read(here, text, *overrides, init=init).sections().optimizer)


def test_the_last_line_decides_of_which_class_the_arguments_are(here: Path, module: Path) -> None:
    first = "network.optimizer = 'my_optimisers.First'\n"
    second = "network.optimizer=my_optimisers.Second"
    assert optimizer_section(here, first) == {"betas": (0.9, 0.99), "eps": 0.5}
    own = optimizer_section(here, f"{first}optimizer.eps = 3", second, "optimizer.decay=4")
    assert own == {"eps": 3, "decay": 4}
    with pytest.raises(SettingsError, match=r"there is no setting 'optimizer\.betas'"):
        optimizer_section(here, f"{first}optimizer.betas = (0, 0)", second)
    with pytest.raises(SettingsError, match="there is no section 'optimizer'"):
        optimizer_section(here, f"{first}optimizer.eps = 3", "network.optimizer=adam")


def test_a_config_may_name_another_class_than_init_config(here: Path, module: Path) -> None:
    init = "network.optimizer = 'my_optimisers.First'\noptimizer.betas = (0, 0)\n"
    assert optimizer_section(here, "", init=init) == {"betas": (0.0, 0.0), "eps": 0.5}
    second = "network.optimizer = 'my_optimisers.Second'\n"
    assert optimizer_section(here, second, init=init) == {"eps": 0.25, "decay": 2}
    with_eps = f"{init}optimizer.eps = 7\n"
    assert optimizer_section(here, second, init=with_eps) == {"eps": 7, "decay": 2}
