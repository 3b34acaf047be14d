"""Residual networks after He et al. 2016 (arXiv 1512.03385), activation after the addition. With
the CIFAR stem and width 64, 18 and 34 layers are the nets of the paper's tables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from selfadapt.errors import unknown
from selfadapt.nets._checks import Shape, image, whole
from selfadapt.nets._residual import Basic, Bottleneck, ResNet, first_layers

_CIFAR_UP_TO = 96


def resnet18(num_outputs: int, shape: Shape, *, width: int = 64, stem: str = "auto") -> nn.Module:
    """Residual net of 18 layers; the stem fits the image size, any width."""
    return _resnet("resnet18", Basic, (2, 2, 2, 2), num_outputs, shape, width, stem)


def resnet34(num_outputs: int, shape: Shape, *, width: int = 64, stem: str = "auto") -> nn.Module:
    """Residual net of 34 layers, the paper's on CIFAR; the stem fits the image size, any width."""
    return _resnet("resnet34", Basic, (3, 4, 6, 3), num_outputs, shape, width, stem)


def resnet50(num_outputs: int, shape: Shape, *, width: int = 64, stem: str = "auto") -> nn.Module:
    """Residual net of 50 layers with bottlenecks, the paper's on ImageNet; any width."""
    return _resnet("resnet50", Bottleneck, (3, 4, 6, 3), num_outputs, shape, width, stem)


def _resnet(
    name: str,
    block: type[Basic] | type[Bottleneck],
    depths: Sequence[int],
    num_outputs: int,
    shape: Shape,
    width: int,
    stem: str,
) -> nn.Module:
    channels, height, side = image(name, shape)
    width = whole("width", width)
    if stem == "auto":
        stem = "cifar" if max(height, side) <= _CIFAR_UP_TO else "imagenet"
    first = _stem(stem, channels, width)
    return ResNet(num_outputs, first, block, depths, width)


def _stem(stem: str, channels: int, width: int) -> OrderedDict[str, nn.Module]:
    if stem == "cifar":
        return first_layers(channels, width, size=3, stride=1)
    if stem == "imagenet":
        layers = first_layers(channels, width, size=7, stride=2)
        layers["maxpool"] = nn.MaxPool2d(3, stride=2, padding=1)
        return layers
    raise unknown("stem", str(stem), ("auto", "cifar", "imagenet"))
