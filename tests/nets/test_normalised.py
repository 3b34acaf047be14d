import copy

import numpy as np
import pytest
import torch
from torch import nn

from selfadapt.errors import BadInput
from selfadapt.nets import Normalised
from selfadapt.nets.resnet import resnet18

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def test_equals_numpy_channel_by_channel():
    x = np.random.default_rng(0).random((4, 3, 5, 6), dtype=np.float32)
    expected = np.stack([(x[:, c] - MEAN[c]) / STD[c] for c in range(3)], axis=1)
    got = Normalised(nn.Identity(), MEAN, STD)(torch.from_numpy(x))
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make", [list, tuple, np.array, torch.tensor, lambda v: torch.tensor(v, dtype=torch.float64)]
)
def test_features_and_kinds_of_numbers(make):
    x = torch.rand(4, 3)
    got = Normalised(nn.Identity(), make(MEAN), make(STD))(x)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, (x - torch.tensor(MEAN)) / torch.tensor(STD))


def test_one_number_serves_every_channel():
    x = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(Normalised(nn.Identity(), 0.5, (0.25,))(x), (x - 0.5) / 0.25)


def test_saved_with_the_net_and_apart_from_the_callers_array():
    mean = np.array(MEAN, dtype=np.float32)
    net = Normalised(nn.Linear(3, 2), mean, STD)
    mean[:] = 9
    other = Normalised(nn.Linear(3, 2), [0, 0, 0], [1, 1, 1])
    other.load_state_dict(net.state_dict())
    x = torch.rand(5, 3)
    assert set(net.state_dict()) == {"mean", "std", "net.weight", "net.bias"}
    assert torch.equal(other(x), net(x))
    torch.testing.assert_close(net.mean, torch.tensor(MEAN))


class Seen(nn.Module):
    def forward(self, x):
        self.x = x
        return x.flatten(1)


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_last_is_kept(channels):
    net = Normalised(Seen(), MEAN[:channels], STD[:channels]).to(memory_format=torch.channels_last)
    net(torch.rand(2, channels, 8, 8).to(memory_format=torch.channels_last))
    assert net.net.x.is_contiguous(memory_format=torch.channels_last)


def test_works_under_autocast_and_in_bfloat16():
    net = Normalised(resnet18(4, (3, 8, 8), width=4), MEAN, STD).eval()
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = net(x)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), net(x), rtol=0.1, atol=0.1)
    assert copy.deepcopy(net).bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_gradient_reaches_the_input():
    x = torch.rand(2, 3, requires_grad=True)
    Normalised(nn.Identity(), MEAN, STD)(x).sum().backward()
    torch.testing.assert_close(x.grad, (1 / torch.tensor(STD)).expand(2, 3))


def test_a_feature_that_never_varies_is_only_centred():
    got = Normalised(nn.Identity(), [1.0, 2.0], [0.0, 2.0])(torch.tensor([[1.0, 4.0]]))
    assert got.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ([0.0, float("nan")], 1.0, "mean must be finite"),
        (0.0, [1.0, float("inf")], "std must be finite"),
        ("a", 1.0, "mean must be numbers"),
        ([], 1.0, "mean must be finite"),
        (0.0, [-1.0], "must not be negative"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], "mean has 2 numbers and std 3"),
    ],
)
def test_refuses(mean, std, message):
    with pytest.raises(BadInput, match=message):
        Normalised(nn.Identity(), mean, std)
