"""Runs from Python, and what their files hold."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file
from support import Arrays, blobs
from torch import nn

import selfadapt
from selfadapt import errors
from selfadapt.data import LabelledData
from selfadapt.engine.checkpoint import load_checkpoint

SETTINGS: dict[str, Any] = {
    "train.epochs": 8,
    "train.batch": 20,
    "train.precision": "fp32",
    "method.start": 2,
    "method.momentum": 0.7,
    "corruption.name": "uniform",
    "corruption.rate": 0.3,
    "data.validation": 0.1,
    "net.width": 16,
}
COLUMNS = [
    *("row", "id", "part", "given", "corrected", "belief_given", "belief_corrected"),
    *("weight", "suspicion", "true"),
]
LINE = {
    *("epoch", "lr", "loss", "train_accuracy", "train_true_accuracy", "validation_accuracy"),
    *(
        "validation_true_accuracy",
        "test_accuracy",
        "labels_changed",
        "labels_right",
        "seconds",
        "samples_per_second",
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> selfadapt.experiment.Run:
    folder = tmp_path_factory.mktemp("runs") / "a"
    return selfadapt.fit(blobs(), out=folder, method="sat", net="mlp", settings=SETTINGS)


@pytest.fixture(scope="module")
def data() -> LabelledData:
    return selfadapt.load(blobs())


def test_run_json(run: Any, data: LabelledData) -> None:
    about = json.loads((run.path / "run.json").read_text())
    assert about == run.about
    settings = about["settings"]
    assert settings["seed"] == 1
    assert settings["method"] == {
        "name": "sat",
        "start": 2,
        "momentum": 0.7,
        "reweight": True,
        "average": "kept",
    }
    assert settings["corruption"] == {"name": "uniform", "rate": 0.3}
    assert settings["train"]["optimizer"] == "sgd"
    assert about["command"] == sys.argv
    assert about["versions"].keys() >= {"python", "selfadapt", "torch", "numpy"}
    resolved = about["resolved"]
    assert resolved["processes"] == 1
    assert resolved["precision"] == "fp32"
    assert resolved["start"] == 2
    assert resolved["parameters"] == 6 * 16 + 16 + 16 * 16 + 16 + 16 * 3 + 3
    described = about["data"]
    assert (described["samples"], described["test"]) == (135, 15)
    assert (described["training"], described["validation"]) == (121, 14)
    assert described["classes"] == ["0", "1", "2"]
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    assert not commit or commit.startswith(about["commit"].removesuffix("-dirty"))


def test_the_noise_is_what_run_json_says(run: Any, data: LabelledData) -> None:
    """Fingerprint and rate, recomputed from the labels handed out."""
    noise = run.about["noise"]
    given = np.array(run.labels["given"].to_pylist(), "<i8")
    assert noise["fingerprint"] == hashlib.sha256(given.tobytes()).hexdigest()
    assert given.tolist() != data.labels.tolist()
    trains = np.array(run.labels["part"].to_pylist()) == "train"
    wrong = float((given != data.labels)[trains].mean())
    assert noise["error_rate"] == run.result["error_rate"] == wrong
    assert (given != data.labels).sum() <= int(0.3 * 135)
    assert (given != data.labels).sum() > 0.1 * 135
    assert noise["name"] == "uniform"


def test_the_log(run: Any) -> None:
    lines = [json.loads(line) for line in (run.path / "log.jsonl").read_text().splitlines()]
    assert lines == run.log
    assert [line["epoch"] for line in lines] == list(range(8))
    for line in lines:
        assert line.keys() == LINE
        assert all(not isinstance(value, dict | list) for value in line.values())
        rates = [value for name, value in line.items() if "accuracy" in name or "labels" in name]
        assert len(rates) == 7
        assert all(0 <= rate <= 1 for rate in rates)
    assert lines[0]["lr"] == 0.1
    assert lines[4]["lr"] == pytest.approx(0.05)
    assert lines[0]["labels_changed"] == lines[1]["labels_changed"] == 0
    assert lines[-1]["labels_changed"] > 0.1
    assert lines[-1]["labels_right"] > 1 - run.about["noise"]["error_rate"] + 0.05


def test_the_result(run: Any) -> None:
    result, log = json.loads((run.path / "result.json").read_text()), run.log
    assert result == run.result
    assert result["method"] == "sat"
    assert result["seed"] == 1
    assert result["accuracy"] == log[-1]["test_accuracy"]
    best = max(log, key=lambda line: line["validation_accuracy"])
    assert result["accuracy_best_validation"] == best["test_accuracy"]
    assert result["best_epoch"] == best["epoch"]
    assert result["labels_right"] == log[-1]["labels_right"]
    assert result["labels_changed"] == log[-1]["labels_changed"]
    assert result["seconds"] > 0
    assert result["samples_per_second"] > 0
    assert result["epochs"] == 8


def test_the_table_of_labels(run: Any, data: LabelledData) -> None:
    table = pq.read_table(run.path / "labels.parquet")
    assert table == run.labels
    assert table.column_names == COLUMNS
    assert table["row"].to_pylist() == list(range(135))
    assert table["id"].to_pylist() == [str(i) for i in data.ids]
    assert table["true"].to_pylist() == data.labels.tolist()
    assert table.schema.field("given").type == table.schema.field("corrected").type == pa.int64()
    held = np.array(table["part"].to_pylist()) == "validation"
    assert held.sum() == 14
    for name in ("corrected", "belief_given", "belief_corrected", "weight", "suspicion"):
        column = table[name]
        assert [value is None for value in column.to_pylist()] == held.tolist(), name
    tensors = load_checkpoint(max((run.path / "checkpoints").iterdir())).tensors
    beliefs = tensors["method.targets.table"].numpy()[~held]
    given = table["given"].to_numpy()[~held]
    kept = table.filter(pa.array(~held))
    np.testing.assert_array_equal(kept["corrected"].to_numpy(), beliefs.argmax(axis=1))
    own = beliefs[np.arange(len(given)), given]
    np.testing.assert_array_equal(kept["belief_given"].to_numpy(), own)
    np.testing.assert_array_equal(kept["belief_corrected"].to_numpy(), beliefs.max(axis=1))
    np.testing.assert_array_equal(kept["weight"].to_numpy(), beliefs.max(axis=1))
    np.testing.assert_array_equal(kept["suspicion"].to_numpy(), 1 - own)


def test_the_signals(run: Any) -> None:
    signals = load_file(run.path / "signals.safetensors")
    held = np.array(run.labels["part"].to_pylist()) == "validation"
    assert signals["visits"].tolist() == np.where(held, 0, 8).tolist()
    np.testing.assert_allclose(signals["mean_probs"][~held].sum(axis=1), 1, atol=1e-5)
    assert signals["mean_margin"].shape == signals["forgotten"].shape == (135,)


def test_the_same_seed_gives_the_same_bytes(run: Any, tmp_path: Path) -> None:
    again = selfadapt.fit(blobs(), out=tmp_path / "b", net="mlp", settings=SETTINGS)
    other = selfadapt.fit(blobs(), out=tmp_path / "c", net="mlp", settings=SETTINGS, seed=2)
    for name in ("labels.parquet", "signals.safetensors"):
        assert (again.path / name).read_bytes() == (run.path / name).read_bytes()
        assert (other.path / name).read_bytes() != (run.path / name).read_bytes()
    assert other.result["seed"] == 2
    assert other.about["noise"]["fingerprint"] != run.about["noise"]["fingerprint"]


def test_a_method_without_beliefs_writes_its_predictions(run: Any, tmp_path: Path) -> None:
    settings = {name: value for name, value in SETTINGS.items() if "method" not in name}
    erm = selfadapt.fit(blobs(), out=tmp_path / "e", method="erm", net="mlp", settings=settings)
    assert erm.labels["weight"].null_count == 135
    trains = np.array(erm.labels["part"].to_pylist()) == "train"
    probs = erm.predict_proba(selfadapt.load(blobs()).inputs.values)[trains]
    kept = erm.labels.filter(pa.array(trains))
    np.testing.assert_array_equal(kept["corrected"].to_numpy(), probs.argmax(axis=1))
    np.testing.assert_allclose(kept["belief_corrected"].to_numpy(), probs.max(axis=1), atol=1e-6)
    assert [line["labels_changed"] for line in erm.log] == [None] * 8
    assert erm.result["labels_changed"] > 0
    assert erm.about["noise"]["fingerprint"] == run.about["noise"]["fingerprint"]


def test_without_truth_or_validation_nothing_is_claimed(tmp_path: Path) -> None:
    run = selfadapt.fit(
        blobs(), out=tmp_path / "a", net="mlp", settings={"train.epochs": 2, "data.test": 0}
    )
    unknown = ("accuracy", "accuracy_best_validation", "best_epoch", "error_rate", "labels_right")
    assert [run.result[name] for name in unknown] == [None] * 5
    assert run.labels["true"].null_count == 150
    assert run.labels["corrected"].null_count == 0
    assert {line["test_accuracy"] for line in run.log} == {None}


def test_predictions(run: Any) -> None:
    x, y = blobs(190)
    probs = run.predict_proba(x[150:])
    assert probs.shape == (40, 3)
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(run.predict(x[150:]), probs.argmax(axis=1))
    assert (run.predict(x[150:]) == y[150:]).mean() > 0.7
    np.testing.assert_array_equal(run.predict_proba(torch.from_numpy(x[150:])), probs)
    opened = selfadapt.open_run(str(run.path))
    np.testing.assert_array_equal(opened.predict_proba(x[150:]), probs)
    assert opened.classes == ["0", "1", "2"]
    assert opened.predict(x[:0]).shape == (0,)
    assert "done" in repr(opened)


def test_predictions_for_samples_of_another_shape(run: Any) -> None:
    with pytest.raises(errors.BadInput, match=r"trained on samples of shape \(6,\)"):
        run.predict(np.zeros((4, 5), np.float32))


def test_prediction_does_not_disturb_randomness(run: Any) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    selfadapt.open_run(run.path).predict(blobs()[0])
    torch.testing.assert_close(torch.rand(2), expected, rtol=0, atol=0)


def test_a_run_that_is_not_finished(run: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match=r"no run in .*run\.json"):
        selfadapt.open_run(tmp_path)
    (tmp_path / "run.json").write_bytes((run.path / "run.json").read_bytes())
    partial = selfadapt.open_run(tmp_path)
    for ask in (lambda: partial.result, lambda: partial.labels):
        with pytest.raises(errors.BadInput, match="is not finished: give the command"):
            ask()
    with pytest.raises(errors.BadInput, match="holds no trained model yet"):
        partial.predict(blobs()[0])


def test_progress_and_notes(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    settings = {"train.epochs": 2, "train.batch": 999, "method.start": 2}
    selfadapt.fit(blobs(), out=tmp_path / "a", net="mlp", settings=settings, show=events.append)
    notes = [event["note"] for event in events if "note" in event]
    assert any("held out 15 of 150" in note for note in notes)
    assert any("batch is cut from 999 to the 135" in note for note in notes)
    assert any(note.startswith("warning: method.start=2 is not before the last") for note in notes)
    assert [event["line"]["epoch"] for event in events if "line" in event] == [0, 1]
    selfadapt.fit(blobs(), out=tmp_path / "a", net="mlp", settings=settings, show=events.append)
    assert "finished already" in events[-1]["note"]


def test_the_batch_is_cut_to_what_trains(tmp_path: Path, points: Arrays) -> None:
    """Less the test part, less the validation part."""
    events: list[dict[str, Any]] = []
    settings = {"train.epochs": 1, "train.batch": 130, "data.validation": 0.2, "net.width": 4}
    run = selfadapt.fit(points, out=tmp_path, net="mlp", settings=settings, show=events.append)
    used = run.about["resolved"]["batch"]
    assert used == run.about["data"]["training"] < 130
    notes = [event["note"] for event in events if "note" in event]
    assert f"the batch is cut from 130 to the {used} samples that train" in notes


def test_labels_that_must_not_be_written_to(tmp_path: Path, data: LabelledData) -> None:
    labels = data.labels.copy()
    labels.flags.writeable = False
    run = selfadapt.fit(
        replace(data, labels=labels, true_labels=labels),
        out=tmp_path,
        net="mlp",
        settings={"train.epochs": 1, "net.width": 4},
    )
    given = run.labels["given"].to_pylist()
    assert list(map(str, given)) == [data.classes[label] for label in labels]


@pytest.mark.parametrize(("augment", "told"), [("auto", 1), ("crop_flip", 0), ("none", 0)])
def test_mirrored_pictures_are_no_surprise(augment: str, told: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (60, 16, 16, 3), dtype=np.uint8)
    events: list[dict[str, Any]] = []
    settings = {"train.epochs": 1, "net.width": 4, "data.augment": augment}
    selfadapt.fit(
        (pixels, np.arange(60) % 2), out=tmp_path, net="mlp", settings=settings, show=events.append
    )
    notes = [event["note"] for event in events if "shifted and mirrored" in event.get("note", "")]
    assert len(notes) == told


class TwoLayers(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("net", [TwoLayers, TwoLayers(3), "test_run:TwoLayers"])
def test_a_net_of_ones_own(net: Any, tmp_path: Path, points: Arrays) -> None:
    before = {k: v.clone() for k, v in net.state_dict().items()} if hasattr(net, "layers") else {}
    run = selfadapt.fit(points, out=tmp_path / "a", net=net, settings={"train.epochs": 2})
    probs = run.predict_proba(points[0])
    name = run.about["settings"]["net"]["name"]
    assert name == ("given as an object: " if before else "") + "test_run:TwoLayers"
    given = net if isinstance(net, nn.Module) else None
    again = selfadapt.open_run(tmp_path / "a", net=given)
    np.testing.assert_array_equal(again.predict_proba(points[0]), probs)
    if given is not None:
        torch.testing.assert_close(given.state_dict(), before, rtol=0, atol=0)


def test_a_net_that_has_no_name(tmp_path: Path, points: Arrays) -> None:
    net = nn.Sequential(nn.Linear(6, 3))
    run = selfadapt.fit(points, out=tmp_path / "a", net=net, settings={"train.epochs": 1})
    assert run.predict(points[0]).shape == (150,)
    with pytest.raises(errors.BadInput, match="open_run") as caught:
        selfadapt.open_run(tmp_path / "a").predict(points[0])
    assert "net" in str(caught.value)


def of_width(outputs: int, shape: tuple[int, ...], act: type[nn.Module] = nn.ReLU) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 5), act(), nn.Linear(5, outputs))


def test_settings_that_cannot_be_written_down(tmp_path: Path, points: Arrays) -> None:
    with pytest.raises(errors.BadInput, match="settings must be finite numbers, text, true or"):
        selfadapt.fit(points, out=tmp_path / "a", net=of_width, settings={"net.act": nn.Tanh})
    assert not (tmp_path / "a").exists()


def test_another_net_than_the_one_that_was_trained(tmp_path: Path, points: Arrays) -> None:
    selfadapt.fit(points, out=tmp_path / "a", net=of_width, settings={"train.epochs": 1})
    with pytest.raises(errors.BadInput, match="the net is not the one that was saved"):
        selfadapt.open_run(tmp_path / "a", net=TwoLayers).predict(points[0])


def test_one_net_for_two_runs(tmp_path: Path, points: Arrays) -> None:
    """Each starts from the weights as they were given, and keeps what it has learned itself."""
    net, settings = TwoLayers(3), {"train.epochs": 2, "train.batch": 20}
    runs = [
        selfadapt.fit(points, out=tmp_path / name, net=net, settings=settings, seed=seed)
        for name, seed in (("a", 1), ("b", 2), ("c", 1))
    ]
    first, second, third = (run.predict_proba(points[0]) for run in runs)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(runs[0].predict_proba(points[0]), first)


def test_the_same_data_with_other_labels(tmp_path: Path, npz: Path) -> None:
    data, settings = selfadapt.load(npz), {"train.epochs": 1}
    selfadapt.fit(data, out=tmp_path / "a", net="mlp", settings=settings)
    other = data.with_labels((data.labels + 1) % 3)
    with pytest.raises(errors.RunMismatch, match="begun with other labels"):
        selfadapt.fit(other, out=tmp_path / "a", net="mlp", settings=settings)


def test_two_rounds(run: Any, tmp_path: Path) -> None:
    """The second round starts from the first one's labels, not from its objects."""
    first = selfadapt.load(blobs())
    corrected = run.labels["corrected"].to_pylist()
    given = run.labels["given"].to_pylist()
    y = np.array([g if c is None else c for c, g in zip(corrected, given, strict=True)])
    data = first.with_labels(y)
    second = selfadapt.fit(data, out=tmp_path / "b", net="mlp", settings={"train.epochs": 2})
    assert second.result["error_rate"] < run.result["error_rate"]
    assert second.labels["true"].to_pylist() == first.labels.tolist()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"data.size": 32}, "loaded already"),
        ({"net.act": nn.ReLU}, "unknown setting of net 'act'. There are: width"),
        ({"train.lr": float("nan")}, r"train\.lr must be a finite number, got nan"),
        ({"corruption.rate": 0.3}, r"no kind of noise: --set corruption\.name=… \(uniform, "),
    ],
)
def test_settings_that_cannot_be(
    settings: dict[str, Any], told: str, tmp_path: Path, data: LabelledData
) -> None:
    with pytest.raises(errors.BadInput, match=told):
        selfadapt.fit(data, out=tmp_path / "a", net="mlp", settings=settings)
    assert not (tmp_path / "a").exists()


def test_a_tuple_is_the_list_it_becomes(tmp_path: Path, points: Arrays) -> None:
    settings = {"train.epochs": 2, "train.schedule": "milestones", "train.milestones": [1]}
    for _ in range(2):
        run = selfadapt.fit(points, out=tmp_path / "a", net="mlp", settings=settings)
    assert [line["lr"] for line in run.log] == [0.1, pytest.approx(0.01)]


def test_importing_is_light() -> None:
    code = "import sys, selfadapt, selfadapt.cli; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
