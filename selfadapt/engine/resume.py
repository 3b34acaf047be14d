"""Writing a run's state down, and taking it up again."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor

from selfadapt import distributed
from selfadapt.data import check_quarantine
from selfadapt.engine.checkpoint import Checkpoint, latest_checkpoint, save_checkpoint
from selfadapt.engine.work import Progress, Work
from selfadapt.errors import NonFiniteLoss
from selfadapt.methods import Method


def save(work: Work, progress: Progress) -> None:
    unreadable = work.parts.train.unreadable
    bad = {**{int(row): why for row, why in progress.unreadable.items()}, **unreadable}
    check_quarantine(bad, len(work.parts.labels), work.parts.ids)
    progress.unreadable = {str(row): why for row, why in bad.items()}
    if not distributed.is_first():
        return
    tensors = {f"method.{name}": value for name, value in work.method.state_dict().items()}
    if work.signals is not None:
        tensors |= {f"signals.{name}": value for name, value in work.signals.state_dict().items()}
    for name, value in work.method.named_parameters():
        if not bool(torch.isfinite(value).all()):
            raise NonFiniteLoss(
                f"the weights {name} became NaN or infinite by epoch {progress.epoch}, step "
                f"{progress.step}. The last good checkpoint is kept in {work.run.path}. "
                "A smaller train.lr or train.clip=1 usually helps"
            )
    optimizer = work.optimizer.state_dict()
    save_checkpoint(work.run.checkpoints, Checkpoint(tensors, optimizer, asdict(progress)))


def resume(work: Work) -> Progress:
    found = latest_checkpoint(work.run.checkpoints)
    progress = Progress() if found is None else Progress(**found.progress)
    if found is not None:
        restore(work.method, found)
        if work.signals is not None:
            work.signals.load_state_dict(_below("signals.", found.tensors))
        if found.optimizer is not None:
            work.optimizer.load_state_dict(found.optimizer)
    if distributed.is_first():
        work.run.cut_log(progress.epoch)
    return progress


def restore(method: Method, checkpoint: Checkpoint) -> None:
    method.load_state_dict(_below("method.", checkpoint.tensors))


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
