"""Methods of several stages: each stage a run of its own, and what passes from one to the next."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import blobs
from test_resume import assert_same_run
from torch import Tensor

import selfadapt
from selfadapt import losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.data import InMemory
from selfadapt.data.corrupted import with_noise
from selfadapt.errors import BadInput, DamagedFile, RunMismatch
from selfadapt.methods import Method, Stage, Stages, Validation
from selfadapt.methods.method import Feed


class Counter(Method):
    """Adds what it was handed to what it hands over."""

    sum: Tensor

    def __init__(self, make_net: Any, labels: Tensor, num_classes: int, *, add: float = 1.0):
        super().__init__(make_net, labels, num_classes)
        self.add = add
        self.register_buffer("sum", torch.zeros(()))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        values = losses.cross_entropy(self.net(batch.x), batch.y)
        return StepLoss(values, torch.ones_like(values))

    def take_over(self, handed: Mapping[str, Tensor]) -> None:
        self.sum += handed["sum"]

    def hand_over(self, feed: Feed) -> dict[str, Tensor]:
        rows = feed.rows
        assert len(feed.plain(rows)) == len(rows)
        return {"sum": self.sum + self.add}


class Total(Counter):
    """Three stages before it, of which the last is not begun if the second is hopeless."""

    @classmethod
    def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
        method = f"{__name__}:Counter"
        first = yield Stage("first", method, {"add": knobs["add"]}, {"epochs": 1})
        assert first["epochs"] == 1
        assert first["method"] == method
        yield Stage("second", method, {"add": 10.0}, {"epochs": train["epochs"] + 1})
        if knobs["add"] > 0:
            return "first"
        yield Stage("third", method, {"add": 100.0})
        return None


module = sys.modules[__name__]
SETTINGS = {"train.epochs": 2, "train.batch": 30, "corruption.name": "uniform"}


def fit(out: Path, **knobs: Any) -> Any:
    settings = SETTINGS | {f"method.{k}": v for k, v in knobs.items()}
    return selfadapt.fit(blobs(), out=out, method=f"{__name__}:Total", net="mlp", settings=settings)


def test_each_stage_takes_over_from_the_one_before(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", add=-1.0)
    assert run.method().sum.item() == -1 + 10 + 100
    folders = {path.name for path in (tmp_path / "run" / "stages").iterdir()}
    assert folders == {"first", "second", "third"}
    found = [stage["stage"] for stage in run.result["stages"]]
    assert found == ["first", "second", "third"]
    assert [stage["epochs"] for stage in run.result["stages"]] == [1, 3, 2]


def test_a_method_chooses_its_stages_by_what_came_of_them(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", add=1.0)
    assert run.method().sum.item() == 1, "the run takes over from the stage it named"
    assert not (tmp_path / "run" / "stages" / "third").exists()


def test_stages_share_data_noise_and_seed_and_their_cost_is_counted(tmp_path: Path) -> None:
    run = fit(tmp_path / "run")
    stage = selfadapt.open_run(tmp_path / "run" / "stages" / "second")
    assert stage.about["noise"] == run.about["noise"]
    assert stage.about["settings"]["seed"] == run.about["settings"]["seed"]
    assert stage.about["settings"]["train"]["epochs"] == 3
    parts = [s["training_seconds"] for s in run.result["stages"]]
    whole = run.result["training_seconds_of_all_stages"]
    assert whole == pytest.approx(sum(parts) + run.result["training_seconds"])
    assert min(parts) > 0


class CutOff(Exception):
    pass


@pytest.mark.parametrize("moment", [("first", 1), ("second", 1), ("second", 3), ("third", 1)])
def test_a_run_cut_off_in_a_stage_goes_on_there(moment: tuple[str, int], tmp_path: Path) -> None:
    fit(tmp_path / "whole", add=-1.0)
    stage = [""]

    def show(event: Mapping[str, Any]) -> None:
        stage[0] = event.get("stage", stage[0])
        if (stage[0], event.get("step")) == moment and event["epoch"] == 0:
            raise CutOff

    settings = SETTINGS | {"method.add": -1.0}
    known: dict[str, Any] = {"method": f"{__name__}:Total", "net": "mlp", "settings": settings}
    with pytest.raises(CutOff):
        selfadapt.fit(blobs(), out=tmp_path / "cut", show=show, **known)
    fit(tmp_path / "cut", add=-1.0)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    for name in ("first", "second", "third"):
        assert_same_run(tmp_path / "whole" / "stages" / name, tmp_path / "cut" / "stages" / name)


def forget_the_last_stage(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "stages":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_stage_of_other_settings_is_refused(tmp_path: Path) -> None:
    forget_the_last_stage(fit(tmp_path / "run").path)
    with pytest.raises(RunMismatch, match=r"method\.add"):
        fit(tmp_path / "run", add=2.0)


def test_what_was_handed_over_is_lost(tmp_path: Path) -> None:
    run = fit(tmp_path / "run")
    forget_the_last_stage(run.path)
    (run.path / "stages" / "first" / "handed.safetensors").unlink()
    with pytest.raises(DamagedFile, match="give the same command again"):
        fit(tmp_path / "run")


def test_the_views_of_a_sample_are_augmented_apart(tmp_path: Path) -> None:
    seen: list[Batch] = []

    class TwoViews(Counter):
        views = 2

        def loss(self, batch: Batch, epoch: int) -> StepLoss:
            seen.append(batch)
            return super().loss(batch, epoch)

    module.TwoViews = TwoViews  # type: ignore[attr-defined]
    x = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 1), dtype=np.uint8)
    settings = {"train.epochs": 1, "train.batch": 30, "data.augment": "crop"}
    selfadapt.fit(
        (x, np.arange(60) % 3),
        out=tmp_path / "run",
        method=f"{__name__}:TwoViews",
        net="mlp",
        settings=settings,
    )
    for batch in seen:
        (other,) = batch.views
        assert other.shape == batch.x.shape
        assert not torch.equal(other, batch.x)


class ComesBack(Method):
    """Predicts one class for ever in the end, having been told how it did."""

    def __init__(self, make_net: Any, labels: Tensor, num_classes: int):
        super().__init__(make_net, labels, num_classes)
        self.register_buffer("told", torch.zeros(()))
        self.register_buffer("over", torch.zeros((), dtype=torch.bool))

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        values = losses.cross_entropy(self.net(batch.x), batch.y)
        return StepLoss(values, torch.ones_like(values))

    def predict(self, x: Tensor) -> Tensor:
        always = torch.tensor([[1.0, 0.0, 0.0]]).repeat(len(x), 1)
        return always if bool(self.over) else super().predict(x)

    def validated(self, epoch: int, found: Validation) -> bool:
        self.told.fill_(found.accuracy)
        self.over |= epoch == self.epochs - 1
        return bool(self.over)


def test_predictions_that_validation_has_changed_are_measured_again(tmp_path: Path) -> None:
    settings = SETTINGS | {"data.validation": 0.2, "corruption.name": "none"}
    name = f"{__name__}:ComesBack"
    run = selfadapt.fit(blobs(), out=tmp_path / "a", method=name, net="mlp", settings=settings)
    table, (first, last) = run.labels, run.log
    given = np.array(table["given"].to_pylist())
    held = np.array(table["part"].to_pylist()) == "validation"
    assert last["validation_accuracy"] == pytest.approx((given[held] == 0).mean())
    assert first["validation_accuracy"] > last["validation_accuracy"]
    assert run.method().told.item() > last["validation_accuracy"]


def test_a_stage_that_cannot_begin_leaves_no_trace(tmp_path: Path) -> None:
    class NeedsMore(Counter):
        @classmethod
        def stages(cls, knobs: Mapping[str, Any], train: Mapping[str, Any]) -> Stages:
            yield Stage("peeks", f"{__name__}:Peeks")
            return None

    module.NeedsMore = NeedsMore  # type: ignore[attr-defined]
    settings = {"train.epochs": 2}
    with pytest.raises(BadInput, match="none are known here"):
        selfadapt.fit(
            blobs(),
            out=tmp_path / "run",
            method=f"{__name__}:NeedsMore",
            net="mlp",
            settings=settings,
        )
    assert not (tmp_path / "run").exists()


class Peeks(Method):
    """Looks at the true labels, by name."""

    needs_true_labels = True
    true: Tensor

    def __init__(self, make_net: Any, labels: Tensor, num_classes: int):
        super().__init__(make_net, labels, num_classes)
        self.register_buffer("true", torch.zeros(len(labels), dtype=torch.int64))
        self.told: list[Validation] = []

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        values = losses.cross_entropy(self.net(batch.x), self.true[batch.rows])
        return StepLoss(values, torch.ones_like(values))

    def take_true_labels(self, true: Tensor) -> None:
        self.true.copy_(true)

    def validated(self, epoch: int, found: Validation) -> None:
        assert found.true_accuracy is not None
        assert found.loss > 0


def test_true_labels_only_for_who_asks_and_it_is_said(tmp_path: Path) -> None:
    settings = SETTINGS | {"data.validation": 0.2}
    name = f"{__name__}:Peeks"
    run = selfadapt.fit(blobs(), out=tmp_path / "a", method=name, net="mlp", settings=settings)
    assert run.result["had_true_labels"] is True
    table = run.labels
    assert run.method().true.tolist() == table["true"].to_pylist()
    other = selfadapt.fit(blobs(), out=tmp_path / "b", method="erm", net="mlp", settings=SETTINGS)
    assert other.result["had_true_labels"] is False
    with pytest.raises(BadInput, match="none are known here"):
        selfadapt.fit(
            blobs(), out=tmp_path / "c", method=name, net="mlp", settings={"train.epochs": 2}
        )


def test_the_curves_of_a_study(tmp_path: Path) -> None:
    """In evaluation mode, over the samples that train, against the same by hand."""
    settings = SETTINGS | {"data.validation": 0.2, "train.curves": True, "train.epochs": 4}
    run = selfadapt.fit(blobs(), out=tmp_path / "a", method="erm", net="mlp", settings=settings)
    line, table = run.log[-1], run.labels
    part = np.array(table["part"].to_pylist())
    given, true = (np.array(table[name].to_pylist()) for name in ("given", "true"))
    data = selfadapt.load(blobs())
    guess = run.predict(data.inputs.values.numpy())
    train, wrong = part == "train", given != true
    assert line["fitted"] == pytest.approx((guess == given)[train].mean())
    assert line["fitted_true"] == pytest.approx((guess == true)[train].mean())
    assert line["untouched_right"] == pytest.approx((guess == true)[train & ~wrong].mean())
    assert line["corrupted_right"] == pytest.approx((guess == true)[train & wrong].mean())
    held = part == "validation"
    assert line["validation_accuracy"] == pytest.approx((guess == given)[held].mean())
    assert line["validation_true_accuracy"] == pytest.approx((guess == true)[held].mean())
    json.dumps(line, allow_nan=False)


def test_clean_is_before_images_were_corrupted(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (random.integers(0, 60, (90, 8, 8, 3)) + 60 * y[:, None, None, None]).astype(np.uint8)
    noise = {"corruption.name": "gaussian", "corruption.rate": 0.5, "data.test": 0.0}
    settings = {"data.validation": 0.2, "train.curves": True, "train.epochs": 4, "train.batch": 18}
    run = selfadapt.fit((x, y), out=tmp_path / "a", net="mlp", settings=settings | noise)
    noisy = with_noise(selfadapt.load((x, y), test=0.0), "gaussian", 1, {"rate": 0.5})
    assert isinstance(noisy.inputs, InMemory)
    assert noisy.noisy_images is not None
    part = np.array(run.labels["part"].to_pylist())
    train, held = part == "train", part == "validation"
    seen = run.predict(noisy.inputs.values.numpy()) == y
    clean = run.predict(x) == y
    assert seen.mean() < clean.mean()
    line = run.log[-1]
    assert line["fitted"] == pytest.approx(seen[train].mean())
    assert line["fitted_true"] == pytest.approx(clean[train].mean())
    assert line["validation_accuracy"] == pytest.approx(seen[held].mean())
    assert line["validation_true_accuracy"] == pytest.approx(clean[held].mean())
    assert line["corrupted_right"] == pytest.approx(seen[train & noisy.noisy_images].mean())
