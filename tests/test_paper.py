"""Paper scale, proved up to the hardware: each method on each net, in the first and the last epoch
of its run, on a handful of random images of the true shape.

Nothing but the data is smaller: net, optimiser, schedule and settings are those of the recipes, and
`selfadapt.fit` carries them out, stage by stage, to result.json. What is between the two epochs is
left out. A net that no recipe has with a method is tried with the method's settings of the main
table. `make test-paper` runs all pairs and writes them down; of each method the cheapest one is run
with the slow tests."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pytest
import reference
import torch
from shipped import SELECTIVE, described, plan_of

import selfadapt
from selfadapt import methods, nets, study
from selfadapt.data import InMemory, LabelledData
from selfadapt.engine import fit as engine
from selfadapt.engine.machine import hardware
from selfadapt.engine.plan import Plan
from selfadapt.engine.work import Progress, Work
from selfadapt.experiment.record import commit
from selfadapt.methods import dac

SETS = {  # side, classes
    "cifar10": (32, 10),
    "cifar100": (32, 100),
    "svhn": (32, 10),
    "dogs-vs-cats": (64, 2),
    "imagenet": (224, 1000),
}
# from the cheapest, by arithmetic per image
NETS = {
    **dict.fromkeys(("vgg16_bn", "preact_resnet18", "resnet18", "resnet34"), "cifar10"),
    **dict.fromkeys(("wrn28_10", "wrn34_10"), "cifar10"),
    "resnet50": "imagenet",
}
SMALL = ("mlp", "small_cnn")  # the nets of two cores, which are run there as they are
IMAGES = 4  # of which one is held out, where the recipe holds some out


class Pair(NamedTuple):
    method: str
    net: str
    data: str


@functools.cache
def asked() -> dict[Pair, dict[str, Any]]:
    """What the recipes ask for, with the settings of one cell: of the main table if it has one; on
    CIFAR-10 of a method's own schedule, on CIFAR-100 of the shared one; of the largest width."""
    found: dict[Pair, dict[str, Any]] = {}
    for name in sorted(study.names(), key=lambda name: name == "cifar-noise"):
        for one in described(name, "paper"):
            if one["net.name"] in SMALL:
                continue
            pair = Pair(one["method.name"], one["net.name"], one["data.name"])
            preferred = "own" if pair.data == "cifar10" else "equal"
            if pair not in found or one.get("protocol", "both") in (preferred, "both"):
                found[pair] = one
    return found


@functools.cache
def pairs() -> dict[Pair, dict[str, Any]]:
    """Those, and the others of every method with every net."""
    found, known = dict(asked()), {(pair.method, pair.net) for pair in asked()}
    for method, (net, data) in itertools.product(methods.names(), NETS.items()):
        if (method, net) not in known:
            of_table = "vgg16_bn" if method in SELECTIVE else "resnet34"
            main = asked()[Pair(method, of_table, "cifar10")]
            found[Pair(method, net, data)] = main | {"net.name": net}
    return found


def cheapest() -> list[Pair]:
    order = [*NETS]
    of = {method: [p for p in pairs() if p.method == method] for method in methods.names()}
    return [min(found, key=lambda p: (order.index(p.net), p.data)) for found in of.values()]


def images(pair: Pair) -> LabelledData:
    side, classes = SETS[pair.data]
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (IMAGES, side, side, 3), dtype=np.uint8)
    given, true = np.arange(IMAGES) % 2, np.arange(IMAGES) // 2
    names = tuple(str(number) for number in range(classes))
    ids = [str(row) for row in range(IMAGES)]
    inputs = InMemory(torch.from_numpy(pixels))
    return LabelledData("random images", inputs, given, names, ids, true_labels=true)


@dataclass
class Seen:
    """One run, as the engine went through it: the final one of a method, or a stage."""

    method: str
    plan: Plan
    rates: dict[int, set[float]] = field(default_factory=dict)  # by epoch, as scheduled
    losses: dict[int, list[float]] = field(default_factory=dict)
    moved: list[bool] = field(default_factory=list)


