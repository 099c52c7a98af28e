"""Building by class path: ours, a user's file, and every way in which that can fail."""

from __future__ import annotations

import sys

import pytest
import torch

from asdf.errors import AsdfError, UsageError
from asdf.interchange import build_pretrained
from asdf.networks import build_network, summary
from asdf.networks.build import self_contained
from tests.unit.networks.inspection import count_parameters, frozen_names, trainable_names

MINIMAL = """
import torch

class Minimal(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.output = torch.nn.Linear(settings.network.train_clip_size, 2)

    def forward(self, waveforms):
        return waveforms, self.output(waveforms)
"""


@pytest.fixture
def user_file(tmp_path, monkeypatch, request):
    """Writes a user's module of a name that no other test has, and sets its class path."""
    names = []

    def write(text, settings, class_name):
        name = f"my_network_{request.node.name.partition('[')[0]}_{len(names)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        settings.network.network_class = f"{name}.{class_name}"
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_a_users_class_needs_a_constructor_and_a_forward(user_file, tiny, tmp_path):
    user_file(MINIMAL, tiny, "Minimal")
    tiny.network.train_clip_size = 500
    path = list(sys.path)
    network = build_network(tiny, tmp_path)
    assert sys.path == path
    assert network(torch.zeros(3, 500))[1].shape == (3, 2)
    assert str(summary(network)) == "1,002 parameters, 1,002 of them trainable"


def test_a_users_front_end_is_frozen_and_its_unused_parameters_too(user_file, tiny, tmp_path):
    text = MINIMAL + (
        "        \n"
        "class Fuller(Minimal):\n"
        "    def __init__(self, settings):\n"
        "        super().__init__(settings)\n"
        "        self.early = torch.nn.Linear(3, 1)\n"
        "        self.spare = torch.nn.Linear(5, 1)\n"
        "    def front_end_parameters(self):\n"
        "        return self.early.parameters()\n"
        "    def unused_parameters(self):\n"
        "        return self.spare.parameters()\n"
    )
    user_file(text, tiny, "Fuller")
    tiny.network.train_clip_size = 400
    network = build_network(tiny, tmp_path)
    assert frozen_names(network) == ["spare.weight", "spare.bias"]
    tiny.front_end.frozen = True
    network = build_network(tiny, tmp_path)
    assert trainable_names(network) == ["output.weight", "output.bias"]


@pytest.mark.parametrize("what", ["class Plain:\n    def __init__(self, ", "def Plain("])
def test_what_is_no_network_is_not_run(what, user_file, tiny, tmp_path):
    user_file(f"{what}settings):\n        raise SystemExit\n", tiny, "Plain")
    with pytest.raises(
        UsageError, match=r"Plain.* is not a class derived from torch\.nn\.Module, which"
    ):
        build_network(tiny, tmp_path)


@pytest.mark.parametrize(
    ("class_path", "message"),
    [
        ("asdf.networks.SSL_AASST", "Did you mean 'SSL_AASIST'"),
        ("asdf.networks.Perceiver", "Available there: AASIST, "),
        ("asdf.netwroks.AASIST", "there is no module 'asdf.netwroks'"),
        (
            "my_own_network.MyNetwork",
            r"no module 'my_own_network'. Save your own module as my_own_network.py",
        ),
        ("os.path.join.X", "there is no module"),
        ("AASIST", "names no module"),
        ("detectro.Minimal", "Did you mean 'detector'"),
        ("argparse.Namespace", "is hidden by another module named 'argparse'"),
    ],
)
def test_a_class_path_that_leads_nowhere_is_reported(class_path, message, tiny, tmp_path):
    for name in ("detector.py", "argparse.py"):
        (tmp_path / name).write_text(MINIMAL, encoding="utf-8")
    tiny.network.network_class = class_path
    with pytest.raises(UsageError, match=message):
        build_network(tiny, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import a_package_that_is_not_there\n",
            "ModuleNotFoundError: No module named 'a_package_that_is_not_there'",
        ),
        ("x = 1 / 0\n", r"ZeroDivisionError: division by zero \(.*_0.py, line 1\)"),
        ("class :\n", r"SyntaxError: .* \(/.*_0.py, line 1\)"),
    ],
)
def test_a_module_that_fails_is_reported_with_file_and_line(
    text, message, user_file, tiny, tmp_path
):
    user_file(text, tiny, "Network")
    with pytest.raises(AsdfError, match=message):
        build_network(tiny, tmp_path)


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("super().__init__()", "raise KeyError('depth')",
         r"Minimal\(settings\) failed: KeyError: 'depth' \(.*\.py, line 6\)"),
        ("(self, settings)", "(self)",
         r"takes 1 positional argument but 2 were given\. A network's"),
    ],
)  # fmt: skip
def test_a_constructor_that_fails_is_reported(user_file, written, instead, message, tiny, tmp_path):
    user_file(MINIMAL.replace(written, instead), tiny, "Minimal")
    with pytest.raises(AsdfError, match=message):
        build_network(tiny, tmp_path)


def test_the_same_seed_gives_the_same_weights(tiny):
    states = []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        states.append(build_network(tiny).state_dict())
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    assert not torch.equal(states[0]["back_end.LL.weight"], states[2]["back_end.LL.weight"])


def test_a_network_is_built_again_without_its_pretrained_weights(tiny, reference):
    tiny.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    network = build_pretrained(tiny)
    tiny.front_end = self_contained(tiny.front_end, network)
    assert tiny.front_end.weights is None
    again = build_network(tiny)
    again.load_state_dict(network.state_dict())
    assert again.front_end.architecture == network.front_end.architecture


def test_summary_counts_frozen_parameters(tiny):
    learning = summary(build_network(tiny))
    # The first batch norms: a weight and a bias for each channel.
    unused = 2 * (32 + 32 + 64 * 3)
    assert learning.total - learning.trainable == unused
    tiny.front_end.frozen = True
    network = build_network(tiny)
    frozen = summary(network)
    assert frozen.total - frozen.trainable == count_parameters(network.front_end) + unused
