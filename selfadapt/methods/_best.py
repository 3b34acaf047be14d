"""The net of the epoch that did best on held-out labels."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn


class Best(nn.Module):
    """A copy of a net as it was when its score was highest; the first of equals stays."""

    score: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = copy.deepcopy(net).requires_grad_(False)
        self.register_buffer("score", torch.tensor(-math.inf))

    def offer(self, net: nn.Module, score: float) -> None:
        if score > self.score:
            self.score.fill_(score)
            self.net.load_state_dict(net.state_dict())

    def back_into(self, net: nn.Module) -> bool:
        """Make `net` the best there was; false if none was ever offered."""
        if self.score == -math.inf:
            return False
        net.load_state_dict(self.net.state_dict())
        return True
