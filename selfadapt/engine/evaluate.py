"""Passes in evaluation mode: predictions by row, in the order asked, shared out over processes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfadapt import distributed
from selfadapt.data.feed import Feed
from selfadapt.engine.machine import Machine
from selfadapt.methods import Method

Tick = Callable[[int, int], None]


@torch.no_grad()
def passes(
    method: Method,
    feed: Feed,
    machine: Machine,
    look: Callable[[Tensor], Tensor],
    width: int,
    rows: NDArray[np.int64] | None = None,
    tick: Tick | None = None,
) -> Tensor:
    """[len(rows), width] what `look` says of the inputs as they are, on the CPU of every process;
    NaN for those that cannot be read."""
    rows = feed.rows if rows is None else rows
    mine = distributed.my_part(torch.arange(len(rows)))
    was_training = method.training
    method.eval()
    found, done = [torch.empty(0, width, device=machine.device)], 0
    for part, x in feed.plain_parts(rows[mine.numpy()]):
        with machine.autocast():
            found.append(look(x).float())
        found[-1][torch.from_numpy(np.isin(part, list(feed.unreadable)))] = torch.nan
        done += len(part)
        if tick is not None:
            tick(done, len(mine))
    method.train(was_training)
    _, everything = distributed.gather_rows(mine.to(machine.device), torch.cat(found))
    return everything.cpu()


def probabilities(
    method: Method,
    feed: Feed,
    machine: Machine,
    rows: NDArray[np.int64] | None = None,
    tick: Tick | None = None,
) -> Tensor:
    """[len(rows), C] predictions."""
    return passes(method, feed, machine, method.predict, method.num_classes, rows, tick)


def accuracy(probs: Tensor, labels: NDArray[np.int64]) -> float | None:
    """The share predicted right of those that could be read."""
    right = probs.argmax(dim=1).numpy() == labels
    known = ~probs.isnan().any(dim=1).numpy()
    return float(right[known].mean()) if known.any() else None
