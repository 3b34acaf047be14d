"""Writing a run's state down, and taking it up again."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor

from selfadapt import distributed
from selfadapt.engine.checkpoint import (
    Checkpoint,
    latest_checkpoint,
    save_checkpoint,
    what_is_kept,
)
from selfadapt.engine.unreadable import share_unreadable
from selfadapt.engine.work import Progress, Work
from selfadapt.errors import BadInput, NonFiniteLoss
from selfadapt.methods import Method


def save(work: Work, progress: Progress) -> None:
    """Every process must call this at the same time; none goes on before all is on the disk."""
    share_unreadable(work, progress)
    check_weights(work, progress)
    distributed.on_first(lambda: save_checkpoint(work.run.checkpoints, _state(work, progress)))


def stop_if_asked(work: Work, progress: Progress) -> None:
    """Every process must call this at the same time: the signal may have reached one alone."""
    asked = torch.tensor([float(work.stop.asked > 0)], device=work.machine.device)
    if distributed.sum_over(asked).item():
        save(work, progress)
        raise work.stop.interrupted(work.run)


def check_weights(work: Work, progress: Progress) -> None:
    """A step whose loss was finite may still have thrown the weights out of all bounds."""
    for name, value in work.method.named_parameters():
        if not bool(torch.isfinite(value).all()):
            raise NonFiniteLoss(
                f"the weights {name} became NaN or infinite by epoch {progress.epoch}, step "
                f"{progress.step}. {what_is_kept(work.run.checkpoints)}. "
                "A smaller train.lr or train.clip=1 usually helps"
            )


def _state(work: Work, progress: Progress) -> Checkpoint:
    tensors = {f"method.{name}": value for name, value in work.method.state_dict().items()}
    if work.signals is not None:
        tensors |= {f"signals.{name}": value for name, value in work.signals.state_dict().items()}
    return Checkpoint(tensors, work.optimizer.state_dict(), asdict(progress))


def resume(work: Work) -> Progress:
    found = latest_checkpoint(work.run.checkpoints)
    progress = Progress() if found is None else Progress(**found.progress)
    if found is not None:
        restore(work.method, found)
        if work.signals is not None:
            work.signals.load_state_dict(_below("signals.", found.tensors))
        if found.optimizer is not None:
            work.optimizer.load_state_dict(found.optimizer)
    distributed.on_first(lambda: work.run.cut_log(progress.epoch))
    return progress


def restore(method: Method, checkpoint: Checkpoint) -> None:
    try:
        method.load_state_dict(_below("method.", checkpoint.tensors))
    except RuntimeError as error:
        raise BadInput(f"the net is not the one that was saved: {error}") from None


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
