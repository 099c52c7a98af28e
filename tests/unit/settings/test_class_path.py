"""Classes named in a setting."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import asdf.networks
from asdf.errors import AsdfError, UsageError
from asdf.settings.class_path import UserErrors, find_class, find_function

SETTING = "network.loss"


@pytest.mark.parametrize(
    ("class_path", "message"),
    [
        (
            "asdf.networks.SSL_AASITS",
            f"network.loss: module asdf.networks ({asdf.networks.__file__}) has no class "
            "'SSL_AASITS'. Did you mean 'SSL_AASIST'?",
        ),
        ("asdf.networks.aasist.AASITS", "aasist.py) has no class 'AASITS'. Did you mean 'AASIST'?"),
        (
            "asdf.netwroks.AASIST",
            "network.loss: there is no module 'asdf.netwroks'. ASDF's networks are in asdf.",
        ),
        ("my_losses.Focal", "has no class 'Focal'. Available there: Margin."),
        ("my_losses.ramp", "has no function 'ramp'. Available there: margin."),
        ("my_losss.Margin", "there is no module 'my_losss'. Did you mean 'my_losses'?"),
        ("Margin", "network.loss: 'Margin' names no module."),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(tmp_path, class_path, message):
    (tmp_path / "my_losses.py").write_text("class Margin: ...\ndef margin(): ...\n")
    sys.modules.pop("my_losses", None)
    is_function = class_path.rpartition(".")[2].islower()
    with pytest.raises(UsageError) as caught:
        if is_function:
            find_function(class_path, tmp_path, SETTING)
        else:
            find_class(class_path, tmp_path, SETTING, object)
    assert message in str(caught.value)


def test_the_base_decides_which_classes_fit(tmp_path: Path) -> None:
    (tmp_path / "bases_here.py").write_text("class Sum(dict): ...\nclass Mean(list): ...\n")
    assert find_class("bases_here.Sum", tmp_path, SETTING, dict).__name__ == "Sum"
    with pytest.raises(UsageError, match=r"is not a class derived from builtins\.dict, which"):
        find_class("bases_here.Mean", tmp_path, SETTING, dict)
    with pytest.raises(UsageError, match=r"has no class 'Max'\. Available there: Sum\."):
        find_class("bases_here.Max", tmp_path, SETTING, dict)


def test_a_function_is_no_class(tmp_path: Path) -> None:
    (tmp_path / "ramps_here.py").write_text("def ramp(): return 7\nclass Ramp: ...\nsteep = 3\n")
    assert find_function("ramps_here.ramp", tmp_path, SETTING)() == 7
    for name in ("Ramp", "steep"):
        with pytest.raises(UsageError, match=r"is not a function, which is required\."):
            find_function(f"ramps_here.{name}", tmp_path, SETTING)
    with pytest.raises(UsageError, match=r"has no function 'rap'\. Did you mean 'ramp'\?"):
        find_function("ramps_here.rap", tmp_path, SETTING)


def test_a_module_that_fails_inside_python_is_reported_with_its_own_line(tmp_path: Path) -> None:
    """A list as the default of a dataclass is refused by Python's dataclasses.py."""
    file = tmp_path / "listed_losses.py"
    file.write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Listed:\n    a: list = []\n"
    )
    with pytest.raises(AsdfError) as raised:
        find_class("listed_losses.Listed", tmp_path, SETTING, object)
    message = str(raised.value)
    assert "mutable default" in message and f"({file}, line 3)." in message


def test_a_script_that_exits_when_it_is_imported_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "script_here.py").write_text("import sys\n\nsys.exit()\n")
    with pytest.raises(AsdfError, match=r"importing script_here failed: SystemExit.*line 3\)\."):
        find_class("script_here.Net", tmp_path, SETTING, object)


def test_what_fails_in_a_class_of_the_users_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "my_loss_here.py").write_text("def compute():\n    return 1 / 0\n")
    compute = find_function("my_loss_here.compute", tmp_path, SETTING)
    with (
        pytest.raises(UsageError) as caught,
        UserErrors(f"{SETTING}: compute failed", "Fix it.", UsageError),
    ):
        compute()
    file = tmp_path / "my_loss_here.py"
    assert str(caught.value) == (
        f"{SETTING}: compute failed: ZeroDivisionError: division by zero ({file}, line 2). Fix it."
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    # Where it was raised is not worth a word when that is the block itself.
    with pytest.raises(AsdfError, match=r"^it failed: KeyError: 'x'\.$"), UserErrors("it failed"):
        {}["x"]
    error = AsdfError("it says enough")
    with pytest.raises(AsdfError) as passed, UserErrors("it failed"):
        raise error
    assert passed.value is error
