"""Nets by name. A net is a function (num_outputs, shape, *, settings) -> nn.Module in one of this
folder's files, and its name is the function's: a new one is at once in recipes, the command line
and the tests. Somebody else's is `module:function`, `timm:NAME`, `torchvision:NAME`, a function
or a module."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter
from types import MappingProxyType

from torch import nn

from selfadapt.errors import BadInput, unknown
from selfadapt.nets import _checks, _elsewhere
from selfadapt.nets._checks import Shape
from selfadapt.nets._elsewhere import Factory
from selfadapt.nets.normalised import Normalised, Numbers

__all__ = ["Factory", "Normalised", "maker", "names", "resolve"]

Net = str | Factory | nn.Module
_NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


def names() -> dict[str, str]:
    """Our nets by name, each with its card: the first line of its docstring."""
    return {name: (inspect.getdoc(f) or "").partition("\n")[0] for name, f in _ours().items()}


def resolve(net: Net) -> Factory:
    """The function that builds this net, whatever it was given as."""
    if isinstance(net, nn.Module):
        return _elsewhere.given(net)
    if callable(net):
        return net
    if not isinstance(net, str):
        raise BadInput(f"net must be a name, a function or an nn.Module, not {net!r}.")
    place, colon, name = net.partition(":")
    if place == "timm" and colon:
        return _elsewhere.from_timm(name)
    if place == "torchvision" and colon:
        return _elsewhere.from_torchvision(name)
    if colon:
        return _theirs(net)
    ours = net.replace("-", "_")
    if ours not in _ours():
        raise unknown("net", net, _ours())
    return _ours()[ours]


def maker(
    net: Net,
    shape: Sequence[int],
    *,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    options: Mapping[str, object] = _NO_OPTIONS,
) -> Callable[[int], nn.Module]:
    """`make_net(num_outputs)` as methods are given it: every net it makes takes samples of this
    shape, normalises them itself where a mean or std is given, and has been tried once. Initial
    weights depend on torch's global generator and nothing else."""
    sample = tuple(_checks.whole("every part of a sample's shape", side) for side in shape)
    factory = resolve(net)
    rest = _rest_of_call(factory, _label(net), sample, options)

    def make_net(num_outputs: int) -> nn.Module:
        num_outputs = _checks.whole("the number of outputs", num_outputs)
        with _too_large(net, options):
            built: object = factory(num_outputs, *rest, **options)
        if not isinstance(built, nn.Module):
            raise BadInput(
                f"net {_label(net)!r} made a thing of type {type(built).__name__}, "
                "expected an nn.Module."
            )
        if mean is not None or std is not None:
            built = Normalised(built, 0.0 if mean is None else mean, 1.0 if std is None else std)
        _checks.outputs(built, num_outputs, sample)
        return built

    return make_net


@contextmanager
def _too_large(net: Net, options: Mapping[str, object]) -> Iterator[None]:
    """Our own nets fail for one reason only, once their settings have been checked."""
    try:
        yield
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:
        if not (isinstance(net, str) and net in _ours()):
            raise
        given = ", ".join(f"net.{name}={value}" for name, value in options.items())
        raise BadInput(f"net {net!r} does not fit in memory with {given or 'this data'}") from error


def _ours() -> dict[str, Factory]:
    found: dict[str, Factory] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        for name, value in vars(module).items():
            here = inspect.isfunction(value) and value.__module__ == module.__name__
            if here and not name.startswith("_"):
                found[name] = value
    return found


def _theirs(spec: str) -> Factory:
    found = _elsewhere.imported(spec)
    if isinstance(found, nn.Module):
        return _elsewhere.given(found)
    if not callable(found):
        raise BadInput(f"net {spec!r} is of type {type(found).__name__}, expected a function.")
    return found


def _label(net: Net) -> str:
    return net if isinstance(net, str) else str(getattr(net, "__name__", type(net).__name__))


def _rest_of_call(
    factory: Factory, label: str, shape: Shape, options: Mapping[str, object]
) -> tuple[Shape, ...]:
    """What follows the number of outputs in a call: the shape, or nothing where the factory does
    not ask for it. Wrong settings are found here, before any data is read."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # written in C, and says nothing about its arguments
        return (shape,)
    parameters = list(signature.parameters.values())
    rest = (shape,) if _asks_for_shape(parameters, options) else ()
    if not any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        settings = _settings(parameters, taken=1 + len(rest))
        for name in options:
            if name not in settings:
                raise unknown(f"setting of net {label}", name, settings)
    try:
        signature.bind(0, *rest, **options)
    except TypeError as error:
        raise BadInput(
            f"net {label!r} cannot be called as {label}(num_outputs, shape, settings): {error}. "
            f"It is declared {label}{signature}."
        ) from None
    return rest


def _asks_for_shape(parameters: list[Parameter], options: Mapping[str, object]) -> bool:
    """A second argument is the shape if it is called so or has no default: `def make(n,
    pretrained=False)` must not be handed a shape to take for True."""
    if any(p.kind is Parameter.VAR_POSITIONAL for p in parameters):
        return True
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    if len(positional) < 2:
        return False
    name, default = positional[1].name, positional[1].default
    return name == "shape" or (default is Parameter.empty and name not in options)


_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def _settings(parameters: list[Parameter], taken: int) -> list[str]:
    by_position = [p.name for p in parameters if p.kind in _POSITIONAL][:taken]
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.kind in by_name and p.name not in by_position]
