"""A Kolmogorov-Arnold layer: each output is a sum of learned functions of one input each.

Invariant: parameter names, knots and numbers are those of the layers in published detectors
(lab260's Spectra-AASIST3). A function is a B-spline plus a scaled PReLU.

Source: Liu et al., "KAN: Kolmogorov-Arnold Networks", ICLR 2025; de Boor, "A Practical Guide to
Splines", 1978 (B-splines of evenly spaced knots).

Shapes: X rows, C values coming in, D going out, K basis functions.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

INTERVALS = 16
DEGREE = 4
# Initial values of the splines, small so that the PReLU dominates at first.
_FIRST_VALUES = 0.05 / INTERVALS


class SplineMap(nn.Module):
    """A layer from `dim_in` to `dim_out` values, for any leading shape."""

    grid: Tensor

    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        steps = torch.arange(-DEGREE, INTERVALS + DEGREE + 1)
        # Knots on [-1, 1], and beyond them as the degree requires; equal for all inputs.
        knots = steps * (2 / INTERVALS) - 1
        self.register_buffer("grid", knots.expand(dim_in, -1).contiguous())
        self.base_weight = nn.Parameter(torch.empty(dim_out, dim_in))
        self.spline_weight = nn.Parameter(torch.empty(dim_out, dim_in, INTERVALS + DEGREE))
        self.spline_scaler = nn.Parameter(torch.empty(dim_out, dim_in))
        self.base_activation = nn.PReLU()
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.spline_scaler, a=math.sqrt(5))
        nn.init.uniform_(self.spline_weight, -_FIRST_VALUES, _FIRST_VALUES)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., dim_in) to (..., dim_out)."""
        x_XC = x.reshape(-1, self.base_weight.shape[1])
        weights_DCK = self.spline_weight * self.spline_scaler.unsqueeze(2)
        bases_XCK = self.bases(x_XC)
        splines_XD = F.linear(bases_XCK.flatten(1), weights_DCK.flatten(1))
        activated_XC = self.base_activation(x_XC)
        base_XD = F.linear(activated_XC, self.base_weight)
        out_XD = base_XD + splines_XD
        return out_XD.reshape(*x.shape[:-1], -1)

    def bases(self, x_XC: Tensor) -> Tensor:
        """Return the values of the basis functions, (rows, dim_in, 20); zero beyond the knots.

        Between two knots, five of them are nonzero polynomials of the distance from the left knot.
        """
        width_C = self.grid[:, 1] - self.grid[:, 0]
        position_XC = (x_XC - self.grid[:, 0]) / width_C
        between_XC = position_XC.floor()
        intervals = self.grid.shape[1] - 1
        is_known = (between_XC >= 0) & (between_XC < intervals)
        # Beyond the knots any valid index will do, since the values there are multiplied by 0.
        between_XC = torch.where(is_known, between_XC, 0)
        way_XC = torch.where(is_known, position_XC - between_XC, 0)
        values_XC5 = _quartics(way_XC) * is_known.unsqueeze(2)
        numbers_5 = torch.arange(DEGREE + 1, device=x_XC.device)
        places_XC5 = between_XC.long().unsqueeze(2) + numbers_5
        rows, values = x_XC.shape
        functions = self.grid.shape[1] - 1 + DEGREE
        room_XCK = x_XC.new_zeros(rows, values, functions)
        # Drop functions that begin before the first knot or end after the last.
        return room_XCK.scatter(2, places_XC5, values_XC5)[:, :, DEGREE:-DEGREE]


def _quartics(way: Tensor) -> Tensor:
    """Return the five quartic B-splines on integer knots, along a new last dimension.

    Args:
        way: Relative position between two knots, from 0 to 1.
    """
    rest = 1 - way
    middle = way * rest
    values = [rest**4, _shoulder(way), 11 + 12 * middle + 6 * middle**2, _shoulder(rest), way**4]
    return torch.stack(values, dim=-1) / 24


def _shoulder(way: Tensor) -> Tensor:
    """Return 24 times the spline next to the middle one: 11 at one knot, 1 at the other."""
    square = way**2
    falling = 12 * way + 6 * square
    rising = 12 * way**3 - 4 * way**4
    return 11 - falling + rising


def has_even_knots(grid_CK: Tensor) -> bool:
    """Whether the knots are evenly spaced, as the formulas assume."""
    steps = grid_CK.diff(dim=1)
    return bool((steps > 0).all()) and torch.allclose(steps, steps[:, :1].expand_as(steps))
