"""One optimiser step, over all its parts and processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from selfadapt import distributed
from selfadapt.batch import Batch, StepLoss
from selfadapt.engine.checkpoint import what_is_kept
from selfadapt.engine.work import Progress, Rows, Work
from selfadapt.errors import NonFiniteLoss
from selfadapt.randomness import key


def cut(rows: Rows, accumulate: int) -> list[Rows]:
    """A step's rows in the parts it is computed in; every process must find a row in each part."""
    return np.array_split(rows, max(1, min(accumulate, len(rows) // distributed.processes())))


def train_step(
    work: Work,
    progress: Progress,
    parts: list[Rows],
    inputs: Iterator[tuple[Rows, Tensor]],
    due: bool,
) -> tuple[bool, bool]:
    """One optimiser step. Gradients of Σ w·v are gathered over all parts and processes, and only
    then divided by Σ w: a mean of the parts' means would be another gradient. Returns whether to
    stop, and whether to save, as all processes agreed."""
    work.optimizer.zero_grad(set_to_none=True)
    size = sum(len(part) for part in parts)
    sums = torch.zeros(5, device=work.machine.device)
    for number in range(len(parts)):
        last = number == len(parts) - 1
        _seed(
            work.machine.device,
            key(work.seed, "step", progress.epoch, progress.step, number, distributed.rank()),
        )
        sums += _backward(work, progress, next(inputs), size, last)
    flags = torch.tensor([float(work.stop.asked), float(due)], device=sums.device)
    total, weight, visited, right, truly_right, stop, save = distributed.sum_over(
        torch.cat([sums, flags])
    ).tolist()
    if not np.isfinite(total):
        raise _non_finite(work, progress, parts)
    _apply(work, scale=distributed.processes() * size / weight if weight else 0.0)
    progress.total += total
    progress.weight += weight
    progress.visited += int(visited)
    progress.samples += int(visited)
    progress.right += int(right)
    progress.truly_right += int(truly_right)
    return stop > 0, save > 0


def _seed(device: torch.device, seed: int) -> None:
    """As torch.manual_seed, which takes a millisecond over devices that are not in use."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def _backward(
    work: Work, progress: Progress, read: tuple[Rows, Tensor], size: int, last: bool
) -> Tensor:
    """One part of a step: [Σ w·v, Σ w, samples, right, truly right] of this process."""
    rows = torch.from_numpy(read[0]).to(work.machine.device)
    batch = Batch(rows, read[1], work.labels[rows])
    synced = last or distributed.processes() == 1
    with nullcontext() if synced else work.wrapped.no_sync():  # type: ignore[operator]
        with work.machine.autocast():
            out: StepLoss = work.wrapped(batch, progress.epoch)
        loss = (out.weights * out.values).sum()
        torch.autograd.backward(loss / size)
    right = truly_right = loss.new_zeros(())
    if out.logits is not None:
        guess = out.logits.argmax(dim=1)
        right = (guess == batch.y).sum()
        if work.true_labels is not None:
            truly_right = (guess == work.true_labels[rows]).sum()
        if work.signals is not None:
            work.signals.record(rows, out.logits)
    count = loss.new_tensor(len(rows))
    return torch.stack(
        [loss.detach(), out.weights.sum(), count, right.to(count), truly_right.to(count)]
    )


def _apply(work: Work, scale: float) -> None:
    parameters = [p for group in work.optimizer.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    if scale != 1.0 and gradients:
        torch._foreach_mul_(gradients, scale)
    if work.plan.clip is not None:
        torch.nn.utils.clip_grad_norm_(parameters, work.plan.clip)
    work.optimizer.step()
    work.method.after_step()
    distributed.average_batchnorm(work.method)


def _non_finite(work: Work, progress: Progress, parts: list[Rows]) -> NonFiniteLoss:
    rows = np.concatenate(parts)
    named = ", ".join(map(str, rows[:8])) + (", …" if len(rows) > 8 else "")
    return NonFiniteLoss(
        f"the loss became NaN or infinite in epoch {progress.epoch}, step {progress.step} "
        f"(training rows {named}). {what_is_kept(work.run.checkpoints)}. "
        "A smaller train.lr, train.clip=1 or train.precision=fp32 usually helps; "
        "look at those rows' inputs too"
    )
