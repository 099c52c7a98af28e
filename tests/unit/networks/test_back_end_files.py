"""A back end is one file: what else has to name it, and that it does."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from pkgutil import iter_modules

import pytest

import asdf.networks
from asdf.networks import back_ends
from asdf.networks.back_ends.back_end import BackEnd, SizedBackEnd
from asdf.networks.interface import DetectorNetwork
from asdf.networks.ssl_detector import PairedDetector, SSLDetector
from asdf.settings.class_files import fact, network_modules
from asdf.settings.relations import has_front_end, keeps_time
from asdf.settings.sections import BACK_ENDS
from asdf.settings.sections import BackEnd as BackEndSettings
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")


def classes_of_files(base: type) -> list[type]:
    """Return the classes that can be built among those that our files define."""
    found = []
    names = [f"{back_ends.__name__}.{each.name}" for each in iter_modules(back_ends.__path__)]
    for name in sorted({*names, *network_modules().values()}):
        module = importlib.import_module(name)
        for kind in vars(module).values():
            is_here = inspect.isclass(kind) and kind.__module__ == module.__name__
            if is_here and issubclass(kind, base) and not inspect.isabstract(kind):
                found.append(kind)
    return found


ENDS = classes_of_files(BackEnd)
PAIRS = classes_of_files(PairedDetector)
SHORT_NAMES = {path.rpartition(".")[2]: name for name, path in BACK_ENDS.items()}


def test_the_files_have_all_back_ends():
    assert {kind.__name__ for kind in ENDS} == SHORT_NAMES.keys()


@pytest.mark.parametrize("kind", [*ENDS, *PAIRS], ids=lambda kind: kind.__name__)
def test_a_class_is_at_the_door_and_on_the_page(kind):
    assert getattr(asdf.networks, kind.__name__) is kind
    shown = f"'{SHORT_NAMES[kind.__name__]}'" if kind in ENDS else kind.__name__
    assert f"`{shown}`" in PAGE


@pytest.mark.parametrize("kind", ENDS, ids=lambda kind: kind.__name__)
def test_the_settings_know_whether_a_back_end_keeps_time(kind):
    assert keeps_time(f"asdf.networks.{kind.__name__}") == (kind.frame_step is not None)
    assert fact(f"asdf.networks.{kind.__name__}", "one_length") == kind.one_length


def test_the_settings_know_which_networks_keep_no_time_and_have_no_front_end():
    for name in asdf.networks.__all__:
        kind = getattr(asdf.networks, name)
        is_network = inspect.isclass(kind) and issubclass(kind, DetectorNetwork)
        if not is_network or inspect.isabstract(kind) or kind is asdf.networks.ComposedDetector:
            continue
        keeps = issubclass(kind, PairedDetector) and kind.back_end_class.frame_step is not None
        assert keeps_time(f"asdf.networks.{name}") == keeps, name
        assert has_front_end(f"asdf.networks.{name}") == issubclass(kind, SSLDetector), name


@pytest.mark.parametrize("kind", ENDS, ids=lambda kind: kind.__name__)
def test_the_sizes_that_a_back_end_names_are_settings(kind):
    known = {field.name for field in fields(BackEndSettings)}
    named = getattr(kind, "size_settings", None) or ()
    assert set(named) <= known
    assert not named or issubclass(kind, SizedBackEnd)
