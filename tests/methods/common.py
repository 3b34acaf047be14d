"""Methods whose inputs are their logits, and the reduction that the engine makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import reference
import torch
from torch import nn

from selfadapt import methods
from selfadapt.batch import Batch, StepLoss
from selfadapt.methods import Method


def no_net(num_outputs: int) -> nn.Module:
    return nn.Identity()


def build(name: str, labels: Any = reference.Y, classes: int = 3, **knobs: Any) -> Method:
    return methods.build(name, no_net, torch.as_tensor(np.asarray(labels)), classes, knobs)


def batch(z: Any, rows: Any = (0, 1), labels: Any = reference.Y) -> Batch:
    rows = torch.as_tensor(np.asarray(rows))
    return Batch(rows, torch.as_tensor(z), torch.as_tensor(np.asarray(labels))[rows])


def reduced(out: StepLoss) -> torch.Tensor:
    return (out.weights * out.values).sum() / out.weights.sum()


def random_case(seed: int = 0, n: int = 40, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Logits far from each other, and labels."""
    random = np.random.default_rng(seed)
    return random.normal(size=(n, classes)) * 4, random.integers(0, classes, n)
