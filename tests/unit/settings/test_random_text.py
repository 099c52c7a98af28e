"""No text raises anything but a UsageError, and none is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asdf.errors import UsageError
from asdf.settings import Settings, list_configs

from .conftest import Write

WHOLE = (
    "network.max_epochs = 3\n",
    "sad.mode = 'on'",
    "paths.output_folder",
    " < ",
    " = ",
    "# x\n",
    "\n\n",
    "\r\n",
)
PIECES = st.sampled_from(
    [*"ab([])1-,'\"\\$\n\t\ufeff\x00\x0cé", '"""', "**9", "None", "$X", *WHOLE]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=80)


@given(
    TEXTS.map(str.encode) | st.binary(max_size=60),
    st.lists(TEXTS, max_size=3),
    st.lists(TEXTS, max_size=3),
)
@example(b"a < b\n\nb < a\n", ["a"], [])
@example(b"a\nnetwork.max_epochs = " + b"(" * 5000, ["a"], ["network.max_epochs=" + "[" * 5000])
@settings(deadline=None, max_examples=60)
def test_only_usage_errors(tmp_path_factory, content, names, overrides):
    path = tmp_path_factory.mktemp("random") / "text.py"
    path.write_bytes(content)
    for work in (
        lambda: Settings(path),
        lambda: list_configs(path),
        lambda: Settings().read_configs(path, ["a", "b", *names], overrides),
        lambda: list(Settings().load_settings(path, ["a"])),
        lambda: Settings().explain(names[0] if names else None),
    ):
        try:
            work()
        except UsageError as error:
            assert str(error)


ATTACKS = (
    "__import__('os').system('touch {trace}')",
    "open('{trace}', 'w')",
    "[open('{trace}', 'w') for _ in (1,)]",
    "(lambda: open('{trace}', 'w'))()",
    "f\"{{open('{trace}', 'w')}}\"",
    "eval(\"open('{trace}', 'w')\")",
    "1; open('{trace}', 'w')",
    "().__class__.__base__.__subclasses__()",
    "3\nimport os; os.system('touch {trace}')",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_malicious_values_leave_no_trace(here: Path, init: Write, runs: Write, attack: str) -> None:
    trace = here / "trace"
    value = attack.format(trace=trace)
    with pytest.raises(UsageError):
        init(f"network.max_epochs = {value}\n")
    Settings._instance = None
    runs(f"a\nnetwork.max_epochs = {value}\n")
    with pytest.raises(UsageError):
        Settings().read_configs("runs.py", ["a"])
    runs("a\n")
    with pytest.raises(UsageError):
        Settings().read_configs("runs.py", ["a"], [f"network.max_epochs={value}"])
    # Where a string may be written bare it is one, and no more.
    for _ in Settings().load_settings("runs.py", ["a"], [f"paths.system_folder=x{value}"]):
        assert Settings().paths.system_folder == f"x{value}"
    assert not trace.exists()
