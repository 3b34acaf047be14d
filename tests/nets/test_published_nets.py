"""The wide, the pre-activation and the VGG net: METHODS.md 15."""

import math

import pytest
import torch
from torch import nn

from selfadapt.errors import BadInput
from selfadapt.nets import resolve
from selfadapt.nets.preact_resnet import preact_resnet18
from selfadapt.nets.vgg import vgg16_bn
from selfadapt.nets.wide_resnet import wrn28_10, wrn34_10

CIFAR = (3, 32, 32)
SMALL = {wrn28_10: 1, wrn34_10: 1, preact_resnet18: 4, vgg16_bn: 8}
every_net = pytest.mark.parametrize("make", SMALL)


@pytest.mark.parametrize(
    ("make", "outputs", "shape", "expected"),
    [
        (wrn28_10, 10, CIFAR, 36_479_194),
        (wrn28_10, 100, CIFAR, 36_536_884),
        (wrn34_10, 10, CIFAR, 46_160_474),
        (vgg16_bn, 10, CIFAR, 14_991_946),
        (vgg16_bn, 11, CIFAR, 14_992_459),
        (vgg16_bn, 3, (3, 64, 64), 15_774_787),
        (preact_resnet18, 10, CIFAR, 11_171_146),
    ],
)
def test_parameters(make, outputs, shape, expected):
    with torch.device("meta"):
        net = make(outputs, shape)
    assert sum(p.numel() for p in net.parameters()) == expected


@every_net
def test_shapes_gradients_and_evaluation(make):
    torch.manual_seed(0)
    net = make(7, CIFAR, width=SMALL[make])
    x = torch.rand(6, *CIFAR)
    assert net(x).shape == (6, 7)
    net(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    net.eval()
    torch.testing.assert_close(net(x)[:2], net(x[:2]), atol=1e-5, rtol=1e-4)


@every_net
@pytest.mark.parametrize("width", [0, 1.5, "8"])
def test_width_must_be_a_whole_number(make, width):
    with pytest.raises(BadInput, match="width must be a whole number"):
        make(10, CIFAR, width=width)


@every_net
def test_features_are_no_images(make):
    with pytest.raises(BadInput, match="takes images"):
        make(10, (64,))


def test_hyphens_are_as_good_as_underlines():
    assert resolve("wrn34-10") is wrn34_10


def test_vgg_refuses_what_it_would_halve_to_nothing():
    with pytest.raises(BadInput, match="31×40 is too small"):
        vgg16_bn(10, (3, 31, 40))


def test_vgg_normalises_after_relu_as_published():
    kinds = [type(layer).__name__ for layer in vgg16_bn(10, CIFAR, width=8)]
    first = ["Conv2d", "ReLU", "BatchNorm2d", "Dropout2d", "Conv2d", "ReLU", "BatchNorm2d"]
    assert kinds[:8] == [*first, "MaxPool2d"]
    head = ["Dropout2d", "Flatten", "Linear", "ReLU", "BatchNorm1d", "Dropout", "Linear"]
    assert kinds[-7:] == head


def test_the_dropout_of_vgg_stands_where_published():
    """After convolutions 1, 3, 5, 6, 8, 9, 11, 12, after the last pool, and before the answer."""
    net, found, number = vgg16_bn(10, CIFAR, width=8), {}, 0
    for layer in net:
        number += isinstance(layer, nn.Conv2d)
        if isinstance(layer, nn.Dropout2d):
            found.setdefault(number, []).append(layer.p)
    assert found.pop(13) == [0.5]
    assert found == {1: [0.3], **{n: [0.4] for n in (3, 5, 6, 8, 9, 11, 12)}}
    assert [m.p for m in net if type(m) is nn.Dropout] == [0.5]


def test_initial_weights_of_vgg():
    torch.manual_seed(0)
    net = vgg16_bn(10, CIFAR)
    for layer in net:
        if isinstance(layer, nn.Conv2d):
            expected = math.sqrt(2 / (9 * layer.out_channels))
            assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)
            assert not layer.bias.any()
        if isinstance(layer, nn.Linear):
            assert layer.weight.std().item() == pytest.approx(0.01, rel=0.05)


