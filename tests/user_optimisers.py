"""Optimisers as a user would write them, right and wrong, for tests of `network.optimizer`."""

import torch
from torch.optim import Optimizer


class Lion(Optimizer):
    """Lion (Chen et al., NeurIPS 2023): the sign of a moving mean of the gradient."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"] = torch.zeros_like(parameter)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                update = state["mean"].lerp(parameter.grad, 1 - first).sign_()
                parameter.sub_(update, alpha=group["lr"])
                state["mean"].lerp_(parameter.grad, 1 - second)


class Growing(Optimizer):
    """Counts its steps in its groups; each step is longer than the one before."""

    def __init__(self, params, growth=0.5):
        super().__init__(params, {"growth": growth, "taken": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["taken"] += 1
            length = group["lr"] * (1 + group["growth"] * group["taken"])
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=length)


class Forgetful(Growing):
    """Counts its steps where no checkpoint sees it."""

    def __init__(self, params, lr=0.1):
        Optimizer.__init__(self, params, {"lr": lr})
        self.taken = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.taken += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=group["lr"] / self.taken)


class Unsavable(Lion):
    """Holds a function in its state."""

    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["norm"] = _norm


def _norm(value):
    return value.norm()


class Switching(Lion):
    """Has other weights for scoring, as schedule-free optimisers do."""

    def eval(self):
        pass


class Closing(Lion):
    """Computes the loss by itself."""

    def step(self, closure):
        closure()


class Matrices(Lion):
    """Takes matrices only."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() < 2:
                    raise ValueError("a vector")
