"""One optimiser step, over all its parts and processes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor

from selfadapt import distributed
from selfadapt.batch import Batch, StepLoss
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.engine.checkpoint import what_is_kept
from selfadapt.engine.work import Progress, Rows, Work
from selfadapt.errors import BadInput, NonFiniteLoss
from selfadapt.methods import Method
from selfadapt.randomness import key


def cut(rows: Rows, accumulate: int) -> list[Rows]:
    """A step's rows in the parts it is computed in; every process must find a row in each part."""
    return np.array_split(rows, max(1, min(accumulate, len(rows) // distributed.processes())))


def train_step(
    work: Work,
    progress: Progress,
    parts: list[Rows],
    inputs: Iterator[tuple[Rows, tuple[Tensor, ...]]],
    due: bool,
) -> tuple[bool, bool]:
    """One optimiser step. Gradients of Σ w·v are gathered over all parts and processes, and only
    then divided by Σ w: a mean of the parts' means would be another gradient. Returns whether to
    stop, and whether to save, as all processes agreed."""
    work.optimizer.zero_grad(set_to_none=True)
    size = sum(len(part) for part in parts)
    sums = torch.zeros(6, device=work.machine.device)
    found, computed = 0, True
    for number in range(len(parts)):
        read, last = next(inputs), number == len(parts) - 1
        found += len(read[0])
        computed = not _lost(work, parts[number], read[0])
        if computed:
            place = (progress.epoch, progress.step, number, distributed.rank())
            work.machine.seed(key(work.seed, "step", *place))
            sums += _backward(work, progress, read, size, last)
    if not computed:  # the last part, in which the wrapper would have averaged the gradients
        distributed.average_gradients(work.method.parameters())
    flags = torch.tensor([found, work.stop.asked, due], dtype=sums.dtype, device=sums.device)
    agreed = distributed.sum_over(torch.cat([sums, flags])).tolist()
    total, weight, visited, guessed, right, truly_right, found, stop, save = agreed
    if not found:
        raise _nothing_to_read(work, parts)
    if not np.isfinite(total):
        raise _non_finite(work, progress, parts)
    _apply(work, scale=distributed.processes() * size / weight if weight else 0.0)
    progress.total += total
    progress.weight += weight
    progress.visited += int(visited)
    progress.samples += int(visited)
    progress.guessed += int(guessed)
    progress.right += int(right)
    progress.truly_right += int(truly_right)
    return stop > 0, save > 0


def _lost(work: Work, part: Rows, read: Rows) -> bool:
    """Whether some process could read none of its rows of this part. Then none computes it, for a
    backward pass needs them all; the others' rows come again in the next epoch."""
    lost = len(read) == 0 < len(distributed.my_part(torch.from_numpy(part)))
    if distributed.processes() == 1 or isinstance(work.parts.train.inputs, InMemory):
        return lost
    flag = torch.tensor([float(lost)], device=work.machine.device)
    return distributed.sum_over(flag).item() > 0


def check_smallest_part(method: Method, feed: Feed, accumulate: int) -> None:
    """Batch norm cannot train on a single row of features. Found here, all processes know it, and
    nothing has been begun."""
    cuts = [cut(rows, accumulate) for rows in feed.batches(0)]
    if min(len(part) // distributed.processes() for step in cuts for part in step) > 1:
        return
    net = copy.deepcopy(method.net).train()
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _enough_rows():
        net(torch.zeros(1, *feed.inputs.shape))


@contextmanager
def _enough_rows() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise BadInput(
            "the net has batch norm, which cannot train on a single row at a time, and some part "
            "of a step is that small on a process: take a larger train.batch, or a smaller "
            "train.accumulate"
        ) from error


def _backward(
    work: Work, progress: Progress, read: tuple[Rows, tuple[Tensor, ...]], size: int, last: bool
) -> Tensor:
    """One part of a step: [Σ w·v, Σ w, samples, with logits, right, truly right] of this
    process."""
    rows = torch.from_numpy(read[0]).to(work.machine.device)
    x, *more = read[1]
    batch = Batch(rows, x, work.labels[rows], tuple(more))
    synced = last or distributed.processes() == 1
    with nullcontext() if synced else work.wrapped.no_sync():  # type: ignore[operator]
        with work.machine.autocast(), _enough_rows():
            out: StepLoss = work.wrapped(batch, progress.epoch)
        loss = (out.weights * out.values).sum()
        torch.autograd.backward(loss / size)
    guessed = right = truly_right = loss.new_zeros(())
    if out.logits is not None:
        guessed = loss.new_tensor(len(rows))
        guess = out.logits.argmax(dim=1)
        right = (guess == batch.y).sum()
        if work.true_labels is not None:
            truly_right = (guess == work.true_labels[rows]).sum()
        if work.signals is not None:
            work.signals.record(rows, out.logits)
    count = loss.new_tensor(len(rows))
    rights = [guessed, right.to(count), truly_right.to(count)]
    return torch.stack([loss.detach(), out.weights.sum(), count, *rights])


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


def _nothing_to_read(work: Work, parts: list[Rows]) -> BadInput:
    reasons = work.parts.train.unreadable
    first = next((reasons[row] for row in np.concatenate(parts).tolist() if row in reasons), "?")
    count = sum(len(part) for part in parts)
    return BadInput(f"none of the {count} files of a batch can be read; the first: {first}")


def _non_finite(work: Work, progress: Progress, parts: list[Rows]) -> NonFiniteLoss:
    rows = np.concatenate(parts)
    named = ", ".join(map(str, rows[:8])) + (", …" if len(rows) > 8 else "")
    return NonFiniteLoss(
        f"the loss became NaN or infinite in epoch {progress.epoch}, step {progress.step} "
        f"(training rows {named}). {what_is_kept(work.run.checkpoints)}. "
        "A smaller train.lr, train.clip=1 or train.precision=fp32 usually helps; "
        "look at those rows' inputs too"
    )
