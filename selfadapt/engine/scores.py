"""What a trained method says of each sample: predictions, and scores of how little it knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from selfadapt import selective
from selfadapt.data.feed import Feed
from selfadapt.engine.evaluate import Tick, passes
from selfadapt.engine.machine import Machine
from selfadapt.errors import BadInput
from selfadapt.head import last_linear, with_features
from selfadapt.methods import Method
from selfadapt.randomness import key
from selfadapt.selective.scores import SCORES

PASSES, DROPOUT = 100, 0.5


@dataclass(frozen=True)
class Scored:
    """In the order asked for; NaN for samples that cannot be read. A higher score means rather not
    say."""

    probs: NDArray[np.float32]
    scores: Mapping[str, NDArray[np.float64]]


def scored(
    method: Method,
    feed: Feed,
    machine: Machine,
    names: Collection[str] | None = None,
    rows: NDArray[np.int64] | None = None,
    tick: Tick | None = None,
) -> Scored:
    """`names`: only these scores, of those that this method has; none is all of them."""
    classes = method.num_classes
    there = [name for name in scores_of(method) if names is None or name in names]

    def look(x: Tensor) -> Tensor:
        """Of the net no more passes than it takes: predictions alone are one."""
        if "energy" in there:
            logits = method.logits(x).float()
            own = type(method).predict is not Method.predict
            probs = method.predict(x) if own else logits.softmax(dim=1)
        else:
            probs = method.predict(x)
            logits = torch.zeros_like(probs)  # not asked for
        none = probs.new_zeros(len(x))
        doubt = method.abstain(x).float() if "abstain" in there else none
        varied = _variance(method, x) if "dropout" in there else none
        return torch.cat([logits, probs, doubt[:, None], varied[:, None]], dim=1)

    found = passes(method, feed, machine, look, 2 * classes + 2, rows, tick).numpy()
    logits, probs = found[:, :classes], found[:, classes : 2 * classes]
    of: dict[str, Callable[[], NDArray[np.float64]]] = {
        "abstain": lambda: found[:, -2].astype(np.float64),
        "softmax": lambda: selective.max_softmax(probs),
        "margin": lambda: selective.margin(probs),
        "entropy": lambda: selective.entropy(probs),
        "energy": lambda: selective.energy(logits),
        "dropout": lambda: found[:, -1].astype(np.float64),
    }
    return Scored(probs, {name: of[name]() for name in there})


def main_score(scores: Collection[str]) -> str:
    """The method's own score where it has learned one, else the softmax."""
    return "abstain" if "abstain" in scores else "softmax"


def scores_of(method: Method) -> list[str]:
    """Those that it has: its own only where it has learned when to abstain, for what others have is
    the softmax."""
    lacks = set() if type(method).abstain is not Method.abstain else {"abstain"}
    lacks |= set() if _can_drop(method) else {"dropout"}
    return [name for name in SCORES if name not in lacks]


def _can_drop(method: Method) -> bool:
    try:
        last_linear(method.net)
    except BadInput:
        return False
    return True


def _variance(method: Method, x: Tensor) -> Tensor:
    """METHODS.md 12.6: dropout on the features alone, whatever dropout the net has being off. The
    masks are the same for all samples, so that what is said of one depends on no other."""
    net: nn.Module = method.net
    _, features = with_features(net, x)
    head, features = last_linear(net), features.float()
    random = torch.Generator(features.device).manual_seed(key(0, "dropout"))
    total = squares = features.new_zeros(len(x), method.num_classes, dtype=torch.float64)
    with torch.autocast(x.device.type, enabled=False):
        for _ in range(PASSES):
            kept = torch.rand(features.shape[1:], generator=random, device=x.device) >= DROPOUT
            outputs = head(features * kept / (1 - DROPOUT))[:, : method.num_classes]
            probs = outputs.softmax(dim=1).double()
            total, squares = total + probs, squares + probs.square()
    mean = total / PASSES
    return (squares / PASSES - mean.square()).clamp(min=0).mean(dim=1).float()
