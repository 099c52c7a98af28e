"""Tensors of a GPU that does not exist: what is made, its number format, and how long it lives."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from asdf.memory.fake_gpu import IN_FLOAT32, TO_FLOAT32, fake_gpu

FLOAT = 4
WIDTH, ROWS = 1024, 256
NUMBERS = ROWS * WIDTH


def test_bytes_are_counted_from_the_operation_that_makes_them_to_their_end():
    with fake_gpu() as counted:
        ones = torch.ones(1000)
        assert counted.now == 4096  # 4,000 in blocks of 512
        half = ones[:500].view(5, 100)
        assert counted.now == 4096
        twos = ones + 1
        assert (counted.now, counted.peak) == (8192, 8192)
        del ones, twos
        assert (counted.now, counted.peak) == (4096, 8192)
        del half
        assert counted.now == 0


def test_shapes_that_do_not_fit_are_an_error_and_no_stack_in_the_log(capfd):
    with pytest.raises(RuntimeError), fake_gpu():
        torch.ones(2, 3) @ torch.ones(4, 5)
    assert capfd.readouterr().err == ""


def test_a_backward_pass_needs_what_autograd_saves_for_it():
    with fake_gpu() as counted:
        layer = nn.Linear(WIDTH, WIDTH, bias=False)
        weights = counted.now
        assert weights == WIDTH * WIDTH * FLOAT
        output = torch.relu(layer(torch.ones(ROWS, WIDTH)))
        saved = 2 * NUMBERS * FLOAT  # input and output; what is between them has ended
        assert counted.now == weights + saved
        output.sum().backward()
        del output
        assert counted.now == 2 * weights


def test_a_pass_computes_nothing_and_draws_no_random_number():
    before = torch.random.get_rng_state()
    with fake_gpu(), pytest.raises(RuntimeError):
        (F.dropout(torch.rand(10), 0.5) + nn.Linear(10, 10).weight).sum().item()
    assert torch.equal(torch.random.get_rng_state(), before)


def formats_of(device: str) -> dict[str, torch.dtype]:
    x, image = torch.ones(8, 8), torch.ones(2, 8, 8)
    norm, linear, convolution = nn.LayerNorm(8), nn.Linear(8, 8), nn.Conv1d(8, 8, 3)
    with torch.autocast(device, torch.bfloat16):
        short = linear(x)
        return {
            "linear": short.dtype,
            "convolution": convolution(image).dtype,
            "product": (x @ x).dtype,
            "norm": norm(short).dtype,
            "softmax": short.softmax(-1).dtype,
            "sum": short.sum(-1).dtype,
            "power": (short**2).dtype,
            "exponential": short.exp().dtype,
            "mean": short.mean(-1).dtype,
            "gelu": F.gelu(short).dtype,
            "attention": F.scaled_dot_product_attention(*[image[None]] * 3).dtype,
        }


def test_autocast_follows_the_lists_of_a_gpu_and_only_inside():
    outside = formats_of("cpu")
    with fake_gpu():
        inside = formats_of("cpu")
    short = {"linear", "convolution", "product", "mean", "gelu", "attention"}
    assert {name for name, dtype in inside.items() if dtype is torch.bfloat16} == short
    assert {name for name, dtype in outside.items() if dtype is torch.float32} == set()
    assert formats_of("cpu") == outside


def test_the_operations_in_float32_are_ones_that_autocast_knows_on_a_gpu():
    known = torch._C._dispatch_has_kernel_for_dispatch_key
    assert [
        name for name in IN_FLOAT32 + TO_FLOAT32 if not known(f"aten::{name}", "AutocastCUDA")
    ] == []


@pytest.mark.parametrize("probability", [0.0, 0.1])
def test_attention_never_holds_all_pairs_of_frames(probability):
    frames, heads, width = 4096, 2, 16
    pairs = heads * frames * frames
    with fake_gpu() as counted:
        q, k, v = (torch.ones(1, heads, frames, width, requires_grad=True) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, dropout_p=probability).sum().backward()
        assert counted.peak < pairs / 2
        assert q.grad.shape == k.grad.shape == v.grad.shape == q.shape


def test_dropout_saves_a_byte_for_each_value():
    with fake_gpu() as counted:
        x = torch.ones(ROWS, WIDTH, requires_grad=True)
        before = counted.now
        dropped = F.dropout(x, 0.1)
        assert counted.now - before == NUMBERS * FLOAT + NUMBERS
        assert F.dropout(x, 0.1, training=False) is not None and dropped.shape == x.shape
        assert counted.now - before == NUMBERS * FLOAT + NUMBERS


def test_a_norm_copies_what_is_not_in_order():
    with fake_gpu() as counted, torch.no_grad():
        x = torch.ones(ROWS, WIDTH)
        F.layer_norm(x, (WIDTH,))
        in_order = counted.peak
        counted.peak = counted.now
        F.layer_norm(x.t(), (ROWS,))
        assert counted.peak == in_order + NUMBERS * FLOAT + (WIDTH - ROWS) * 2 * FLOAT
