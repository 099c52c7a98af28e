"""Batch norm over the minibatches of all processes together, on GPUs and CPUs.

Invariant: the output, gradients and running statistics equal those of one batch norm over the
concatenated minibatches, up to rounding. The host never waits for the device. torch's own
SyncBatchNorm masks out processes with empty minibatches, which makes the host wait three times per
layer; `TrainingPlan` never gives a process an empty one.

Source: Ioffe and Szegedy, "Batch normalization", ICML 2015; the statistics of several minibatches
are combined as by Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
computing sample variances", 1979.

Shapes: B utterances, C channels, any further dimensions; R processes.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.modules.batchnorm import _BatchNorm

from asdf.errors import UsageError

# torch 2.14 renamed this, with a warning for the old name.
_gather_into_one = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def synchronise_batch_norm(network: nn.Module) -> nn.Module:
    """Replace every batch norm in `network` by one over all processes, with its parameters.

    Raises:
        UsageError: a batch norm has momentum None, so its running statistics are no moving mean.
    """
    if isinstance(network, _BatchNorm) and not isinstance(network, SynchronisedBatchNorm):
        return SynchronisedBatchNorm.like(network)
    for name, child in network.named_children():
        replacement = synchronise_batch_norm(child)
        if replacement is not child:
            setattr(network, name, replacement)
    return network


class SynchronisedBatchNorm(_BatchNorm):
    """Batch norm whose training statistics are those of all processes' minibatches."""

    @classmethod
    def like(cls, norm: _BatchNorm) -> SynchronisedBatchNorm:
        """Return one that shares the parameters and buffers of `norm`."""
        if norm.momentum is None:
            raise UsageError(
                "a batch norm with momentum=None cannot be synchronised between processes: give it "
                "a momentum, or set computing.sync_batch_norm = False."
            )
        synchronised = cls(
            norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats
        )
        synchronised._parameters.update(norm._parameters)
        synchronised._buffers.update(norm._buffers)
        return synchronised.train(norm.training)

    def forward(self, x_BC: Tensor) -> Tensor:
        """Map (batch, channels, ...) to the same shape; all processes call this equally often."""
        if not self.training:
            return super().forward(x_BC)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        weight_C = self.weight
        bias_C = self.bias
        if weight_C is None:
            weight_C = x_BC.new_ones(self.num_features, dtype=torch.float32)
            bias_C = torch.zeros_like(weight_C)
        normalised: Tensor = _Synchronised.apply(
            x_BC, weight_C, bias_C, self.running_mean, self.running_var, self.eps, self.momentum
        )
        return normalised

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any number of dimensions, since this class replaces torch's three."""