class Watch:
    """Stands where the engine takes its steps: lets it, and looks. Checkpoints, of a gigabyte here,
    are left out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: dict[Path, Seen] = {}
        self.epochs = 0
        self.step: Callable[..., Any] = engine.train_step
        self.next_epoch = Progress.next_epoch
        monkeypatch.setattr(engine, "train_step", self.take_step)
        monkeypatch.setattr(engine, "save", lambda work, progress: None)
        # after two epochs a net may be wrong of every sample, and dac would be left with none
        monkeypatch.setattr(dac, "kept", lambda logits, given, rule: given >= 0)
        monkeypatch.setattr(Progress, "next_epoch", lambda progress: self.leap(progress))

    def take_step(self, work: Work, progress: Progress, *rest: Any) -> Any:
        name = type(work.method).__name__
        run = self.runs.setdefault(work.run.path, Seen(name, work.plan))
        self.epochs = work.plan.epochs
        before = [p.detach().clone() for p in work.method.parameters()]
        total, weight = progress.total, progress.weight
        answer = self.step(work, progress, *rest)
        pairs = zip(before, work.method.parameters(), strict=True)
        run.moved.append(any(not torch.equal(b, p) for b, p in pairs))
        loss = (progress.total - total) / max(progress.weight - weight, 1e-9)
        run.losses.setdefault(progress.epoch, []).append(loss)
        rates = run.rates.setdefault(progress.epoch, set())
        for group in work.optimizer.param_groups:
            if "lr_fixed" not in group:
                rates.add(group["lr"] / group.get("lr_scale", 1.0))
        return answer

    def leap(self, progress: Progress) -> None:
        """From the first epoch to the last."""
        progress.epoch = max(progress.epoch, self.epochs - 2)
        self.next_epoch(progress)


def rates(plan: Plan) -> tuple[float, float]:
    """The learning rate at the first step of a run, and in its last epoch."""
    lr, last, falls = plan.rate, plan.epochs - 1, plan.milestones or []
    least, high = plan.lr_least, plan.rate - plan.lr_least
    since = max([0, *falls])
    ends: Mapping[str, float] = {
        "constant": lr,
        "cosine": least + reference.cosine(high, last - plan.warmup, plan.epochs - plan.warmup),
        "milestones": lr * plan.gamma ** sum(fall <= last for fall in falls),
        "linear": lr / max(1, plan.epochs - since),
        "restarts": least + reference.cosine(high, last - since, plan.epochs - since),
    }
    return lr / 1000 if plan.warmup else lr, ends[plan.schedule]


def carried_out(pair: Pair, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, Seen]:
    watch, cell = Watch(monkeypatch), pairs()[pair]
    settings = {k: v for k, v in cell.items() if k.partition(".")[0] in ("net", "method", "train")}
    settings["data.augment"] = cell["data.augment"]
    settings["data.validation"] = 1 / IMAGES if cell.get("data.validation") else 0.0
    data = images(pair)
    if "train.score" in cell:  # which needs samples to be measured on
        data = replace(data, test=data, left_out=data.inputs)
    try:
        run = selfadapt.fit(data, out=folder, seed=1, settings=settings)
        assert run.result["epochs"] == cell["train.epochs"]
        assert len(run.about["data"]["classes"]) == SETS[pair.data][1]
        assert len(watch.runs) == 1 + len(run.result["stages"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return watch.runs


def check(pair: Pair, folder: Path, runs: Mapping[Path, Seen]) -> None:
    assert runs[folder].plan == plan_of(pairs()[pair]), "the recipe's, to the last setting"
    for run in runs.values():
        first, last = 0, run.plan.epochs - 1
        assert run.losses.keys() == run.rates.keys() == {first, last}
        assert all(np.isfinite(loss) for losses in run.losses.values() for loss in losses)
        assert all(run.moved), "every step moves some weight"
        expected = rates(run.plan)
        assert [*run.rates[first]] == [pytest.approx(expected[0])]
        assert [*run.rates[last]] == [pytest.approx(expected[1])]


@pytest.fixture(scope="module")
def log() -> Iterator[TextIO]:
    """results/test_paper.log, if the environment names it."""
    place = os.environ.get("PAPER_LOG", os.devnull)
    began, here = time.monotonic(), hardware()
    with Path(place).open("w", encoding="utf-8", buffering=1) as file:
        file.write(f"commit {commit()}, {datetime.now(UTC):%Y-%m-%d}, torch {torch.__version__}\n")
        file.write(f"{here['processor']}, {torch.get_num_threads()} threads\n\n")
        yield file
        file.write(f"\n{time.monotonic() - began:.0f} seconds\n")


def write_down(log: TextIO, pair: Pair, runs: Mapping[Path, Seen], seconds: float) -> None:
    log.write(f"{pair.method:<18} {pair.net:<15} {pair.data:<8} {seconds:5.1f} s\n")
    for path, run in runs.items():
        (first, *_), (last, *_) = run.losses[0], run.losses[run.plan.epochs - 1]
        told = "/".join(f"{rate:.3g}" for rate in rates(run.plan))
        stage = f"{path.name}: " if path.parent.name == "stages" else ""
        log.write(
            f"    {stage}{run.plan.optimizer}, {run.plan.schedule}, {run.plan.epochs} epochs, "
            f"lr {told}, loss {first:.3f}/{last:.3f}\n"
        )


@pytest.mark.paper
@pytest.mark.parametrize("pair", pairs(), ids="-".join)
def test_first_and_last_epoch(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: TextIO
) -> None:
    began = time.monotonic()
    runs = carried_out(pair, tmp_path / "run", monkeypatch)
    check(pair, tmp_path / "run", runs)
    write_down(log, pair, runs, time.monotonic() - began)


@pytest.mark.slow
@pytest.mark.parametrize("pair", cheapest(), ids="-".join)
def test_first_and_last_epoch_on_the_cheapest_net(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(pair, tmp_path / "run", carried_out(pair, tmp_path / "run", monkeypatch))


def test_every_method_meets_every_net() -> None:
    every = set(itertools.product(methods.names(), NETS))
    assert {(p.method, p.net) for p in pairs()} == every
    assert {*NETS, *SMALL} == set(nets.names())
    assert {p.method for p in cheapest()} == set(methods.names())
    assert {p.data for p in pairs()} == set(SETS)
