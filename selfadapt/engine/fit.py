"""The training loop. It can be read from top to bottom: resume, then for each epoch its steps, what
it measured, and a checkpoint; a checkpoint within an epoch when it is time or somebody asks to
stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch

from selfadapt import distributed
from selfadapt.engine.machine import Machine
from selfadapt.engine.measure import measure
from selfadapt.engine.plan import Plan
from selfadapt.engine.resume import check_weights, resume, save
from selfadapt.engine.schedule import learning_rate
from selfadapt.engine.signals import Signals
from selfadapt.engine.step import cut, train_step
from selfadapt.engine.stop import Stop, stop_when_asked
from selfadapt.engine.trackers import Trackers
from selfadapt.engine.work import Parts, Progress, Show, Work
from selfadapt.methods import Method
from selfadapt.randomness import key
from selfadapt.rundir import RunDir


class Outcome(NamedTuple):
    progress: Progress
    signals: Signals | None


def fit(
    method: Method,
    parts: Parts,
    plan: Plan,
    run: RunDir,
    machine: Machine,
    *,
    seed: int = 0,
    show: Show | None = None,
) -> Outcome:
    """Train `method` to the end of `plan`, from wherever `run` stands."""
    with stop_when_asked() as stop, Trackers(plan.trackers, run) as trackers:
        work = _prepare(method, parts, plan, run, machine, seed, show or (lambda _: None), stop)
        progress = resume(work)
        saved_at = time.monotonic()
        while progress.epoch < plan.epochs:
            saved_at = _train_epoch(work, progress, saved_at)
            check_weights(work, progress)
            line = measure(work, progress)
            distributed.on_first(partial(_note_down, run, trackers, line))
            work.show({"line": line, "epochs": plan.epochs})
            progress.next_epoch()
            last = progress.epoch == plan.epochs
            due = last or time.monotonic() - saved_at >= plan.save_seconds
            if distributed.from_first(due):
                save(work, progress)
                saved_at = time.monotonic()
    distributed.wait_for_everyone()
    return Outcome(progress, work.signals)


def _note_down(run: RunDir, trackers: Trackers, line: dict[str, Any]) -> None:
    run.append_log(line)
    trackers.log(line)


def _prepare(
    method: Method,
    parts: Parts,
    plan: Plan,
    run: RunDir,
    machine: Machine,
    seed: int,
    show: Show,
    stop: Stop,
) -> Work:
    # channels-last is what uint8 images arrive in, and what bf16 convolutions are fast in
    method.to(machine.device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    method.epochs = plan.epochs
    machine.seed(key(seed, "batches", 0))
    method.steps = len(method.batches(0, parts.train))
    labels = torch.tensor(parts.labels).to(machine.device)
    true = parts.true_labels
    signals = None
    if Signals.fit_in_memory(len(labels), method.num_classes):
        signals = Signals(labels, method.num_classes).to(machine.device)
    return Work(
        method=method,
        wrapped=machine.wrap(method),
        optimizer=optimizer_of(method, plan),
        signals=signals,
        parts=parts,
        labels=labels,
        true_labels=None if true is None else torch.tensor(true).to(machine.device),
        plan=plan,
        run=run,
        machine=machine,
        seed=seed,
        show=show,
        stop=stop,
    )


def optimizer_of(method: Method, plan: Plan) -> torch.optim.Optimizer:
    groups = method.param_groups()
    if plan.optimizer == "adam":
        return torch.optim.Adam(groups, lr=plan.rate, weight_decay=plan.weight_decay)
    return torch.optim.SGD(
        groups,
        lr=plan.rate,
        momentum=plan.momentum,
        weight_decay=plan.weight_decay,
        nesterov=plan.nesterov,
    )


def _train_epoch(work: Work, progress: Progress, saved_at: float) -> float:
    """The epoch's remaining steps. Returns when the last checkpoint was written."""
    method, plan, feed, epoch = work.method, work.plan, work.parts.train, progress.epoch
    if progress.ended:
        return saved_at
    # whatever it draws must not depend on where a run was taken up again
    if progress.step == 0:
        work.machine.seed(key(work.seed, "epoch start", epoch))
        with _counted(progress):
            method.start_epoch(epoch, feed)
    work.machine.seed(key(work.seed, "batches", epoch))
    batches = method.batches(epoch, feed)
    todo = [cut(rows, plan.accumulate) for rows in batches[progress.step :]]
    mine = [distributed.my_part(torch.from_numpy(part)).numpy() for step in todo for part in step]
    inputs = iter(feed.augmented(mine, epoch, method.views))
    for parts in todo:
        started = time.perf_counter()
        rate = learning_rate(plan, epoch, progress.step, len(batches))
        for group in work.optimizer.param_groups:
            group["lr"] = group.get("lr_fixed", rate * group.get("lr_scale", 1.0))
        due = 0 < plan.save_seconds <= time.monotonic() - saved_at
        stop, due = train_step(work, progress, parts, inputs, due)
        progress.step += 1
        progress.seconds += time.perf_counter() - started
        work.show(
            {"epoch": epoch, "step": progress.step, "steps": len(batches), "epochs": plan.epochs}
        )
        if stop or due:
            save(work, progress)
            saved_at = time.monotonic()
        if stop:
            raise work.stop.interrupted(work.run)
    work.machine.seed(key(work.seed, "epoch end", epoch))
    with _counted(progress):
        method.end_epoch(epoch, feed)
    progress.ended = True
    return saved_at


@contextmanager
def _counted(progress: Progress) -> Iterator[None]:
    """A method's own passes over the data are part of what it costs."""
    started = time.perf_counter()
    yield
    progress.seconds += time.perf_counter() - started
