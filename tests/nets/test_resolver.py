"""Every way to say which net, and what each wrong way is told."""

import functools
import sys
import types

import pytest
import torch
from torch import nn

from selfadapt import nets
from selfadapt.errors import BadInput, UnknownName
from selfadapt.nets import Normalised, maker
from selfadapt.nets.mlp import mlp

SHAPE = (3, 8, 8)
FLAT = 3 * 8 * 8


def linear(num_outputs, shape, *, bias=True):
    return nn.Sequential(nn.Flatten(), nn.Linear(FLAT, num_outputs, bias=bias))


def outputs_of(make_net, num_outputs=5):
    return make_net(num_outputs)(torch.rand(3, *SHAPE)).shape


def test_names_have_cards():
    known = nets.names()
    residual = {"resnet18", "resnet34", "resnet50", "preact_resnet18", "wrn28_10", "wrn34_10"}
    assert set(known) == {"mlp", "small_cnn", "vgg16_bn"} | residual
    assert all(card.endswith(".") and len(card) > 20 for card in known.values())


@pytest.mark.parametrize("name", sorted(nets.names()))
def test_every_name_builds(name):
    shape = (3, 32, 32) if name == "vgg16_bn" else SHAPE
    net = maker(name, shape, options={"width": 3})(5)
    assert net(torch.rand(3, *shape)).shape == (3, 5)


def test_resolve_gives_the_function_itself():
    assert nets.resolve("mlp") is mlp
    assert nets.resolve(linear) is linear


@pytest.mark.parametrize(
    ("given", "hint"), [("resnet81", "resnet18"), ("ResNet50", "resnet50"), ("MLP", "mlp")]
)
def test_unknown_name(given, hint):
    with pytest.raises(UnknownName, match=f"unknown net '{given}'. Did you mean '{hint}'"):
        maker(given, SHAPE)


@pytest.mark.parametrize("given", ["conv", "first_layers", "_resnet", "", "Normalised", "ResNet"])
def test_helpers_are_no_nets(given):
    with pytest.raises(UnknownName, match="unknown net"):
        maker(given, SHAPE)


@pytest.mark.parametrize("given", [None, 3, ["mlp"]])
def test_other_kinds_of_things(given):
    with pytest.raises(BadInput, match="must be a name, a function or an"):
        maker(given, SHAPE)


def test_option_typo_is_found_before_anything_is_built():
    with pytest.raises(
        UnknownName, match=r"setting of net resnet18 'widht'\. Did you mean 'width'"
    ):
        maker("resnet18", SHAPE, options={"widht": 3})


@pytest.mark.parametrize("name", ["num_outputs", "shape"])
def test_what_we_fill_in_is_no_option(name):
    with pytest.raises(UnknownName, match=f"'{name}'"):
        maker("mlp", SHAPE, options={name: 3})


@pytest.mark.parametrize("shape", [(3, 8, 0), (3, -8, 8), ("a",), (3, 8.5, 8)])
def test_shape_must_be_whole_numbers(shape):
    with pytest.raises(BadInput, match="whole number"):
        maker("mlp", shape)


@pytest.mark.parametrize("num_outputs", [0, 2.0, "3"])
def test_outputs_must_be_a_whole_number(num_outputs):
    with pytest.raises(BadInput, match="number of outputs"):
        maker("mlp", SHAPE)(num_outputs)


class Dropping(nn.Sequential):
    """Draws from the generator in its forward pass, whatever the mode."""

    def forward(self, x):
        return super().forward(x + 0 * torch.rand(1))


def dropping(num_outputs, shape):
    return Dropping(*linear(num_outputs, shape))


def test_the_trial_costs_no_random_numbers():
    torch.manual_seed(5)
    plain = [dropping(4, SHAPE), dropping(4, SHAPE)]
    torch.manual_seed(5)
    make_net = maker(dropping, SHAPE)
    tried = [make_net(4), make_net(4)]
    for a, b in zip(plain, tried, strict=True):
        assert torch.equal(a[1].weight, b[1].weight)
    assert not torch.equal(tried[0][1].weight, tried[1][1].weight)


def test_the_trial_leaves_modes_and_statistics_alone():
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(FLAT), nn.Dropout(), nn.Linear(FLAT, 4))
    net[1].eval()
    assert maker(net, SHAPE)(4) is net
    assert [m.training for m in net] == [True, False, True, True]
    assert net[1].num_batches_tracked == 0
    assert all(p.grad is None for p in net.parameters())


