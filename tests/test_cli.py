"""The commands, from data to corrected labels and back, run in this process."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from PIL import Image
from support import PATIENCE, blobs

import selfadapt
from selfadapt import cli, demo, terminal

ODD_NAMES = (
    "plain",
    "with space",
    'a "quote"',
    "comma, semicolon;",
    "Käse 🐈",
    "it's",
    "new\nline",
)
CLASSES = ("cats, small", 'dogs "big"', "🐟")
Call = Callable[..., str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command that must succeed; what it printed."""

    def run(*arguments: str | Path) -> str:
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        told = capsys.readouterr()
        assert code == 0, told.err
        assert told.err == ""
        return told.out

    return run


QUICK = ("--net=mlp", "--set=net.width=16", "--set=train.batch=20", "--set=method.momentum=0.6")


def picture(path: Path, label: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    pixels = (
        random.integers(0, 60, (8, 8, 3)) + np.array([[190, 0, 0], [0, 190, 0], [0, 0, 190]])[label]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path, format="png")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Class folders and files with every character that a CSV file or a shell stumbles over. Two
    files lie in the wrong folder."""
    folder = tmp_path / "my photos, 2024"
    for label, name in enumerate(CLASSES):
        for number in range(14):
            stem = f"{ODD_NAMES[number % 7]} {number}"
            shown = 1 if (label, number) in ((0, 3), (2, 8)) else label
            picture(folder / name / f"{stem}.png", shown, 100 * label + number)
    return folder


@pytest.fixture
def trained(photos: Path, tmp_path: Path, call: Call) -> Path:
    out = tmp_path / "run"
    more = ("--set=train.epochs=25", "--set=method.start=4", "--set=data.augment=none")
    call("fit", photos, "--out", out, *QUICK, *more, "--set=data.test=0")
    return out


def test_from_photos_to_clean_labels_and_back(
    photos: Path, trained: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix in (".csv", ".parquet"):
        told = call("labels", trained, "--to", tmp_path / f"clean{suffix}")
        assert "42 labels, 2 of them corrected" in told
    with (tmp_path / "clean.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    parquet = pq.read_table(tmp_path / "clean.parquet")
    assert list(lines[0]) == parquet.column_names
    assert parquet.column_names[:3] == ["path", "label", "given"]
    for name in ("path", "label", "given"):
        assert [line[name] for line in lines] == parquet[name].to_pylist()
    assert {line["label"] for line in lines} == set(CLASSES)
    for line in lines:
        path = Path(line["path"])
        assert path.is_file()
        assert path.parent.name == line["given"]
        assert path.parent.parent == photos
    wrong = {Path(line["path"]).name for line in lines if line["label"] != line["given"]}
    assert wrong == {f"{ODD_NAMES[3]} 3.png", f"{ODD_NAMES[1]} 8.png"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for suffix in (".csv", ".parquet"):
        out = tmp_path / f"again{suffix}"
        call("fit", f"../clean{suffix}", "--out", out, *QUICK, "--set=train.epochs=2")
        again = selfadapt.open_run(out)
        assert again.classes == sorted(CLASSES)
        assert again.about["data"]["samples"] + again.about["data"]["test"] == 42
        assert again.labels["id"].to_pylist()[0] in {line["path"] for line in lines}


def test_labels_that_are_numbers_stay_numbers(npz: Path, tmp_path: Path, call: Call) -> None:
    call("fit", npz, "--out", tmp_path / "run", *QUICK, "--set=train.epochs=3")
    for suffix in ("csv", "parquet"):
        call("labels", tmp_path / "run", "--to", tmp_path / f"clean.{suffix}")
    for table in (
        pa_csv.read_csv(tmp_path / "clean.csv"),
        pq.read_table(tmp_path / "clean.parquet"),
    ):
        assert table.column_names[:2] == ["row", "label"]
        assert table.schema.field("label").type == pa.int64()
        assert table.schema.field("given").type == pa.int64()
        assert table["given"].to_pylist() == blobs(190)[1][:150].tolist()


def test_samples_that_did_not_train_keep_their_label(
    photos: Path, tmp_path: Path, call: Call
) -> None:
    broken = photos / CLASSES[0] / "broken.png"
    broken.write_bytes(b"no picture")
    more = ("--set=data.validation=0.2", "--set=train.epochs=2", "--set=data.test=0")
    told = call("fit", photos, "--out", tmp_path / "run", *QUICK, *more)
    assert "1 of 43 training images cannot be read" in told
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [each["id"] for each in about["data"]["quarantined"]] == [f"{CLASSES[0]}/broken.png"]
    call("labels", tmp_path / "run", "--to", tmp_path / "clean.parquet")
    table = pq.read_table(tmp_path / "clean.parquet").to_pylist()
    assert len(table) == 43
    assert {line["part"] for line in table} == {"train", "validation", "unreadable"}
    for line in table:
        if line["part"] != "train":
            assert line["label"] == line["given"]
            assert line["suspicion"] is None
    assert [line["part"] for line in table if line["path"] == str(broken)] == ["unreadable"]
    assert "true" not in table[0]


def test_predictions_for_photos(photos: Path, trained: Path, tmp_path: Path, call: Call) -> None:
    new = tmp_path / "new ones"
    for number, name in enumerate(ODD_NAMES):
        picture(new / f"{name}.png", number % 3, 999 + number)
    (new / "zz broken.png").write_bytes(b"")
    told = call("predict", trained, new, "--to", tmp_path / "preds.csv")
    assert "8 predictions written" in told
    assert "1 could not be read and are empty" in told
    with (tmp_path / "preds.csv").open(encoding="utf-8", newline="") as file:
        found = {line["path"]: line for line in csv.DictReader(file)}
    assert found.keys() == {*(f"{name}.png" for name in ODD_NAMES), "zz broken.png"}
    for number, name in enumerate(ODD_NAMES):
        line = found[f"{name}.png"]
        assert line["prediction"] == CLASSES[number % 3]
        assert 0.5 < float(line["probability"]) <= 1
    assert found["zz broken.png"]["prediction"] == found["zz broken.png"]["probability"] == ""
    call("predict", trained, photos, "--to", tmp_path / "preds.parquet")
    table = pq.read_table(tmp_path / "preds.parquet")
    assert table.num_rows == 42
    assert set(table["prediction"].to_pylist()) == set(CLASSES)


def test_predictions_for_tables_and_arrays(npz: Path, tmp_path: Path, call: Call) -> None:
    x, y = blobs(190)
    out = tmp_path / "run"
    call("fit", npz, "--out", out, *QUICK, "--set=train.epochs=10")
    np.savez(tmp_path / "bare.npz", x=x[150:])
    columns = {f"f{i}": x[150:, i] for i in range(6)}
    pa_csv.write_csv(pa.table(columns), tmp_path / "bare.csv")
    named = {"id": [f"s{i}" for i in range(40)], **columns, "label": y[150:]}
    pq.write_table(pa.table(named), tmp_path / "labelled.parquet")
    probs = selfadapt.open_run(out).predict_proba(x[150:])
    for data, first in (("bare.npz", "row"), ("bare.csv", "row"), ("labelled.parquet", "id")):
        told = call("predict", out, tmp_path / data, "--to", tmp_path / "preds.parquet")
        assert "40 predictions written" in told
        table = pq.read_table(tmp_path / "preds.parquet")
        assert table.column_names == [first, "prediction", "probability"]
        assert table["prediction"].to_pylist() == probs.argmax(axis=1).tolist()
        np.testing.assert_allclose(table["probability"].to_numpy(), probs.max(axis=1), atol=1e-6)
    assert (probs.argmax(axis=1) == y[150:]).mean() > 0.7


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("labels", "run", "--to", "clean.xlsx"), "takes a .csv or a .parquet file, got 'clean.x"),
        (("labels", "run", "--to", "clean"), "takes a .csv or a .parquet file"),
        (("labels", "run", "--to", "no/such/clean.csv"), "there is no folder 'no/such'"),
        (("labels", "run", "--to", "folder.csv"), "'folder.csv' is a folder"),
        (("labels", "nothing", "--to", "clean.csv"), "nothing holds no finished run"),
        (("predict", "nothing", "points.npz", "--to", "a.csv"), "there is no run in nothing"),
        (("predict", "run", "nothing.npz", "--to", "a.csv"), "There is no file or folder"),
        (("predict", "run", "points.npz", "--to", "a.json"), "takes a .csv or a .parquet file"),
        (("predict", "run", "narrow.npz", "--to", "a.csv"), "trained on samples of shape (6,)"),
        (("predict", "run", "points.npz", "--to", "a.csv", "--set=data.pth=x"), "mean 'path'?"),
        (("predict", "run", "points.npz", "--to", "a.csv", "--set=dta.path=x"), "mean 'data'?"),
    ],
)
def test_what_cannot_be_handed_over(
    arguments: tuple[str, ...],
    part: str,
    npz: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    call("fit", npz, "--out", "run", *QUICK, "--set=train.epochs=1")
    np.savez("narrow.npz", x=np.zeros((3, 5), np.float32))
    Path("folder.csv").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert cli.run(list(arguments)) == 2
    assert part in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_moved_elsewhere(npz: Path, tmp_path: Path, call: Call) -> None:
    call("fit", npz, "--out", tmp_path / "run", *QUICK, "--set=train.epochs=1")
    shutil.move(tmp_path / "run", tmp_path / "archive")
    call("labels", tmp_path / "archive", "--to", tmp_path / "clean.csv")
    call("predict", tmp_path / "archive", npz, "--to", tmp_path / "preds.csv")


def test_what_fit_says(npz: Path, tmp_path: Path, call: Call) -> None:
    noise = ("--set=corruption.name=uniform", "--set=corruption.rate=0.3")
    held = "--set=data.validation=0.1"
    epochs = ("--set", "train.epochs=12")
    told = call("fit", *epochs, npz, "--out", tmp_path / "a b", *QUICK, *noise, held, "--seed=3")
    assert "epoch 12/12 · loss" in told
    result = json.loads((tmp_path / "a b" / "result.json").read_text())
    assert result["seed"] == 3
    assert f"{100 * result['accuracy']:.1f} %" in told
    for word in ("test accuracy", "at best", "labels changed", "labels right", "→"):
        assert word in told
    assert "selfadapt labels" in told


def test_measuring_leaves_the_bar_where_the_epochs_are() -> None:
    with terminal.View(terminal.console()) as view:
        show = view.run("sat")
        show({"epoch": 1, "step": 2, "steps": 4, "epochs": 10})
        show({"epoch": 1, "what": "evaluating", "done": 512, "total": 3000})
        task = view.bars.tasks[0]
        assert (task.completed, task.total) == (1.5, 10)
        assert task.fields["text"] == "evaluating 512/3,000"
        show({"what": "reading", "done": 3, "total": 4})
        assert (task.completed, task.total) == (3, 4)


LINE = {"loss": 0.25, "validation_accuracy": None, "test_accuracy": 0.5, "labels_changed": None}


def test_a_bar_tells_of_the_epochs_when_other_work_is_done() -> None:
    with terminal.View(terminal.console()) as view:
        show = view.run("erm")
        [task] = view.bars.tasks
        show({"what": "looking at the inputs", "done": 9, "total": 9})
        show({"epoch": 0, "step": 1, "steps": 4, "epochs": 2})
        assert task.fields["text"] == "epoch 1/2"
        show({"line": {"epoch": 1, **LINE}, "epochs": 2})
        show({"what": "predicting the training samples", "done": 5, "total": 9})
        assert task.fields["text"] == "predicting the training samples 5/9"
        show({"what": "predicting the training samples", "done": 9, "total": 9})
        assert task.fields["text"] == "epoch 2/2 · loss 0.250 · test 50.0 %"
        assert task.finished


def test_list(call: Call) -> None:
    told = call("list")
    names = ("sat", "erm", "mlp", "small_cnn", "resnet18", "digits", "cifar10", "fashion-mnist")
    settings = ("momentum=0.9", "smoothing=0", "rate=0.4", "epochs=200", "width=")
    for word in (*names, *settings, "uniform", "hf:owner/name", "module:function"):
        assert word in told, word
    meanings = ("passes over the training samples", "ordinary training before beliefs move")
    for word in (*meanings, "the share to hold out", "the share of each label"):
        assert word in told, word
    assert max(map(len, told.splitlines())) <= 100
    assert "<class" not in told
    assert "path (to be given)" in told  # of a corruption by a file's matrix


CARDS = {
    "sat": ("(method)", "Huang, Zhang & Zhang, NeurIPS 2020", "loss = Σ w_i", "momentum=0.9"),
    "resnet18": ("(net)", "Residual net of 18 layers", "width=64"),
    "uniform": ("(corruption)", "drawn from ALL classes", "rate=0.4"),
    "cifar10": ("(data)", "Krizhevsky"),
}


@pytest.mark.parametrize("name", CARDS)
def test_a_whole_card(name: str, call: Call) -> None:
    told = call("list", name)
    for part in CARDS[name]:
        assert told.count(part) == 1, part
    assert max(map(len, told.splitlines())) <= 100


def test_a_card_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list", "satt"]) == 2
    assert "'satt'. Did you mean 'sat'?" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["fit", "--help"], ["labels", "--help"], ["--version"]):
        assert cli.run(arguments) == 0
        told = capsys.readouterr()
        assert told.err == ""
        assert told.out
    assert cli.run(["fit", "--help"]) == 0
    told = capsys.readouterr().out
    for word in ("--out", "--method", "--net", "--seed", "--set", "DATA", "Example", "shows them"):
        assert word in told


def test_demo(
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = {"train.epochs": 2, "net.name": "mlp", "net.width": 8}
    monkeypatch.setattr(demo, "SETTINGS", demo.SETTINGS | few)
    knobs = {method: {**values} for method, values in demo.KNOBS.items()}
    knobs["sat"]["method.start"] = 1
    monkeypatch.setattr(demo, "KNOBS", knobs)
    out = tmp_path / "demo"
    out.mkdir()
    told = call("demo", "--out", out, "--seeds", "2")
    assert sorted(path.name for path in out.iterdir()) == [
        *("erm-seed0", "erm-seed1", "sat-seed0", "sat-seed1")
    ]
    for word in ("ordinary training", "self-adaptive training", "test accuracy", "→", "seconds"):
        assert word in told
    for path in out.iterdir():
        run = selfadapt.open_run(path)
        assert run.result["method"] == path.name[:3]
        assert run.result["seed"] == int(path.name[-1])
        assert run.result["error_rate"] == pytest.approx(0.36, abs=0.04)
    assert "finished already" in call("demo", "--out", out, "--seeds", "2")
    (out / "notes.txt").touch()
    assert cli.run(["demo", "--out", str(out)]) == 2
    assert "'notes.txt', which is not from a demo" in capsys.readouterr().err


class FakeTracker:
    """In the place of accelerate's."""

    opened: list[FakeTracker] = []  # noqa: RUF012 — the list is what the test looks at

    def __init__(self, run_name: str, logging_dir: str) -> None:
        self.run_name = run_name
        self.logging_dir = logging_dir
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.calls: list[str] = []
        self.opened.append(self)

    def start(self) -> None:
        self.calls.append("start")

    def log(self, values: dict[str, Any], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.calls.append("finish")


def test_trackers(npz: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelerate import tracking

    from selfadapt.engine import trackers

    monkeypatch.setattr(trackers, "find_spec", lambda name: name)
    monkeypatch.setattr(tracking, "TensorBoardTracker", FakeTracker)
    monkeypatch.setattr(FakeTracker, "opened", [])
    out = tmp_path / "run-7"
    call(
        *("fit", npz, "--out", out, *QUICK, "--set=train.epochs=3"),
        '--set=train.trackers=["tensorboard"]',
    )
    (tracker,) = FakeTracker.opened
    assert tracker.run_name == "run-7"
    assert tracker.logging_dir == str(out)
    assert tracker.calls == ["start", "finish"]
    lines = selfadapt.open_run(out).log
    assert tracker.logged == [
        (line["epoch"], {name: value for name, value in line.items() if value is not None})
        for line in lines
    ]


def test_a_tracker_that_is_not_installed(
    npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from selfadapt.engine import trackers

    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    command = ["fit", str(npz), "--out", str(tmp_path / "run"), *QUICK]
    assert cli.run([*command, '--set=train.trackers=["wandb"]']) == 2
    told = capsys.readouterr().err
    assert "train.trackers names 'wandb', which is not installed: pip install wandb" in told
    assert not (tmp_path / "run").exists()


def test_the_installed_command(npz: Path, tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "selfadapt"
    if not command.exists():
        pytest.skip("the package is not installed")
    started = time.monotonic()
    told = subprocess.run(
        [command, "labels", tmp_path / "none", "--to", tmp_path / "clean.csv"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert time.monotonic() - started < PATIENCE
    assert told.returncode == 2
    assert told.stdout == ""
    assert "holds no finished run" in told.stderr
