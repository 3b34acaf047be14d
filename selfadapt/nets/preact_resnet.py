"""The residual net of the double-descent study (Nakkiran et al. 2020, arXiv 1912.02292): activation
before each convolution, a bare first convolution, shortcuts without batch norm, nothing between the
last block and the pooling. Its published code leaves initial weights as PyTorch draws them."""

from __future__ import annotations

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from selfadapt.nets._checks import Shape, image, whole

_DEPTHS = (2, 2, 2, 2)


def preact_resnet18(num_outputs: int, shape: Shape, *, width: int = 64) -> nn.Module:
    """Pre-activation residual net of 18 layers, of the double-descent study; any width."""
    channels, _, _ = image("preact_resnet18", shape)
    width = whole("width", width)
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv1=_conv(channels, width, 3))
    before = width
    for stage, depth in enumerate(_DEPTHS):
        after = width * 2**stage
        blocks = []
        for i in range(depth):
            blocks.append(_Block(before, after, 2 if stage > 0 and i == 0 else 1))
            before = after
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(before, num_outputs)
    return nn.Sequential(layers)


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = _conv(before, after, 3, stride)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = _conv(after, after, 3)
        changes = stride != 1 or before != after
        self.shortcut = _conv(before, after, 1, stride) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x), inplace=True)
        y: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active)), inplace=True))
        return y + (x if self.shortcut is None else self.shortcut(active))


def _conv(before: int, after: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
