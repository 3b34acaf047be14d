"""What a net is asked before it is built, and once it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from selfadapt.errors import BadInput

Shape = tuple[int, ...]


def whole(name: str, value: object) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise BadInput(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def image(net: str, shape: Shape) -> tuple[int, int, int]:
    """Channels, height and width."""
    if len(shape) != 3:
        raise BadInput(
            f"the net {net} takes images (channels, height, width), these samples have the shape "
            f"{tuple(shape)}. For plain features take the net 'mlp'."
        )
    channels, height, width = shape
    return channels, height, width


def outputs(net: nn.Module, num_outputs: int, shape: Shape) -> None:
    """Refuse a net that cannot take these samples or returns something else than one number an
    output. Two samples, so that a net that mixes up batch and sample is found out too."""
    try:
        got = _forward(net, shape)
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        raise BadInput(
            f"the net cannot take samples of shape {shape}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(got, torch.Tensor):
        raise BadInput(
            f"the net returned a thing of type {type(got).__name__}, expected one tensor of shape "
            f"[batch, {num_outputs}]: wrap it in a module that returns the logits alone."
        )
    if tuple(got.shape) == (2, num_outputs):
        return
    if got.ndim == 2 and len(got) == 2:
        raise BadInput(
            f"the net returned {got.shape[1]} numbers a sample, this task needs {num_outputs}: "
            "its last layer must be as wide as the number of outputs it is asked for."
        )
    raise BadInput(
        f"the net returned a tensor of shape {list(got.shape)} for 2 samples of shape {shape}, "
        f"expected [2, {num_outputs}]."
    )


def _forward(net: nn.Module, shape: Shape) -> object:
    known = [p for p in net.parameters() if p.is_floating_point()]
    device = known[0].device if known else torch.device("cpu")
    dtype = known[0].dtype if known else torch.float32
    zeros = torch.zeros(2, *shape, device=device, dtype=dtype)
    if any(is_lazy(p) for p in net.parameters()):
        # These draw their initial weights here: two nets made in a row must not draw the same.
        with _evaluating(net), torch.no_grad():
            return net(zeros)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), _evaluating(net), torch.no_grad():
        return net(zeros)


@contextmanager
def _evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode, then each module's own mode again: some may be frozen on purpose."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
