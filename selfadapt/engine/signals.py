"""What one training run reveals about each sample at no extra cost: the predictions averaged over
epochs, the margin of the label given, and how often it was learnt and forgotten again."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfadapt import distributed
from selfadapt.losses import full_precision

LARGEST_BYTES = 2 << 30


class Signals(nn.Module):
    """Sums over all visits of a row during training, the same on every process."""

    probs: Tensor
    margin: Tensor
    visits: Tensor
    forgotten: Tensor
    was_right: Tensor

    def __init__(self, labels: Tensor, num_classes: int) -> None:
        super().__init__()
        n = len(labels)
        self.register_buffer("labels", labels.clone(), persistent=False)
        self.register_buffer("probs", torch.zeros(n, num_classes))
        self.register_buffer("margin", torch.zeros(n))
        self.register_buffer("visits", torch.zeros(n, dtype=torch.int32))
        self.register_buffer("forgotten", torch.zeros(n, dtype=torch.int32))
        self.register_buffer("was_right", torch.zeros(n, dtype=torch.bool))

    @staticmethod
    def fit_in_memory(samples: int, num_classes: int) -> bool:
        return samples * num_classes * 4 < LARGEST_BYTES

    @torch.no_grad()
    def record(self, rows: Tensor, logits: Tensor) -> None:
        rows, logits = distributed.gather_rows(rows, full_precision(logits))
        given = self.labels[rows][:, None]  # type: ignore[index]
        label_logit = logits.gather(1, given)[:, 0]
        others = logits.scatter(1, given, float("-inf")).amax(dim=1)
        right = label_logit > others
        self.probs.index_add_(0, rows, logits.softmax(dim=1))
        self.margin.index_add_(0, rows, label_logit - others)
        self.visits.index_add_(0, rows, torch.ones_like(rows, dtype=torch.int32))
        self.forgotten.index_add_(0, rows, (self.was_right[rows] & ~right).to(torch.int32))
        self.was_right[rows] = right

    def averages(self) -> dict[str, Tensor]:
        """mean_probs [N, C], mean_margin [N] (logit of the label given minus the best other),
        visits [N], forgotten [N]."""
        visits = self.visits.clamp(min=1)
        return {
            "mean_probs": (self.probs / visits[:, None]).contiguous(),
            "mean_margin": self.margin / visits,
            "visits": self.visits,
            "forgotten": self.forgotten,
        }
