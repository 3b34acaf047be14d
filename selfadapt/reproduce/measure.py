"""What a method and a net cost on this machine: two real training steps, and a look at what they
keep in memory, on random samples of the true shape. Few are enough, for the rest is a product."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from selfadapt.batch import Batch
from selfadapt.data import InMemory, Rows
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import Augment
from selfadapt.data.sources import Size
from selfadapt.engine.fit import optimizer_of
from selfadapt.engine.machine import this_machine
from selfadapt.experiment.assembly import Experiment, build_method
from selfadapt.methods import Method

_FEW = 4
_GROWTH = 4
_QUICK_SECONDS = 0.25
_LARGEST_BYTES = 1 << 30
_ENOUGH_SECONDS, _MOST_TIMES = 0.5, 8


@dataclass(frozen=True)
class Cost:
    """Seconds and bytes, most of them of one sample."""

    step: float  # forward, backward and the optimiser's part
    predict: float  # in evaluation mode
    own: float  # the method's own passes, before and after each epoch
    more: float  # rows a method trains on in an epoch, over the number of samples
    activations: float
    table: float  # what is remembered of each sample
    fixed: float  # weights, their gradients, what the optimiser remembers of them


def measure(experiment: Experiment, size: Size, part: int) -> Cost:
    """`part` is how many rows are computed at once. Begins with few of them and goes on to more, up
    to that number, for as long as that is quick."""
    experiment = replace(experiment, plan=replace(experiment.plan, compile=False))
    inputs = 5 * float(np.prod(size.shape))
    rows = min(_FEW, part)
    with torch.random.fork_rng(devices=[]):
        while True:
            found = _Trial(experiment, size, rows).cost()
            larger = min(part, _GROWTH * rows)
            small = (found.activations + inputs) * larger < _LARGEST_BYTES
            if rows == part or found.step * rows > _QUICK_SECONDS or not small:
                return found
            rows = larger


class _Trial:
    """A method with its optimiser, before as many random samples as make a few batches. It stands
    at the last epoch, by when it does all that it ever does."""

    def __init__(self, experiment: Experiment, size: Size, batch: int) -> None:
        self.plan = experiment.plan
        self.machine = this_machine(self.plan.precision)
        self.batch = batch
        self.epoch = self.plan.epochs - 1
        self.samples = next(_primes(5 * batch))
        self.labels, self.method = _method(experiment, size, self.samples)
        if self.samples in {side for p in self.method.net.parameters() for side in p.shape}:
            self.samples = next(_primes(self.samples + 1))
            self.labels, self.method = _method(experiment, size, self.samples)
        device = self.machine.device
        self.labels = self.labels.to(device)
        self.method.to(device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.optimizer = optimizer_of(self.method, self.plan)
        self.feed = _feed(experiment, size, self.samples, batch, device)

    def cost(self) -> Cost:
        method, feed = self.method, self.feed
        own = self._least_seconds(self._own_passes)
        batches = [rows for rows in method.batches(self.epoch, feed) if len(rows) > 1]
        rows = max(batches or feed.batches(self.epoch), key=len)
        few = rows[: max(2, len(rows) // 2)]
        kept, of_few = _Kept(method), _Kept(method)
        self._step(few, of_few)  # what is only done for the first time is done here
        step = self._least_seconds(lambda: self._step(rows, kept))
        kept_each = (kept.bytes - of_few.bytes) / max(1, len(rows) - len(few))
        table, fixed = self._state()
        return Cost(
            step=step / len(rows),
            predict=self._predict() / self.batch,
            own=own / self.samples,
            # a net that has learnt nothing may leave out almost all
            more=max(1.0, sum(map(len, batches)) / self.samples),
            activations=kept_each if len(rows) > len(few) else kept.bytes / len(rows),
            table=table,
            fixed=fixed,
        )

    def _own_passes(self) -> None:
        self.method.start_epoch(self.epoch, self.feed)
        self.method.end_epoch(self.epoch, self.feed)

    def _step(self, rows: Rows, kept: _Kept) -> None:
        [(_, (x, *views))] = self.feed.augmented([rows], self.epoch, self.method.views)
        here = torch.from_numpy(rows).to(self.machine.device)
        batch = Batch(here, x, self.labels[here], tuple(views))
        self.optimizer.zero_grad(set_to_none=True)
        with self.machine.autocast(), kept.watched():
            out = self.method(batch, self.epoch)
        ((out.weights * out.values).sum() / len(rows)).backward()
        self.optimizer.step()
        self.method.after_step()

    @torch.no_grad()
    def _predict(self) -> float:
        self.method.eval()
        x = self.feed.plain(self.feed.rows[: self.batch])

        def predict() -> None:
            with self.machine.autocast():
                self.method.predict(x)

        return self._least_seconds(predict)

    def _least_seconds(self, work: Callable[[], None]) -> float:
        """Others may use the machine too: what is quick is done some more times, and on a CPU the
        time counts that this process had it."""
        on_gpu = self.machine.device.type == "cuda"
        clock = time.perf_counter if on_gpu else time.thread_time
        found: list[float] = []
        end = time.perf_counter() + _ENOUGH_SECONDS
        while not found or (time.perf_counter() < end and len(found) < _MOST_TIMES):
            started = clock()
            work()
            if on_gpu:
                torch.cuda.synchronize()
            found.append(clock() - started)
        return min(found)

    def _state(self) -> tuple[float, float]:
        """Bytes for each sample, and of everything else."""
        tensors = list(self.method.state_dict().values())
        tensors += [p.grad for p in self.method.parameters() if p.grad is not None]
        for state in self.optimizer.state.values():
            tensors += [value for value in state.values() if isinstance(value, Tensor)]
        tables = [tensor.nbytes for tensor in tensors if self.samples in tensor.shape]
        return sum(tables) / self.samples, sum(t.nbytes for t in tensors) - sum(tables)


def _primes(least: int) -> Iterator[int]:
    """Numbers of samples by which a table is told from weights: nets do not come in primes, and if
    one does, there is the next."""
    number = max(least, 23)
    while True:
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
        number += 1


def _method(experiment: Experiment, size: Size, samples: int) -> tuple[Tensor, Method]:
    labels = np.random.default_rng(0).integers(0, size.classes, samples)
    statistics = {"mean": [0.5], "std": [0.25]}
    method = build_method(experiment, labels, size.classes, size.shape, statistics)
    method.epochs = experiment.plan.epochs
    method.steps = max(1, size.train // experiment.plan.batch)
    if method.needs_true_labels:
        method.take_true_labels(torch.from_numpy(labels))
    return torch.from_numpy(labels), method


def _feed(
    experiment: Experiment, size: Size, samples: int, batch: int, device: torch.device
) -> Feed:
    if len(size.shape) == 3:
        channels, *sides = size.shape
        x = torch.randint(0, 256, (samples, *sides, channels), dtype=torch.uint8)
    else:
        x = torch.randn(samples, *size.shape)
    asked = experiment.settings["data"]["augment"]
    augment = cast(Augment, "crop_flip" if asked == "auto" else asked)
    return Feed(InMemory(x), np.arange(samples), batch=batch, augment=augment, device=device)


class _Kept:
    """Counts the bytes that a forward pass keeps for its backward pass."""

    def __init__(self, method: Method) -> None:
        self.seen = {p.untyped_storage().data_ptr() for p in method.parameters()}
        self.bytes = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        if self.bytes:  # seen already
            yield
            return

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self.seen:
                self.seen.add(storage.data_ptr())
                self.bytes += storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
