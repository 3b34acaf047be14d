"""The last layer of a classifier, and the features it reads: for methods of more than one head, and
for dropout on features."""

from __future__ import annotations

from torch import Tensor, nn

from selfadapt.errors import BadInput


def last_linear(net: nn.Module) -> nn.Linear:
    """The layer that makes outputs of features, in any net that ends in a linear one."""
    found = [layer for layer in net.modules() if isinstance(layer, nn.Linear)]
    if not found:
        raise BadInput(
            f"the net {type(net).__name__} has no linear layer, so it is not known which features "
            "its outputs are made of"
        )
    return found[-1]


def with_features(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """(the net's outputs, the features that its last layer made them of). Not by a compiled net's
    own code, which tells nothing of what lies within."""
    seen: list[Tensor] = []
    hook = last_linear(net).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        outputs = net.forward(x)
    finally:
        hook.remove()
    return outputs, seen[-1]
