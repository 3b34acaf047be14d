"""What cannot be is refused on the command line in one clear message, with nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import Tensor, nn

from selfadapt import cli

Told = Callable[..., str]


@pytest.fixture
def refused(npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """What the command says of these arguments; asserts that it is a refusal and no crash."""

    def fit(*arguments: str, data: Path | str = npz) -> str:
        out = tmp_path / "run"
        code = cli.run(["fit", str(data), "--out", str(out), "--set=train.epochs=2", *arguments])
        told = capsys.readouterr().err
        assert code == 2, told
        assert told.startswith("selfadapt: ")
        assert "Traceback" not in told
        assert not out.exists(), [path.name for path in out.iterdir()]
        return told

    return fit


def too_narrow(num_outputs: int, shape: tuple[int, ...]) -> nn.Module:
    return nn.Linear(6, num_outputs - 1)


def no_tensor(num_outputs: int, shape: tuple[int, ...]) -> nn.Module:
    class Two(nn.Linear):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return super().forward(x), x

    return Two(6, num_outputs)


def normalised_by_batch(num_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, num_outputs))


NAMES = {  # what is given: what is said of it
    "--method=satt": ("unknown method 'satt'", "Did you mean 'sat'?", "erm, ", "sat, "),
    "--method=no:Such": ("method 'no:Such' cannot be imported", "No module named 'no'"),
    "--net=resnet19": ("unknown net 'resnet19'", "Did you mean 'resnet18'?", "small_cnn"),
    "--set=train.epoch=3": ("unknown setting of train 'epoch'", "Did you mean 'epochs'?"),
    "--set=method.momentun=0.9": ("unknown setting of method 'momentun'", "mean 'momentum'?"),
    "--set=method.smoothing=0.1": ("unknown setting of method 'smoothing'", "momentum, reweight"),
    "--set=net.widht=3": ("unknown setting of net 'widht'", "Did you mean 'width'?"),
    "--set=data.lable=y": ("unknown setting of data 'lable'", "Did you mean 'label'?"),
    "--set=trian.epochs=3": ("unknown table of settings 'trian'", "Did you mean 'train'?"),
    "--set=epochs=3": ("unknown table of settings 'epochs'", "data, method, net, train"),
    "--set=corruption.name=unifrom": ("unknown corruption 'unifrom'", "Did you mean 'uniform'?"),
    '--set=train.trackers=["tensorbord"]': ("unknown tracker 'tensorbord'", "'tensorboard'?"),
}
VALUES = {
    "--set=method.momentum=1": ("momentum must", "[0, 1)", "got 1"),
    "--set=method.momentum=-0.1": ("[0, 1)", "-0.1"),
    "--set=method.start=-1": ("method.start is a number of epochs", "got -1"),
    "--set=method.start=1.5": ("method.start is a number of epochs", "got 1.5"),
    "--set=method.reweight=3": ("method.reweight must be true or false", "got 3"),
    "--set=train.batch=0": ("train.batch must be at least 1", "got 0"),
    "--set=train.epochs=0": ("train.epochs must be at least 1", "got 0"),
    "--set=train.epochs=abc": ("train.epochs must be a whole number", "got 'abc'"),
    "--set=train.epochs=2.5": ("train.epochs must be a whole number", "got 2.5"),
    "--set=train.lr=0": ("train.lr must be positive", "got 0"),
    "--set=train.lr=nan": ("train.lr must be", "finite", "nan"),
    "--set=train.lr=inf": ("train.lr must be", "finite", "inf"),
    "--set=train.clip=-1": ("train.clip must be positive", "got -1"),
    "--set=train.momentum=1": ("train.momentum must lie in [0, 1)", "got 1"),
    "--set=train.weight_decay=-1": ("train.weight_decay must be at least 0", "got -1"),
    "--set=train.accumulate=999": ("train.accumulate=999 exceeds train.batch=256",),
    "--set=train.accumulate=0": ("train.accumulate must be at least 1", "got 0"),
    "--set=train.schedule=milestones": ("train.schedule=milestones needs train.milestones",),
    "--set=train.schedule=step": ("train.schedule must be one of cosine, ", "got 'step'"),
    "--set=train.optimizer=adamw": ("must be one of sgd, adam", "Did you mean 'adam'"),
    "--set=train.precision=fp8": ("one of auto, fp32, bf16; got 'fp8'. Did you mean 'fp32'",),
    "--set=net.width=1000000000000": ("net 'mlp' does not fit in memory with net.width=1000",),
    "--set=net.width=100000000000000000000": ("net 'mlp' does not fit in memory",),
    "--set=train.save_seconds=-1": ("train.save_seconds must be at least 0", "got -1"),
    "--set=train.workers=-1": ("train.workers must be at least 0", "got -1"),
    "--set=data.validation=2": ("data.validation must lie in [0, 1)", "got 2"),
    "--set=data.validation=1": ("data.validation must lie in [0, 1)", "got 1"),
    "--set=data.augment=crops": ("one of none, crop, crop_flip, auto; got 'crops'.", "'crop'"),
    "--set=data.test=1.5": ("data.test=1.5", "below 1"),
    "--set=data.limit=0": ("data.limit=0", "whole number from 1"),
    "--set=data.label=labels": ("has no 'labels'", "x, y"),
    "--set=corruption.rate=0.4": ("corruption.rate is given, but no kind", "corruption.name="),
    "--set=net.width=wide": ("net.width must be a whole number", "got 'wide'"),
    "--set=train.epochs": ("--set takes table.key=value", "got 'train.epochs'"),
    "--set==3": ("--set takes table.key=value", "got '=3'"),
    "--set=train.=3": ("a setting is table.key", "got 'train.'"),
    "--seed=one": ("--seed", "one", "int"),
    "--momentum=0.9": ("--momentum", "selfadapt --help"),
}


@pytest.mark.parametrize("argument", [*NAMES, *VALUES])
def test_an_argument_that_cannot_be(argument: str, refused: Told) -> None:
    net = () if "net" in argument.partition(".")[0] else ("--net=mlp",)
    more = ("--net=mlp",) if "net.w" in argument else net
    told = refused(*more, argument)
    for part in (NAMES | VALUES)[argument]:
        assert part in told


@pytest.mark.parametrize("rate", ["1.5", "-0.1"])
def test_a_rate_of_noise_that_cannot_be(rate: str, refused: Told) -> None:
    told = refused("--set=corruption.name=uniform", f"--set=corruption.rate={rate}")
    assert f"corruption.rate must lie in [0, 1], got {rate}" in told


def test_smoothing_that_cannot_be(refused: Told) -> None:
    told = refused("--method=erm", "--set=method.smoothing=1")
    assert "method.smoothing must lie in [0, 1), got 1" in told


@pytest.mark.parametrize(
    ("net", "parts"),
    [
        ("test_bad_input:too_narrow", ("returned 2 numbers a sample, this task needs 3",)),
        ("test_bad_input:no_tensor", ("of type tuple, expected one tensor",)),
        ("test_bad_input:too_narow", ("unknown net in test_bad_input", "Did you mean")),
        ("nowhere:net", ("cannot import 'nowhere'",)),
        ("resnet18", ("takes images", "(6,)", "mlp")),
        ("timm:vit_tiny_patch16_224", ("timm",)),
    ],
)
def test_a_net_that_does_not_fit(net: str, parts: tuple[str, ...], refused: Told) -> None:
    told = refused(f"--net={net}")
    for part in parts:
        assert part in told


@pytest.mark.parametrize("name", ["dividemix", "dac", "mentornet", "joint_optimization"])
def test_a_method_that_needs_whole_steps(name: str, refused: Told) -> None:
    told = refused(f"--method={name}", "--set=train.accumulate=2", "--set=data.validation=0.2")
    assert "looks at all samples of a step together" in told
    assert "train.accumulate at 1, not 2" in told
    assert "smaller train.batch" in told


@pytest.mark.parametrize("more", [["train.batch=1"], ["train.batch=20", "train.accumulate=20"]])
def test_batch_norm_over_a_single_row(more: list[str], refused: Told) -> None:
    sets = [f"--set={setting}" for setting in more]
    told = refused("--net=test_bad_input:normalised_by_batch", *sets)
    for part in ("batch norm", "larger train.batch", "smaller train.accumulate"):
        assert part in told


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--method=erm", "--set=method.name=sat"), "method 'erm' and method.name='sat' are both"),
        (("--net=mlp", "--set=net.name=resnet18"), "net 'mlp' and net.name='resnet18' are both"),
    ],
)
def test_two_names_for_one_thing(arguments: tuple[str, ...], part: str, refused: Told) -> None:
    assert part in refused(*arguments)


def test_one_name_in_either_place(npz: Path, tmp_path: Path) -> None:
    sets = ("method.name=erm", "net.name=mlp", "train.epochs=1")
    for number, more in enumerate(([], ["--method=erm", "--net=mlp"])):
        out = tmp_path / str(number)
        command = ["fit", str(npz), "--out", str(out), *(f"--set={s}" for s in sets), *more]
        assert cli.run(command) == 0
        assert '"method": "erm"' in (out / "result.json").read_text()


def write_npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def write_csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


X = np.zeros((20, 3), np.float32)
Y = np.arange(20) % 2
DATA: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "missing": (lambda at: at / "photoz.csv", ("There is no file or folder", "photoz.csv")),
    "a name nobody knows": (lambda at: Path("cifar11"), ("'cifar11'", "Did you mean 'cifar10'?")),
    "a kind of file": (lambda at: write_csv(at / "a.txt", "x"), (".csv, .parquet or .npz",)),
    "an empty folder": (lambda at: at / "nothing", ("is empty",)),
    "images in no class folder": (lambda at: at / "loose", ("no class folders", "CSV")),
    "one class": (lambda at: write_npz(at / "a.npz", x=X, y=0 * Y), ("All", "class '0'", "two")),
    "fewer labels": (lambda at: write_npz(at / "a.npz", x=X, y=Y[:9]), ("20 samples", "9 labels")),
    "no y": (lambda at: write_npz(at / "a.npz", x=X, label=Y), ("has no 'y'", "x, label")),
    "NaN labels": (
        lambda at: write_npz(at / "a.npz", x=X, y=np.where(Y == 1, np.nan, 0)),
        ("no label (NaN) in rows 1, 3",),
    ),
    "negative": (lambda at: write_npz(at / "a.npz", x=X, y=Y - 1), ("-1 in rows 0, 2", "negative")),
    "fractions": (lambda at: write_npz(at / "a.npz", x=X, y=Y / 2), ("0.5 in rows 1", "whole")),
    "NaN inputs": (lambda at: write_npz(at / "a.npz", x=X + np.nan, y=Y), ("x is not finite",)),
    "class unseen": (
        lambda at: write_npz(at / "a.npz", x=X, y=Y, x_test=X[:3], y_test=np.array([0, 1, 2])),
        ("test part",),
    ),
    "no npz": (lambda at: write_csv(at / "a.npz", "x"), ("is not an .npz file",)),
    "no label column": (
        lambda at: write_csv(at / "a.csv", "width,height,lable", "1,2,a", "2,1,b"),
        ("no column called label", "width, height, lable", "data.label=NAME"),
    ),
    "empty labels": (
        lambda at: write_csv(at / "a.csv", "width,label", "1,cat", "2,", "3,dog"),
        ("no label", "row 1"),
    ),
    "twice the same id": (
        lambda at: write_csv(at / "a.csv", "id,width,label", "a,1,x", "a,2,y", "b,3,x"),
        ("'a'", "id of its own"),
    ),
    "no files": (
        lambda at: write_csv(at / "a.csv", "path,label", "one.jpg,cat", "two.jpg,dog"),
        ("none of the first", "one.jpg", "data.root"),
    ),
    "an empty table": (lambda at: write_csv(at / "a.csv", "path,label"), ("has no rows",)),
}


@pytest.mark.parametrize("kind", DATA)
def test_data_that_cannot_be_read(kind: str, tmp_path: Path, refused: Told) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "loose").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "loose" / "a.png")
    make, parts = DATA[kind]
    told = refused("--net=mlp", data=make(tmp_path))
    for part in parts:
        assert part in told


def test_a_column_that_does_not_exist(tmp_path: Path, refused: Told) -> None:
    table = write_csv(tmp_path / "a.csv", "width,class_name", "1,cat", "2,dog")
    told = refused("--net=mlp", "--set=data.label=clas_name", data=table)
    assert "Did you mean 'class_name'?" in told


def test_a_start_after_the_end_is_only_a_warning(
    npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--net=mlp", "--set=train.epochs=2", "--set=method.start=2"]
    assert cli.run(["fit", str(npz), "--out", str(tmp_path / "run"), *more]) == 0
    told = capsys.readouterr().out
    assert "warning: method.start=2 is not before the last epoch" in told
    assert "plain training" in told


def test_other_settings_that_come_to_nothing_are_warned_of(
    npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ("train.epochs=2", "train.warmup=2", "data.validation=0.001")
    more = ["--net=mlp", *(f"--set={one}" for one in sets)]
    assert cli.run(["fit", str(npz), "--out", str(tmp_path / "run"), *more]) == 0
    told = capsys.readouterr().out
    assert "warning: train.warmup=2 is not before the last epoch" in told
    assert "warning: data.validation=0.001 of 150 samples" in told


def test_after_a_run_that_saved_nothing_other_settings_may_follow(
    npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loss that became NaN before the first checkpoint, say: what it advises can be done."""
    out = tmp_path / "run"
    command = ["fit", str(npz), "--out", str(out), "--net=mlp", "--set=train.epochs=2"]
    assert cli.run([*command, "--set=train.lr=1e30"]) != 0
    assert "Nothing had been saved yet" in capsys.readouterr().err
    assert cli.run([*command, "--set=train.lr=0.1"]) == 0
    assert json.loads((out / "run.json").read_text())["settings"]["train"]["lr"] == 0.1


