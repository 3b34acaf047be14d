"""A pass in evaluation mode over samples that train, as they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from selfadapt import distributed
from selfadapt.methods.method import Feed, Rows

_AT_ONCE = 512


@torch.no_grad()
def over_training(
    nets: nn.Module,
    feed: Feed,
    look: Callable[[Tensor, Tensor], Tensor],
    among: Rows | None = None,
) -> tuple[Tensor, Tensor]:
    """The rows that train and can be read, or those `among` them, and what `look(inputs, rows)`
    says of each, on every process; each process looks at its part. `nets` are in evaluation mode
    meanwhile."""
    rows_of_all = feed.rows if among is None else among
    mine = distributed.my_part(torch.from_numpy(rows_of_all)).numpy()
    parts = np.split(mine, range(_AT_ONCE, len(mine), _AT_ONCE))
    was_training = nets.training
    nets.eval()
    rows, found = [], []
    for part in parts:
        x = feed.plain(part)
        readable = ~np.isin(part, list(feed.unreadable))
        rows.append(torch.from_numpy(part[readable]).to(x.device))
        found.append(look(x[torch.from_numpy(readable).to(x.device)], rows[-1]))
    nets.train(was_training)
    return distributed.gather_rows(torch.cat(rows), torch.cat(found))