class _Synchronised(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_BC: Tensor,
        weight_C: Tensor,
        bias_C: Tensor,
        running_mean_C: Tensor | None,
        running_var_C: Tensor | None,
        eps: float,
        momentum: float,
    ) -> Tensor:
        x_BC = _as_laid_out(x_BC)
        # At least in float32.
        if x_BC.is_cuda:
            mean_C, invstd_C = torch.batch_norm_stats(x_BC, eps)
        else:
            variance_C, mean_C = torch.var_mean(_full(x_BC), _others(x_BC), correction=0)
            invstd_C = (variance_C + eps).rsqrt()
        # The count is sent as a float with the rest, since a second exchange would double the cost.
        count_1 = mean_C.new_full((1,), x_BC.numel() // x_BC.shape[1])
        local_S = torch.cat([mean_C, invstd_C, count_1])
        all_RS = local_S.new_empty(dist.get_world_size(), len(local_S))
        if dist.get_backend() == "gloo":
            # gloo cannot gather into one tensor.
            dist.all_gather(list(all_RS.unbind()), local_S)
        else:
            _gather_into_one(all_RS, local_S)
        means_RC, invstds_RC, counts_R1 = all_RS.split([len(mean_C), len(mean_C), 1], dim=1)
        # CUDA's kernels take the counts as floats in the forward pass, as int32 in the backward
        # pass.
        counts_R = counts_R1[:, 0]
        if x_BC.is_cuda:
            mean_C, invstd_C = torch.batch_norm_gather_stats_with_counts(
                x_BC, means_RC, invstds_RC, running_mean_C, running_var_C, momentum, eps, counts_R
            )
            ctx.save_for_backward(x_BC, weight_C, mean_C, invstd_C, counts_R.to(torch.int32))
            return torch.batch_norm_elemt(x_BC, weight_C, bias_C, mean_C, invstd_C, eps)
        # In float64, since squares of means that are close together cancel.
        counts_R1 = counts_R1.double()
        total = counts_R1.sum()
        exact_C = (means_RC * counts_R1).sum(dim=0) / total
        squares_RC = invstds_RC.double() ** -2 - eps + (means_RC - exact_C) ** 2
        variance_C = (squares_RC * counts_R1).sum(dim=0) / total
        if running_mean_C is not None and running_var_C is not None:
            running_mean_C.lerp_(exact_C.to(running_mean_C.dtype), momentum)
            # As in torch, the running variance is the unbiased estimate.
            unbiased_C = variance_C * total / (total - 1)
            running_var_C.lerp_(unbiased_C.to(running_var_C.dtype), momentum)
        mean_C = exact_C.to(means_RC.dtype)
        invstd_C = (variance_C + eps).rsqrt().to(means_RC.dtype)
        ctx.save_for_backward(x_BC, weight_C, mean_C, invstd_C, counts_R.to(torch.int32))
        scale_C = invstd_C * weight_C
        normalised_BC = (x_BC - _wide(mean_C, x_BC)) * _wide(scale_C, x_BC) + _wide(bias_C, x_BC)
        return normalised_BC.to(x_BC.dtype)

    @staticmethod
    def backward(ctx: Any, grad_BC: Tensor) -> Any:
        x_BC, weight_C, mean_C, invstd_C, counts_R = ctx.saved_tensors
        grad_BC = _as_laid_out(grad_BC)
        if x_BC.is_cuda:
            sum_C, product_C, weight_grad_C, bias_grad_C = torch.batch_norm_backward_reduce(
                grad_BC, x_BC, mean_C, invstd_C, weight_C, True, True, True
            )
        else:
            # Sums over this process of the gradient, and of the gradient times x - mean.
            centred_BC = x_BC - _wide(mean_C, x_BC)
            sum_C = bias_grad_C = _full(grad_BC).sum(_others(x_BC))
            product_C = (grad_BC * centred_BC).sum(_others(x_BC))
            weight_grad_C = product_C * invstd_C
        # The parameters' gradients stay local, since DistributedDataParallel sums them.
        sums = torch.cat([sum_C, product_C])
        dist.all_reduce(sums)
        sum_C, product_C = sums.split(len(sum_C))
        if x_BC.is_cuda:
            x_grad_BC = torch.batch_norm_backward_elemt(
                grad_BC, x_BC, mean_C, invstd_C, weight_C, sum_C, product_C, counts_R
            )
        else:
            total = counts_R.sum()
            through_variance_C = product_C / total * invstd_C**2
            rest_BC = grad_BC - _wide(sum_C / total, x_BC)
            rest_BC = rest_BC - centred_BC * _wide(through_variance_C, x_BC)
            x_grad_BC = (rest_BC * _wide(invstd_C * weight_C, x_BC)).to(x_BC.dtype)
        return x_grad_BC, weight_grad_C, bias_grad_C, None, None, None, None


def _as_laid_out(x_BC: Tensor) -> Tensor:
    """Return a dense tensor; on a GPU it may be channels-last, for which kernels exist."""
    is_map = x_BC.is_cuda and x_BC.dim() == 4
    if is_map and x_BC.is_contiguous(memory_format=torch.channels_last):
        return x_BC
    return x_BC.contiguous()


def _full(x: Tensor) -> Tensor:
    """Return `x` in float32, or unchanged if it is float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _others(x_BC: Tensor) -> list[int]:
    """Return all dimensions of `x_BC` except that of the channels."""
    return [dimension for dimension in range(x_BC.dim()) if dimension != 1]


def _wide(value_C: Tensor, x_BC: Tensor) -> Tensor:
    """Return `value_C` in a shape that broadcasts over `x_BC`."""
    return value_C.view(1, -1, *[1] * (x_BC.dim() - 2))
