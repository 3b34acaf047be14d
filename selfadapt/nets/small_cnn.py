"""A residual net for two processor cores: a twelfth of ResNet-18's work on 32×32 images."""

from __future__ import annotations

from torch import nn

from selfadapt.nets._checks import Shape, image, whole
from selfadapt.nets._residual import Basic, ResNet, first_layers

_HALVE_ABOVE = 48


def small_cnn(num_outputs: int, shape: Shape, *, width: int = 32) -> nn.Module:
    """Residual net of 8 layers that trains in minutes without a GPU; images of 8×8 to 64×64."""
    channels, height, side = image("small_cnn", shape)
    width = whole("width", width)
    stride = 2 if max(height, side) > _HALVE_ABOVE else 1
    first = first_layers(channels, width, size=3, stride=stride)
    return ResNet(num_outputs, first, Basic, (1, 1, 1), width)