def test_settings_of_a_run_are_refused_where_it_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["predict", "a", "x.npz", "--to=p.csv", "--set=train.epochs=3"]) == 2
    assert "train.epochs is a setting of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["fit", "digits"], "--out"),
        (["fit", "--out", "run"], "DATA"),
        (["train", "digits"], "train"),
        (["labels", "run"], "--to"),
        (["predict", "run", "--to", "a.csv"], "DATA"),
        (["demo"], "--out"),
        (["demo", "--out", "demo", "--seeds", "0"], "at least 1; got 0"),
        (["list", "everything"], "everything"),
    ],
)
def test_a_command_that_lacks_something(
    arguments: list[str],
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) == 2
    told = capsys.readouterr().err
    assert part in told
    assert "Traceback" not in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("argument", ["--set=data.validation=2", "--set=method.momentum=1"])
def test_a_directory_made_beforehand_stays(argument: str, npz: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert cli.run(["fit", str(npz), "--net=mlp", "--out", str(tmp_path / "run"), argument]) == 2
    assert list((tmp_path / "run").iterdir()) == []


def test_a_loss_that_explodes(
    npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--net=mlp", "--set=train.lr=1e30", "--set=train.epochs=5", "--set=train.batch=50"]
    assert cli.run(["fit", str(npz), "--out", str(tmp_path / "run"), *more]) == 2
    told = capsys.readouterr().err
    assert "became NaN or infinite" in told
    assert "epoch 0, step" in told
    assert "(training rows" in told
    assert "Traceback" not in told
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_disk_that_is_full(
    npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from selfadapt import rundir

    def full(_: int) -> None:
        raise OSError(28, "No space left on device", "run.json")

    command = ["fit", str(npz), "--out", str(tmp_path / "run"), "--net=mlp"]
    command += ["--set=train.epochs=2"]
    monkeypatch.setattr(rundir.os, "fsync", full)
    assert cli.run(command) == 2
    told = capsys.readouterr().err
    assert "No space left on device for run.json: make room" in told
    assert "Traceback" not in told
    monkeypatch.undo()
    assert cli.run(command) == 0


def test_the_error_of_an_error_is_no_secret(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody foresaw is shown with its traceback, as it must be to be reported."""
    from selfadapt import experiment

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(experiment, "make_parts", broken)
    with pytest.raises(ZeroDivisionError):
        cli.run(["fit", str(npz), "--out", str(tmp_path / "run"), "--net=mlp"])
