"""Our nets: sizes the literature states, shapes, initial weights, evaluation."""

import math

import pytest
import torch
from torch import nn

from selfadapt.errors import BadInput, UnknownName
from selfadapt.nets.mlp import mlp
from selfadapt.nets.resnet import resnet18, resnet34, resnet50
from selfadapt.nets.small_cnn import small_cnn

CIFAR = (3, 32, 32)


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("width", "expected"), [(1, 2_991), (4, 44_622), (9, 222_967), (64, 11_173_962)]
)
def test_resnet18_parameters(width, expected):
    assert count(resnet18(10, CIFAR, width=width)) == expected


@pytest.mark.parametrize(("classes", "expected"), [(10, 21_282_122), (100, 21_328_292)])
def test_resnet34_parameters(classes, expected):
    with torch.device("meta"):
        assert count(resnet34(classes, CIFAR)) == expected


def test_resnet50_parameters():
    with torch.device("meta"):
        assert count(resnet50(1000, (3, 224, 224))) == 25_557_032


def test_mlp_is_three_plain_layers():
    net = mlp(7, (1, 8, 8), width=5)
    assert count(net) == (64 * 5 + 5) + (5 * 5 + 5) + (5 * 7 + 7)
    assert not any(isinstance(m, nn.BatchNorm1d | nn.Dropout) for m in net.modules())


@pytest.mark.parametrize("make", [resnet18, resnet34, resnet50])
@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize("shape", [(1, 33, 20), (5, 32, 32), (3, 8, 8)])
def test_resnets_take_any_channels_sides_and_widths(make, stem, shape):
    net = make(6, shape, width=3, stem=stem)
    assert net(torch.rand(2, *shape)).shape == (2, 6)


@pytest.mark.parametrize(
    ("shape", "pooled"), [((3, 96, 96), False), ((3, 97, 20), True), ((3, 20, 97), True)]
)
def test_auto_stem_follows_the_longer_side(shape, pooled):
    net = resnet18(2, shape, width=1)
    assert any(isinstance(m, nn.MaxPool2d) for m in net.modules()) is pooled
    assert net.get_submodule("conv1").kernel_size == ((7, 7) if pooled else (3, 3))


def test_stages_halve_the_side_as_published():
    net = resnet18(10, CIFAR, width=2)
    sides = []
    for name in ("conv1", "layer1", "layer2", "layer3", "layer4"):
        net.get_submodule(name).register_forward_hook(lambda m, i, y: sides.append(y.shape[1:]))
    net(torch.rand(2, *CIFAR))
    assert [tuple(s) for s in sides] == [
        (2, 32, 32), (2, 32, 32), (4, 16, 16), (8, 8, 8), (16, 4, 4),
    ]  # fmt: skip


def test_block_is_the_published_formula():
    net = resnet18(10, CIFAR, width=4).eval()
    block = net.get_submodule("layer2.0")
    x = torch.rand(2, 4, 8, 8)
    y = torch.relu(block.bn1(block.conv1(x)))
    y = block.bn2(block.conv2(y))
    shortcut = block.downsample[1](block.downsample[0](x))
    torch.testing.assert_close(block(x), torch.relu(y + shortcut))


def test_bottleneck_is_the_published_formula():
    net = resnet50(10, CIFAR, width=4).eval()
    block = net.get_submodule("layer2.0")
    assert [c.stride for c in (block.conv1, block.conv2, block.conv3)] == [(1, 1), (2, 2), (1, 1)]
    assert [c.kernel_size[0] for c in (block.conv1, block.conv2, block.conv3)] == [1, 3, 1]
    x = torch.rand(2, 16, 8, 8)
    y = torch.relu(block.bn1(block.conv1(x)))
    y = torch.relu(block.bn2(block.conv2(y)))
    y = block.bn3(block.conv3(y))
    shortcut = block.downsample[1](block.downsample[0](x))
    torch.testing.assert_close(block(x), torch.relu(y + shortcut))


@pytest.mark.parametrize("make", [resnet18, resnet50])
def test_initial_weights(make):
    torch.manual_seed(0)
    net = make(10, CIFAR, width=16)
    for module in net.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 2000:
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert module.bias is None
            assert module.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.08)
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


@pytest.mark.parametrize("side", [8, 28, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_small_cnn_shapes(side, channels):
    net = small_cnn(10, (channels, side, side), width=4)
    assert net(torch.rand(3, channels, side, side)).shape == (3, 10)


def test_small_cnn_learns_a_toy():
    torch.manual_seed(0)
    x = torch.rand(64, 1, 8, 8)
    y = (x[:, :, :, :4].mean((1, 2, 3)) > x[:, :, :, 4:].mean((1, 2, 3))).long()
    net = small_cnn(2, (1, 8, 8), width=8)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(40):
        loss = nn.functional.cross_entropy(net(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize("make", [mlp, small_cnn, resnet18, resnet50])
def test_seed_decides_weights_and_evaluation_repeats(make):
    def built():
        torch.manual_seed(3)
        return make(4, (3, 12, 12), width=4).eval()

    x = torch.rand(5, 3, 12, 12)
    first, second = built(), built()
    assert torch.equal(first(x), second(x))
    assert torch.equal(first(x), first(x))
    torch.testing.assert_close(first(x)[:2], first(x[:2]))


@pytest.mark.parametrize("make", [small_cnn, resnet18])
def test_every_weight_gets_a_gradient(make):
    net = make(4, (3, 16, 16), width=4)
    net(torch.rand(8, 3, 16, 16)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("make", [mlp, small_cnn, resnet18, resnet34, resnet50])
@pytest.mark.parametrize("width", [0, -1, 1.5, "8", True, None])
def test_width_must_be_a_whole_number(make, width):
    with pytest.raises(BadInput, match="width must be a whole number of at least 1"):
        make(4, (3, 16, 16), width=width)


def test_unknown_stem():
    with pytest.raises(UnknownName, match="Did you mean 'cifar'"):
        resnet18(10, CIFAR, stem="cifr")


@pytest.mark.parametrize("make", [small_cnn, resnet18])
def test_features_are_no_images(make):
    with pytest.raises(BadInput, match=r"takes images .*\(64,\).*'mlp'"):
        make(10, (64,))