def test_lazy_layers_differ_from_net_to_net():
    def lazy(num_outputs):
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_outputs))

    make_net = maker(lazy, SHAPE)
    first, second = make_net(4), make_net(4)
    assert not torch.equal(first[1].weight, second[1].weight)


def test_a_net_in_double_precision():
    assert maker(linear(4, SHAPE).double(), SHAPE)(4)[1].weight.dtype == torch.float64


def test_a_net_without_weights():
    assert isinstance(maker(nn.Flatten(), SHAPE)(FLAT), nn.Flatten)


def test_normalised_where_asked():
    make_net = maker("mlp", SHAPE, mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
    net = make_net(4)
    assert isinstance(net, Normalised)
    assert net.mean.tolist() == [0.5] * 3
    assert not isinstance(maker("mlp", SHAPE)(4), Normalised)


def test_normalised_by_half():
    assert maker("mlp", SHAPE, mean=0.5)(4).std.tolist() == [1.0]
    assert maker("mlp", SHAPE, std=0.5)(4).mean.tolist() == [0.0]


def test_mean_of_another_number_of_channels():
    with pytest.raises(BadInput, match=r"cannot take samples of shape \(3, 8, 8\)"):
        maker("mlp", SHAPE, mean=(0.5, 0.5))(4)


def test_wrong_number_of_outputs():
    with pytest.raises(BadInput, match="returned 7 numbers a sample, this task needs 10"):
        maker(linear(7, SHAPE), SHAPE)(10)


def test_wrong_shape_of_samples():
    with pytest.raises(BadInput, match=r"cannot take samples of shape \(1, 8, 8\): RuntimeError"):
        maker(linear(7, SHAPE), (1, 8, 8))(7)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Identity(), r"shape \[2, 3, 8, 8\]"),
        (nn.Flatten(0), r"shape \[384\]"),
        (nn.Flatten(0, 1), r"shape \[6, 8, 8\]"),
    ],
)
def test_outputs_of_another_shape(net, message):
    with pytest.raises(BadInput, match=message):
        maker(net, SHAPE)(10)


def test_outputs_that_are_no_tensor():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(BadInput, match="returned a thing of type tuple"):
        maker(Pair(), SHAPE)(10)


def test_function_with_options():
    net = maker(linear, SHAPE, options={"bias": False})(4)
    assert net[1].bias is None


def only_outputs(num_outputs):
    return linear(num_outputs, None)


def outputs_and_flag(num_outputs, pretrained=False):
    assert pretrained is False
    return linear(num_outputs, None)


def shape_with_default(num_outputs, shape=None):
    assert shape == SHAPE
    return linear(num_outputs, shape)


def anything(*args, **options):
    assert args[1] == SHAPE
    assert options in ({}, {"colour": "red"})
    return linear(args[0], args[1])


class Net(nn.Module):
    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, num_classes, 1)

    def forward(self, x):
        return self.conv(x).mean((2, 3))


@pytest.mark.parametrize(
    ("factory", "options"),
    [
        (only_outputs, {}),
        (outputs_and_flag, {}),
        (outputs_and_flag, {"pretrained": False}),
        (shape_with_default, {}),
        (anything, {}),
        (anything, {"colour": "red"}),
        (Net, {"channels": 3}),
        (functools.partial(linear, bias=False), {}),
        (lambda n: linear(n, None), {}),
    ],
)
def test_calling_rule(factory, options):
    assert outputs_of(maker(factory, SHAPE, options=options)) == (3, 5)


def test_function_option_typo():
    with pytest.raises(UnknownName, match=r"setting of net linear 'bia'\. Did you mean 'bias'"):
        maker(linear, SHAPE, options={"bia": False})


def test_function_that_needs_more():
    def needy(num_outputs, shape, *, depth):
        raise AssertionError

    with pytest.raises(BadInput, match=r"missing a required .*argument: 'depth'"):
        maker(needy, SHAPE)


def test_function_without_arguments():
    with pytest.raises(BadInput, match="cannot be called as"):
        maker(lambda: None, SHAPE)


def test_function_that_makes_no_module():
    with pytest.raises(BadInput, match=r"made a thing of type int, expected an nn\.Module"):
        maker(lambda n: n, SHAPE)(3)


def test_module_is_returned_unchanged_then_copied():
    net = linear(4, SHAPE)
    make_net = maker(net, SHAPE)
    assert make_net(4) is net
    with pytest.warns(UserWarning, match="starts from the same weights"):
        second = make_net(4)
    assert second is not net
    assert torch.equal(second[1].weight, net[1].weight)
    assert second[1].weight.data_ptr() != net[1].weight.data_ptr()


