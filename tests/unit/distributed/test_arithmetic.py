"""TF32 is used where it was requested, cuDNN's attention nowhere; a program's choices stay."""

import pytest
import torch
from torch.backends import cuda, cudnn

from asdf.distributed.arithmetic import arithmetic, keep_arithmetic, set_arithmetic


def precisions() -> tuple[str, str, str]:
    return cuda.matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision


@pytest.fixture(autouse=True)
def as_before():
    chosen, general = precisions(), torch.backends.fp32_precision
    attention = cuda.cudnn_sdp_enabled()
    yield
    cuda.enable_cudnn_sdp(attention)
    torch.backends.fp32_precision = general
    cuda.matmul.allow_tf32, cudnn.allow_tf32 = False, True
    cuda.matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision = chosen


def choose_by_general_setting():
    torch.backends.fp32_precision = "tf32"


def choose_by_newer_interface():
    cuda.matmul.fp32_precision = "tf32"


def choose_for_recurrent_layers_only():
    cudnn.rnn.fp32_precision = "ieee"


def choose_by_older_interface():
    cuda.matmul.allow_tf32 = True
    cudnn.allow_tf32 = False


@pytest.mark.parametrize(
    "choose",
    [
        choose_by_general_setting,
        choose_by_newer_interface,
        choose_for_recurrent_layers_only,
        choose_by_older_interface,
    ],
)
def test_a_block_computes_as_it_says_and_leaves_the_programs_choice(choose):
    choose()
    before = precisions()
    for allowed, name in ((False, "ieee"), (True, "tf32")):
        with arithmetic(tf32=allowed):
            assert precisions() == (name, name, name)
        assert precisions() == before
    with pytest.raises(KeyError), arithmetic(tf32=False):
        raise KeyError
    assert precisions() == before


@pytest.mark.parametrize("allowed", [True, False])
def test_a_run_sets_both_interfaces_whatever_was_chosen_before(allowed):
    choose_by_general_setting()
    set_arithmetic(tf32=allowed)
    name = "tf32" if allowed else "ieee"
    assert precisions() == (name, name, name)
    assert (cuda.matmul.allow_tf32, cudnn.allow_tf32) == (allowed, allowed)


@pytest.mark.parametrize("chosen", [True, False])
def test_cudnns_attention_is_never_used_and_the_programs_choice_stays(chosen):
    cuda.enable_cudnn_sdp(chosen)
    with pytest.raises(KeyError), arithmetic(tf32=False):
        assert not cuda.cudnn_sdp_enabled()
        raise KeyError
    assert cuda.cudnn_sdp_enabled() == chosen
    with keep_arithmetic():
        set_arithmetic(tf32=False)
        assert not cuda.cudnn_sdp_enabled()
    assert cuda.cudnn_sdp_enabled() == chosen
