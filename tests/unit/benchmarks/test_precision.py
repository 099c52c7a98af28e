"""TF32 on a CPU: numbers lose the right bits, in the products and nowhere else."""

import json

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F

from asdf.errors import UsageError
from benchmarks import precision
from benchmarks.precision import BF16, FP32, TF32, TF32_CUT, Effect
from benchmarks.tf32 import round_to_tf32, tf32_products
from tests.unit.conftest import sound

# 1 and the first numbers after it: TF32 has 10 bits behind the point.
UNIT = 2.0**-10


def test_numbers_keep_10_bits_of_mantissa_to_nearest_even_or_toward_zero():
    tiny = 2.0**-20
    x = [1.0, 1 + UNIT / 2, 1 + UNIT / 2 + tiny, 1 + 3 * UNIT / 2, -1 - UNIT / 2 - tiny, 3.0e38]
    nearest = [1.0, 1.0, 1 + UNIT, 1 + 2 * UNIT, -1 - UNIT]
    assert round_to_tf32(torch.tensor(x)).tolist()[:5] == nearest
    assert round_to_tf32(torch.tensor(x), nearest=False).tolist()[:5] == [1, 1, 1, 1 + UNIT, -1]
    for is_nearest in (True, False):
        rounded = round_to_tf32(torch.tensor(x), is_nearest)
        assert torch.equal(round_to_tf32(rounded, is_nearest), rounded)
    special = torch.tensor([0.0, -0.0, float("inf"), float("-inf")])
    assert torch.equal(round_to_tf32(special), special)
    assert round_to_tf32(torch.tensor([float("nan")])).isnan().all()


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("in_inference", [True, False])
def test_factors_of_all_products_are_rounded_and_nothing_else(nearest, in_inference):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(6, 6, generator=generator) for _ in range(2))
    bias = torch.randn(6, generator=generator)
    ra, rb = round_to_tf32(a, nearest), round_to_tf32(b, nearest)

    def computed() -> list[torch.Tensor]:
        return [
            a @ b,
            torch.einsum("ij,jk->ik", a, b),
            F.linear(a, b, bias),
            torch.bmm(a[None], b[None])[0],
            F.conv1d(a[None], b[:, :, None], bias)[0],
            F.scaled_dot_product_attention(a[None, None], b[None, None], b[None, None])[0, 0],
            a * b,
            torch.fft.rfft(a).real,
        ]

    mode = torch.inference_mode() if in_inference else torch.no_grad()
    with mode, tf32_products(nearest) as products:
        results = computed()
    attention = torch.softmax(ra @ rb.T / 6**0.5, dim=-1)
    expected = [
        ra @ rb,
        ra @ rb,
        ra @ rb.T + bias,
        ra @ rb,
        rb @ ra + bias[:, None],
        round_to_tf32(attention, nearest) @ rb,
        a * b,
        torch.fft.rfft(a).real,
    ]
    # Of attention the factors are scaled before, which rounds elsewhere.
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        tolerance = 2 * UNIT if index == 5 else 1e-6
        torch.testing.assert_close(result, value, rtol=tolerance, atol=tolerance)
    assert products.products == 7
    assert (results[0] - a @ b).abs().max() > UNIT / 10


def test_what_cannot_be_emulated_is_refused():
    lstm = torch.nn.LSTM(4, 4)
    said = "rnn_layer cannot be emulated: it multiplies inside"
    with torch.inference_mode(), tf32_products(), pytest.raises(UsageError, match=said):
        lstm(torch.zeros(3, 1, 4))


@pytest.mark.slow
@pytest.mark.usefixtures("bfloat16")
def test_a_network_is_measured_in_each_precision(tmp_path, network_file, monkeypatch, capsys):
    lines = []
    for number in range(6):
        soundfile.write(tmp_path / f"{number}.wav", sound(6000, number), 16000)
        lines.append(f"{number}.wav {number % 2}\n")
    (tmp_path / "list.txt").write_text("".join(lines))
    monkeypatch.setattr(precision, "HERE", tmp_path)
    monkeypatch.setattr(precision, "SAVED", tmp_path / "precision.json")
    (tmp_path / "RESULTS.md").write_text("# Benchmarks\n")
    words = ["--network", f"small={network_file}", "--list", f"six={tmp_path / 'list.txt'}"]
    for _ in range(2):
        assert precision.main([*words, "--write"]) == 0
    effects = [Effect(**row) for row in json.loads((tmp_path / "precision.json").read_text())]
    assert [effect.precision for effect in effects] == [FP32, TF32, TF32_CUT, BF16]
    assert effects[0].difference == effects[0].rank_changes == 0
    assert effects[0].spread > 0
    for effect in effects[1:3]:
        assert 0 < effect.difference < 0.1
    written = (tmp_path / "RESULTS.md").read_text()
    assert written.startswith("# Benchmarks\n\n<!-- measured by benchmarks/precision.py -->\n")
    assert written.count("| small | six (6) |") == 4
    assert capsys.readouterr().out.count("| small | six (6) |") == 8


def test_networks_of_several_seeds_are_summed_up_in_a_row_for_each_precision():
    effects = []
    for seed, moved in enumerate((0.0, 0.5)):
        name = f"net, seed {seed}"
        effects.append(Effect(name, "dev", 1000, FP32, 2.0 + seed, 0.1, 0.0, 1.0, 0.0))
        eer = 2.0 + seed - moved
        effects.append(Effect(name, "dev", 1000, TF32, eer, 0.1, 0.01, 1.0, 2.0 * seed))
    *_, exact, short = precision.table_of_seeds(effects).splitlines()
    assert exact == "| net | dev (1,000) | fp32 | 2.500 | 0 of 2 | 0.000 | 0 | 0 |"
    assert short == "| net | dev (1,000) | TF32, emulated | 2.250 | 1 of 2 | 0.500 | 0.01 | 2 |"


def test_changed_orders_are_counted_among_pairs_of_both_classes():
    is_bona_fide = np.array([True, True, False, False])
    before = np.array([3.0, 1.0, 2.0, 0.0])
    after = np.array([3.0, 2.0, 2.0, 0.0])
    assert precision._changed_order(before, after, is_bona_fide) == 0.25
    assert precision._changed_order(before, before, is_bona_fide) == 0


def test_the_saved_rows_are_those_of_results_md_and_no_error_rate_moves_in_tf32():
    """What the default of computing.scoring_precision rests on."""
    assert precision.section() in (precision.HERE / "RESULTS.md").read_text(encoding="utf-8")
    effects = [Effect(**row) for row in json.loads(precision.SAVED.read_text(encoding="utf-8"))]
    fp32 = {(row.network, row.trials): row for row in effects if row.precision == FP32}
    for row in effects:
        exact = fp32[row.network, row.trials]
        # One whose scores hardly differ has learned nothing, and any rounding orders them anew.
        if row.precision in (TF32, TF32_CUT) and exact.spread > 0.1:
            assert row.eer == exact.eer
            # One of ten quickstarts, with an EER of 35 %, has another one in the third digit.
            assert row.min_dcf == pytest.approx(exact.min_dcf, abs=0.005)