def test_module_takes_no_options():
    with pytest.raises(UnknownName, match=r"'width'\. There are: none"):
        maker(linear(4, SHAPE), SHAPE, options={"width": 3})


@pytest.fixture
def my_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def make(num_outputs, shape, *, bias=True):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(192, num_outputs, bias=bias))\n"
        "class inside:\n"
        "    make = staticmethod(make)\n"
        "ready = make(5, None)\n"
        "number = 3\n"
    )
    (tmp_path / "needs_more.py").write_text("import no_such_package\n")
    return tmp_path


@pytest.mark.parametrize("spec", ["my_nets:make", "my_nets:inside.make", "my_nets:ready"])
def test_from_the_current_folder(my_folder, spec):
    assert outputs_of(maker(spec, SHAPE)) == (3, 5)


def test_options_of_an_imported_function(my_folder):
    assert maker("my_nets:make", SHAPE, options={"bias": False})(4)[1].bias is None
    with pytest.raises(UnknownName, match=r"setting of net my_nets:make 'bais'\. Did you mean"):
        maker("my_nets:make", SHAPE, options={"bais": False})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my_nets:maek", "unknown net in my_nets 'maek'. Did you mean 'make'"),
        ("my_nets:number", "is of type int, expected a function"),
        ("my_net:make", "cannot import 'my_net'"),
        ("my_nets.py:make", "cannot import 'my_nets.py'"),
        ("needs_more:make", "cannot import 'needs_more' .*no_such_package"),
        ("my_nets:", "not of the form module:function"),
        (":make", "not of the form module:function"),
        ("./my_nets.py:make", "not of the form module:function"),
        ("my_nets:make:again", "not of the form module:function"),
    ],
)
def test_import_failures(my_folder, spec, message):
    with pytest.raises(BadInput, match=message):
        maker(spec, SHAPE)


def create_model(model_name, pretrained=False, num_classes=1000, in_chans=3, **kwargs):
    if set(kwargs) - {"drop_rate"}:
        raise TypeError(f"__init__() got an unexpected keyword argument {next(iter(kwargs))!r}")
    return nn.Sequential(nn.Flatten(), nn.Linear(in_chans * 64, num_classes))


def get_model(name, weights=None, **config):
    return create_model(name, **config)


@pytest.fixture
def libraries(monkeypatch):
    timm = types.ModuleType("timm")
    timm.create_model = create_model
    timm.is_model = lambda name: name.split(".")[0] == "convnext_nano"
    timm.list_models = lambda: ["convnext_nano", "resnet18"]
    torchvision = types.ModuleType("torchvision")
    torchvision.models = types.ModuleType("torchvision.models")
    torchvision.models.get_model = get_model
    torchvision.models.list_models = lambda module=None: ["vgg16", "alexnet"]
    for module in (timm, torchvision, torchvision.models):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    "spec",
    ["timm:convnext_nano", "timm:convnext_nano.in1k", "timm:hf-hub:who/what", "torchvision:vgg16"],
)
def test_libraries(libraries, spec):
    assert outputs_of(maker(spec, SHAPE, options={"drop_rate": 0.1})) == (3, 5)


def test_timm_is_told_the_channels(libraries):
    assert maker("timm:convnext_nano", (1, 8, 8))(4)[1].in_features == 64


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("timm:convnext_nan", "timm has no net 'convnext_nan'. Did you mean 'convnext_nano'"),
        ("torchvision:vg16", "torchvision has no net 'vg16'. Did you mean 'vgg16'"),
        ("torchvision:", "torchvision has no net ''"),
    ],
)
def test_library_lacks_the_net(libraries, spec, message):
    with pytest.raises(UnknownName, match=message):
        maker(spec, SHAPE)


@pytest.mark.parametrize("spec", ["timm:convnext_nano", "torchvision:vgg16"])
@pytest.mark.parametrize("option", ["widht", "num_classes"])
def test_library_refuses_a_setting(libraries, spec, option):
    with pytest.raises(BadInput, match=f"cannot be built with these settings.*{option}"):
        maker(spec, SHAPE, options={option: 3})(5)


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_library_missing(monkeypatch, package):
    for name in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BadInput, match=f"needs {package}.*pip install {package}"):
        maker(f"{package}:resnet18", SHAPE)


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_library_broken(monkeypatch, tmp_path, package):
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')\n"
    )
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k != package})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=r"does not load \(operator torchvision::nms"):
        maker(f"{package}:resnet18", SHAPE)