def test_initial_weights_of_the_wide_net():
    """N(0, 2 / (size² · after)), and a last layer that begins without a preference."""
    torch.manual_seed(0)
    net = wrn28_10(10, CIFAR, width=4)
    for module in net.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 2000:
            expected = math.sqrt(2 / (module.kernel_size[0] ** 2 * module.out_channels))
            assert module.weight.std().item() == pytest.approx(expected, rel=0.08)
            assert module.bias is None
    assert not net.get_submodule("fc").bias.any()


def test_initial_weights_of_the_double_descent_net():
    """As PyTorch draws them: uniform, within 1 / sqrt(fan in)."""
    torch.manual_seed(0)
    for module in preact_resnet18(10, CIFAR, width=16).modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 2000:
            bound = 1 / math.sqrt(module.in_channels * module.kernel_size[0] ** 2)
            assert module.bias is None
            assert bound * 0.98 < module.weight.abs().max().item() <= bound
            assert module.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.08)


@pytest.mark.parametrize(
    ("make", "layers", "sides"),
    [
        (wrn28_10, 28, [32, 32, 16, 8]),
        (wrn34_10, 34, [32, 32, 16, 8]),
        (preact_resnet18, 18, [32, 32, 16, 8, 4]),
    ],
)
def test_layers_and_sides_of_the_stages(make, layers, sides):
    """28 and 34 are all convolutions, those of the three shortcuts too; 18 are those of 3×3 and the
    linear layer."""
    net = make(10, CIFAR, width=2)
    convolutions = [m.kernel_size[0] for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert convolutions.count(1) == 3
    assert convolutions.count(3) == layers - (1 if make is preact_resnet18 else 3)
    found = []
    for name in ("conv1", *(f"layer{i}" for i in range(1, len(sides)))):
        net.get_submodule(name).register_forward_hook(lambda m, i, y: found.append(y.shape[-1]))
    net(torch.rand(2, *CIFAR))
    assert found == sides


def test_what_stands_before_the_pooling():
    """Batch norm and activation in the wide net, nothing in that of the double-descent study, whose
    first convolution and shortcuts are bare too."""
    wide = [type(m) for m in wrn28_10(10, CIFAR, width=1)]
    assert wide[-5:] == [nn.BatchNorm2d, nn.ReLU, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]
    bare = preact_resnet18(10, CIFAR, width=2)
    kinds = [nn.Conv2d, *[nn.Sequential] * 4, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]
    assert [type(m) for m in bare] == kinds
    assert type(bare.get_submodule("layer2.0.shortcut")) is nn.Conv2d


@pytest.mark.parametrize("make", [wrn28_10, preact_resnet18])
def test_a_shortcut_that_changes_the_width_is_fed_with_the_activated_input(make):
    net = make(10, CIFAR, width=SMALL[make]).eval()
    block = net.get_submodule("layer2.0")
    x = torch.randn(2, block.conv1.in_channels, 8, 8)
    active = torch.relu(block.bn1(x))
    expected = block.conv2(torch.relu(block.bn2(block.conv1(active)))) + block.shortcut(active)
    torch.testing.assert_close(block(x), expected)
    plain = net.get_submodule("layer2.1")
    y = torch.randn(2, block.conv2.out_channels, 8, 8)
    active = torch.relu(plain.bn1(y))
    assert plain.shortcut is None
    expected = y + plain.conv2(torch.relu(plain.bn2(plain.conv1(active))))
    torch.testing.assert_close(plain(y), expected)


def test_dropout_of_the_wide_net():
    net = wrn28_10(10, CIFAR, width=1, dropout=0.5)
    x = torch.rand(4, *CIFAR)
    assert not torch.equal(net(x), net(x))
    with pytest.raises(BadInput, match="dropout must lie in"):
        wrn28_10(10, CIFAR, dropout=1.0)
