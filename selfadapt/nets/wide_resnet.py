"""Wide residual networks after Zagoruyko & Komodakis 2016 (arXiv 1605.07146): activation before
each convolution. 28-10 is in the paper's tables, 34-10 trains adversarially."""

from __future__ import annotations

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from selfadapt.errors import BadInput
from selfadapt.nets._checks import Shape, image, whole
from selfadapt.nets._residual import conv

_STAGES = 3


def wrn28_10(num_outputs: int, shape: Shape, *, width: int = 10, dropout: float = 0.0) -> nn.Module:
    """Wide residual net of 28 layers, the paper's second net on CIFAR; any widening factor."""
    return _wide("wrn28_10", 28, num_outputs, shape, width, dropout)


def wrn34_10(num_outputs: int, shape: Shape, *, width: int = 10, dropout: float = 0.0) -> nn.Module:
    """Wide residual net of 34 layers, the paper's under attack; any widening factor."""
    return _wide("wrn34_10", 34, num_outputs, shape, width, dropout)


def _wide(
    name: str, depth: int, num_outputs: int, shape: Shape, width: int, dropout: float
) -> nn.Module:
    channels, _, _ = image(name, shape)
    width = whole("width", width)
    if not 0 <= dropout < 1:
        raise BadInput(f"dropout must lie in [0, 1), not {dropout}")
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv1=conv(channels, 16, 3))
    before = 16
    for stage in range(_STAGES):
        after = 16 * width * 2**stage
        blocks = []
        for i in range((depth - 4) // 6):
            blocks.append(_Block(before, after, 2 if stage > 0 and i == 0 else 1, dropout))
            before = after
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    layers["bn"] = nn.BatchNorm2d(before)
    layers["relu"] = nn.ReLU(inplace=True)
    layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(before, num_outputs)
    nn.init.zeros_(layers["fc"].bias)  # type: ignore[arg-type]
    return nn.Sequential(layers)


class _Block(nn.Module):
    """A shortcut that changes the width is fed with the activated input."""

    def __init__(self, before: int, after: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = conv(before, after, 3, stride)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = conv(after, after, 3)
        self.dropout = dropout
        self.shortcut = conv(before, after, 1, stride) if before != after else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x), inplace=True)
        y: Tensor = F.relu(self.bn2(self.conv1(active)), inplace=True)
        y = self.conv2(F.dropout(y, self.dropout, self.training))
        return y + (x if self.shortcut is None else self.shortcut(active))
