"""Every name that is registered is on its page of docs: who adds one is reminded of its sentence.

What `python docs/commands_page.py` and `python -m asdf.settings.page` make is compared whole in
tests/test_readme.py; here are the pages that people write.
"""

import re
from collections.abc import Iterable
from dataclasses import fields

import pytest

import asdf.networks
from asdf.__main__ import COMMANDS
from asdf.corpora.registry import KNOWN
from asdf.interchange.command import FORMATS
from asdf.metrics.metric_columns import METRICS
from asdf.settings.catalogue import section_types
from asdf.trials.submission_files import FORMATS as SUBMISSIONS
from tests.conftest import ROOT

# The page that says what each name of a setting does.
PAGES_OF_SETTINGS = {
    "augmentation.chain": "augmentation",
    "back_end.back_end_class": "networks",
    "front_end.front_end_class": "networks",
    "network.callbacks": "your_own",
    "network.loss": "training",
    "network.optimizer": "training",
    "network.schedule": "training",
    "network.training_step": "your_own",
    "network.validation_metric": "evaluation",
    "recipe.sampler": "corpora",
    "source.head": "source_tracing",
    "vocoding.vocoders": "augmentation",
}


def names_of_settings() -> dict[str, tuple[str, ...]]:
    """Return the short names of each setting that names a class."""
    registered = {}
    for section, kind in section_types().items():
        for field in fields(kind):
            if names := field.metadata.get("names"):
                registered[f"{section}.{field.name}"] = tuple(names)
    return registered


def networks() -> list[str]:
    """Return the network classes that `network.network_class` names; each states its paper."""
    names = asdf.networks.__all__
    return [name for name in names if getattr(getattr(asdf.networks, name), "paper", "")]


def missing_in(page: str, names: Iterable[str]) -> list[str]:
    """Return the names that are no words of a page of docs."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [name for name in names if not re.search(rf"(?<![\w.-]){re.escape(name)}(?!\w)", text)]


def test_each_setting_that_names_a_class_has_its_page() -> None:
    assert names_of_settings().keys() == PAGES_OF_SETTINGS.keys()


@pytest.mark.parametrize(("setting", "page"), PAGES_OF_SETTINGS.items())
def test_each_class_of_a_setting_is_on_its_page(setting: str, page: str) -> None:
    assert missing_in(page, names_of_settings()[setting]) == []


def test_each_network_is_on_its_page() -> None:
    assert len(networks()) > 10
    assert missing_in("networks", networks()) == []


def test_each_corpus_is_on_its_page() -> None:
    assert missing_in("corpora", [f"`{name}`" for name in KNOWN]) == []


def test_each_metric_is_on_its_page() -> None:
    assert missing_in("evaluation", [f"`{metric.key}`" for metric in METRICS]) == []
    assert missing_in("evaluation", [metric.name for metric in METRICS]) == []


def test_each_format_of_export_and_of_submission_is_on_its_page() -> None:
    assert missing_in("weights", FORMATS) == []
    assert missing_in("formats", SUBMISSIONS) == []


def test_each_command_is_on_a_page_besides_that_of_all_commands() -> None:
    """docs/commands.md says what its options are, another page what it is for."""
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.stem != "commands"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    started = set(re.findall(r"(?:python -m asdf|asdf-antispoofing) ([a-z-]+)", text))
    assert COMMANDS.keys() - started == set()


def test_a_name_that_is_missing_is_found() -> None:
    assert missing_in("training", ["cross_entropy", "entropy", "cross_entropy.colour"]) == [
        "entropy",
        "cross_entropy.colour",
    ]
