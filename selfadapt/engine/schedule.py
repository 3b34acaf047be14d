"""The learning rate as a pure function of epoch and step, so that resuming needs no state."""

from __future__ import annotations

import math

from selfadapt.engine.plan import Plan

_WARMUP_FROM = 1e-3


def learning_rate(plan: Plan, epoch: int, step: int, steps: int) -> float:
    """The rate of one step; `epoch` and `step` count from 0, `steps` is an epoch's number."""
    now = epoch + step / steps
    if now < plan.warmup:
        return plan.rate * (_WARMUP_FROM + (1 - _WARMUP_FROM) * now / plan.warmup)
    if plan.schedule == "constant":
        return plan.rate
    if plan.schedule == "milestones":
        passed = sum(epoch >= milestone for milestone in plan.milestones or ())
        return plan.rate * plan.gamma**passed
    at = now if plan.schedule == "cosine_step" else epoch
    done = max(0.0, at - plan.warmup) / max(plan.epochs - plan.warmup, 1e-9)
    return 0.5 * plan.rate * (1 + math.cos(math.pi * done))
