"""VGG-16 (Simonyan & Zisserman 2015, arXiv 1409.1556) with batch norm and dropout, as the papers on
selective classification use it."""

from __future__ import annotations

import math

from torch import nn

from selfadapt.errors import BadInput
from selfadapt.nets._checks import Shape, image, whole

# (width, dropout after it), or "pool"
_PLAN: tuple[tuple[int, float] | str, ...] = (
    *((64, 0.3), (64, 0.0), "pool"),
    *((128, 0.4), (128, 0.0), "pool"),
    *((256, 0.4), (256, 0.4), (256, 0.0), "pool"),
    *((512, 0.4), (512, 0.4), (512, 0.0), "pool"),
    *((512, 0.4), (512, 0.4), (512, 0.0), "pool"),
)
_HIDDEN, _DROPOUT, _STANDARD = 512, 0.5, 64


def vgg16_bn(num_outputs: int, shape: Shape, *, width: int = 64) -> nn.Module:
    """VGG net of 16 layers with batch norm and dropout; images of 32×32 or larger, any width."""
    channels, height, side = image("vgg16_bn", shape)
    width = whole("width", width)
    if min(height, side) < 32:
        raise BadInput(f"the net vgg16_bn halves images five times: {height}×{side} is too small.")
    layers: list[nn.Module] = []
    before = channels
    for step in _PLAN:
        if isinstance(step, str):
            layers.append(nn.MaxPool2d(2))
            continue
        after = max(1, step[0] * width // _STANDARD)
        layers += [_conv(before, after), nn.ReLU(inplace=True), nn.BatchNorm2d(after)]
        layers += [nn.Dropout2d(step[1])] if step[1] else []
        before = after
    features = before * (height // 32) * (side // 32)
    layers += [nn.Dropout2d(_DROPOUT), nn.Flatten()]
    layers += [_linear(features, _HIDDEN), nn.ReLU(inplace=True), nn.BatchNorm1d(_HIDDEN)]
    layers += [nn.Dropout(_DROPOUT), _linear(_HIDDEN, num_outputs)]
    return nn.Sequential(*layers)


def _conv(before: int, after: int) -> nn.Conv2d:
    layer = nn.Conv2d(before, after, 3, padding=1)
    nn.init.normal_(layer.weight, 0, math.sqrt(2 / (9 * after)))
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


def _linear(before: int, after: int) -> nn.Linear:
    layer = nn.Linear(before, after)
    nn.init.normal_(layer.weight, 0, 0.01)
    nn.init.zeros_(layer.bias)
    return layer
