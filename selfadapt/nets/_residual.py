"""The parts residual nets are made of. Layers are named as torchvision names them, so that its
weights load."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class Basic(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(before, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.downsample(x), inplace=True)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 beside a shortcut; the 3×3 takes the stride, as in torchvision."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * self.expansion
        self.conv1 = conv(before, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, after, 1)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample = _shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + self.downsample(x), inplace=True)


class ResNet(nn.Sequential):
    """A first convolution, stages of blocks that halve the side and double the width, the mean
    over places, and one linear layer."""

    def __init__(
        self,
        num_outputs: int,
        first: OrderedDict[str, nn.Module],
        block: type[Basic] | type[Bottleneck],
        depths: Sequence[int],
        width: int,
    ) -> None:
        layers = OrderedDict(first)
        before = width
        for stage, depth in enumerate(depths):
            after = width * 2**stage
            blocks: list[nn.Module] = []
            for i in range(depth):
                blocks.append(block(before, after, stride=2 if stage > 0 and i == 0 else 1))
                before = after * block.expansion
            layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
        layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
        layers["flatten"] = nn.Flatten()
        layers["fc"] = nn.Linear(before, num_outputs)
        super().__init__(layers)


def conv(before: int, after: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias, its weights from N(0, 2 / (size² · after))."""
    layer = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def first_layers(channels: int, width: int, size: int, stride: int) -> OrderedDict[str, nn.Module]:
    return OrderedDict(
        conv1=conv(channels, width, size, stride),
        bn1=nn.BatchNorm2d(width),
        relu=nn.ReLU(inplace=True),
    )


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(conv(before, after, 1, stride), nn.BatchNorm2d(after))
