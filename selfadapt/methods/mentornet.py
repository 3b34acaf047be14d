from __future__ import annotations

import torch
from torch import Tensor

from selfadapt import distributed, losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.errors import BadInput
from selfadapt.methods.method import MakeNet, Method
from selfadapt.randomness import per_row

_SELF_PACED, _SOFT = 18, 90  # hundredths of the run after which the curriculum changes
_DROPS = ((17, 0.5), (100, 0.05))  # until which hundredth, and the share that is left out


class MentorNet(Method):
    """MentorNet's predefined curriculum: first all samples, then those of small loss.

    m <- d·m + (1-d)·q with q the `percentile` of the batch's losses l; by hundredths h of the run:
    v = 1 for h <= 18, v = 1[l <= m] for h < 90, else v = clip(1 - (l - m) / γ, 0, 1), γ = 1.
    loss = Σ v·l / B, with a share of samples left out at random (half, then 5 %).
    Jiang et al., ICML 2018 (arXiv 1712.05055); authors' code google/mentornet, which fits a small
    net to this rule and uses the net; here the rule itself is used, and its data-driven variant,
    which needs clean labels, is not.

    percentile: of the losses, as a fraction: samples above it wait.
    decay: d, what the running percentile keeps of itself.
    """

    level: Tensor
    seen: Tensor

    def __init__(
        self,
        make_net: MakeNet,
        labels: Tensor,
        num_classes: int,
        *,
        percentile: float = 0.75,
        decay: float = 0.5,
    ) -> None:
        super().__init__(make_net, labels, num_classes)
        if not (0 < percentile <= 1 and 0 <= decay < 1):
            raise BadInput(
                f"method.percentile must lie in (0, 1], method.decay in [0, 1); got {percentile} "
                f"and {decay}"
            )
        self.percentile, self.decay = percentile, decay
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def hundredth(self) -> int:
        done = int(self.seen) / (self.epochs * self.steps)
        return min(99, int(100 * done))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        logits = self.net(batch.x)
        values = losses.cross_entropy(logits, batch.y)
        rows, everything = distributed.gather_rows(batch.rows, values.detach())
        weights = self.curriculum(values.detach(), everything)
        weights = weights * self._stay(batch.rows, rows, epoch)
        return StepLoss(weights * values, torch.ones_like(values), logits.detach())

    def curriculum(self, values: Tensor, everything: Tensor) -> Tensor:
        now = torch.quantile(everything, self.percentile)
        self.level.mul_(self.decay).add_((1 - self.decay) * now)
        hundredth, above = self.hundredth(), values - self.level
        if hundredth <= _SELF_PACED:
            return torch.ones_like(values)
        return (above <= 0).to(values.dtype) if hundredth < _SOFT else (1 - above).clamp(0, 1)

    def _stay(self, mine: Tensor, rows: Tensor, epoch: int) -> Tensor:
        """Exactly int(B·(1 - share)) samples of the global batch stay, alike on every process."""
        share = next(share for until, share in _DROPS if self.hundredth() < until)
        keep = int(len(rows) * (1 - share))
        draws = torch.from_numpy(per_row(rows.cpu().numpy(), 1, "mentornet", epoch)[:, 0])
        stay = rows[draws.argsort(stable=True)[:keep].to(rows.device)]
        return torch.isin(mine, stay).float()

    def after_step(self) -> None:
        self.seen += 1
