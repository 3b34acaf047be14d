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
    if plan.schedule == "linear":
        start = (plan.milestones or [0])[0]
        return plan.rate * min(1.0, (plan.epochs - epoch) / max(plan.epochs - start, 1))
    if plan.schedule == "restarts":
        return _cosine(plan, _share_of_cycle(plan, epoch))
    at = now if plan.schedule == "cosine_step" else epoch
    done = max(0.0, at - plan.warmup) / max(plan.epochs - plan.warmup, 1e-9)
    return _cosine(plan, done)


def _cosine(plan: Plan, done: float) -> float:
    return plan.lr_least + (plan.rate - plan.lr_least) * 0.5 * (1 + math.cos(math.pi * done))


def _share_of_cycle(plan: Plan, epoch: int) -> float:
    """How much of the time between two milestones, or the ends of the run, has passed."""
    ends = [0, *sorted(plan.milestones or ()), plan.epochs]
    begun = max(end for end in ends if end <= epoch)
    until = min((end for end in ends if end > epoch), default=plan.epochs)
    return (epoch - begun) / max(until - begun, 1)
