"""Several processes compute what one would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from PIL import Image
from support import PATIENCE, Starter, blobs
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import selfadapt
from selfadapt import distributed, methods, nets
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import InMemory, Rows
from selfadapt.engine.checkpoint import latest_checkpoint
from selfadapt.engine.evaluate import probabilities
from selfadapt.engine.fit import fit
from selfadapt.engine.machine import this_machine
from selfadapt.engine.plan import Plan
from selfadapt.engine.work import Parts
from selfadapt.errors import Interrupted
from selfadapt.rundir import RunDir

Found = dict[str, np.ndarray]


class Repeating(Feed):
    """Every batch holds some of its rows twice, and some rows of the batch before."""

    def batches(self, epoch: int) -> list[Rows]:
        before = np.zeros(0, np.int64)
        repeated = []
        for rows in super().batches(epoch):
            repeated.append(np.concatenate([rows, rows[:7], before[:5]]))
            before = rows
        return repeated


def parts(kind: str, samples: int, batch: int) -> tuple[Parts, tuple[int, ...]]:
    if kind == "pictures":
        random = np.random.default_rng(0)
        y = random.integers(0, 3, samples)
        x = random.integers(0, 255, (samples, 8, 8, 1), dtype=np.uint8)
    else:
        x, y = blobs(samples)
    inputs = InMemory(torch.from_numpy(x))
    made = Repeating if kind == "repeating" else Feed
    feed = made(inputs, np.arange(samples), seed=3, batch=batch)
    test = Feed(inputs, np.arange(0, samples, 3))
    held = np.zeros(0, np.int64)
    return Parts(feed, y, range(samples), held, None, test, y[::3]), inputs.shape


def train(folder: Path, kind: str, samples: int, settings: dict[str, Any]) -> Found:
    """The engine alone, so that what each process holds at the end can be looked at."""
    machine = this_machine("fp32")
    plan = Plan(**{"epochs": 4, "lr": 0.2, "save_seconds": 1000.0, **settings})
    data, shape = parts(kind, samples, plan.batch)
    net, width = ("small_cnn", 4) if kind == "pictures" else ("mlp", 16)
    torch.manual_seed(7)
    make_net = nets.maker(net, shape, options={"width": width})
    labels = torch.from_numpy(data.labels)
    method = methods.build("sat", make_net, labels, 3, {"start": 1, "momentum": 0.7})
    outcome = fit(method, data, plan, RunDir(folder), machine, seed=3)
    assert outcome.signals is not None
    state = {**method.state_dict(), **outcome.signals.averages()}
    state["predicted"] = probabilities(method, data.train, machine)
    return {name: value.numpy() for name, value in state.items()}


def assert_alike(one: Found, other: Found, tolerance: float = 1e-5) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=0, atol=tolerance, err_msg=name)


CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "uneven last batch": ("points", 150, {"batch": 32}),
    "tail joined": ("points", 131, {"batch": 16}),
    "accumulation": ("points", 150, {"batch": 32, "accumulate": 3}),
    "repeated rows": ("repeating", 150, {"batch": 32}),
    "clipping and adam": ("points", 150, {"batch": 32, "clip": 0.1, "optimizer": "adam"}),
    "fewer rows than processes": ("points", 20, {"batch": 3, "epochs": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_one_two_and_four_processes_agree(case: str, tmp_path: Path, processes: Starter) -> None:
    kind, samples, settings = CASES[case]
    settings = {**settings, "lr": 0.01} if "optimizer" in settings else settings
    found = {}
    for size in (1, 2, 4):
        folder = tmp_path / str(size)
        folder.mkdir()
        members = processes.group(size, train, folder, kind, samples, settings)
        for member in members[1:]:
            for name in ("targets.table", "targets.moved_in", "mean_probs", "forgotten"):
                np.testing.assert_array_equal(member[name], members[0][name], err_msg=name)
            assert_alike(members[0], member, 0)
        found[size] = members[0]
        log = RunDir(folder).log()
        assert [line["epoch"] for line in log] == list(range(settings.get("epochs", 4)))
        whole = RunDir(tmp_path / "1").log()
        for line, expected in zip(log, whole, strict=True):
            for name in ("loss", "train_accuracy", "test_accuracy", "labels_changed"):
                assert line[name] == pytest.approx(expected[name], abs=1e-5), name
    assert np.abs(found[1]["targets.table"] - np.eye(3)[blobs(samples)[1]]).max() > 0.02
    assert_alike(found[1], found[2])
    assert_alike(found[1], found[4])


def test_batch_norm_is_alike_on_all_processes(tmp_path: Path, processes: Starter) -> None:
    first, second = processes.group(2, train, tmp_path, "pictures", 96, {"batch": 32})
    statistics = [name for name in first if "running_" in name]
    assert statistics
    assert_alike(first, second, 0)
    assert any(np.abs(first[name]).max() > 0.01 for name in statistics)


def talk() -> dict[str, Any]:
    this_machine("fp32")
    me = distributed.rank()
    rows = torch.arange(me * 10, me * 10 + 3 * me)  # none on the first, then 3, 6, 9
    values = torch.stack([rows * 1.5, rows * 0.0 + me], dim=1)
    norm = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    norm[0].running_mean.fill_(me)
    norm[0].running_var.copy_(torch.tensor([me, 10.0 * me]))
    norm[0].num_batches_tracked.fill_(5)
    distributed.average_batchnorm(norm)
    distributed.average_batchnorm(nn.Linear(1, 1))
    untouched = torch.ones(2)
    all_rows, all_values = distributed.gather_rows(rows, values)
    return {
        "rows": all_rows.numpy(),
        "values": all_values.numpy(),
        "sum": distributed.sum_over(untouched * (me + 1)).numpy(),
        "mean": norm[0].running_mean.numpy(),
        "var": norm[0].running_var.numpy(),
        "batches": int(norm[0].num_batches_tracked),
        "first": distributed.from_first(f"from {me}"),
        "all": distributed.from_all({me: "x"}),
        "part": distributed.my_part(torch.arange(10)).numpy(),
        "is_first": distributed.is_first(),
    }


def test_what_processes_tell_each_other(processes: Starter) -> None:
    found = processes.group(4, talk)
    rows = np.concatenate([np.arange(10 * i, 10 * i + 3 * i) for i in range(4)])
    rank = np.repeat(np.arange(4), 3 * np.arange(4))
    for member in found:
        np.testing.assert_array_equal(member["rows"], rows)
        np.testing.assert_array_equal(member["values"], np.stack([rows * 1.5, rank], axis=1))
        np.testing.assert_array_equal(member["sum"], [10, 10])
        np.testing.assert_allclose(member["mean"], [1.5, 1.5])
        np.testing.assert_allclose(member["var"], [1.5, 15])
        assert member["batches"] == 5
        assert member["first"] == "from 0"
        assert member["all"] == [{0: "x"}, {1: "x"}, {2: "x"}, {3: "x"}]
    np.testing.assert_array_equal(np.concatenate([f["part"] for f in found]), np.arange(10))
    assert {len(member["part"]) for member in found} == {2, 3}
    assert [member["is_first"] for member in found] == [True, False, False, False]


def test_alone_everything_stays_as_it_is() -> None:
    rows, values = torch.arange(3), torch.rand(3, 2)
    assert distributed.gather_rows(rows, values) == (rows, values)
    assert distributed.sum_over(values) is values
    assert distributed.from_first("a") == "a"
    assert distributed.from_all("a") == ["a"]
    assert distributed.my_part(rows).tolist() == [0, 1, 2]


def own_loop(cuts: list[int], repeats: bool) -> Found:
    """Somebody's own loop with the wrapper of torch; `cuts` says which rows each process has."""
    this_machine("fp32")
    x, y = (torch.from_numpy(array) for array in blobs(40))
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    model = DistributedDataParallel(net) if distributed.processes() > 1 else net
    loss_fn = selfadapt.SelfAdaptiveLoss(y, 3, start=1, momentum=0.6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    losses, gradients = [], []
    for epoch in range(4):
        for rows in torch.randperm(40, generator=torch.Generator().manual_seed(epoch)).split(16):
            whole = torch.cat([rows, rows[:3]]) if repeats else rows
            ends = [0, *(min(cut, len(whole)) for cut in cuts), len(whole)]
            mine = whole[ends[distributed.rank()] : ends[distributed.rank() + 1]]
            optimizer.zero_grad()
            loss = loss_fn(model(x[mine]), mine, epoch)
            loss.backward()
            losses.append(float(distributed.sum_over(loss.detach())) / distributed.processes())
            gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
            optimizer.step()
    return {
        "losses": np.array(losses),
        "gradients": torch.stack(gradients).numpy(),
        "beliefs": loss_fn.beliefs().numpy(),
    }


@pytest.mark.parametrize("cut", [8, 5, 0])
@pytest.mark.parametrize("repeats", [False, True])
def test_the_loss_in_a_loop_of_ones_own(cut: int, repeats: bool, processes: Starter) -> None:
    alone = own_loop([], repeats)
    first, second = processes.group(2, own_loop, [cut], repeats)
    np.testing.assert_array_equal(first["beliefs"], second["beliefs"])
    assert_alike(alone, first)
    assert np.abs(alone["beliefs"] - np.eye(3)[blobs(40)[1]]).max() > 0.1


SETTINGS = {
    "train.epochs": 6,
    "train.batch": 24,
    "train.precision": "fp32",
    "train.save_seconds": 0.0001,
    "method.start": 2,
    "corruption.name": "uniform",
    "net.width": 16,
    "data.validation": 0.2,
}


def whole_run(folder: Path, method: str = "sat") -> Any:
    settings = {k: v for k, v in SETTINGS.items() if method == "sat" or k != "method.start"}
    try:
        run = selfadapt.fit(blobs(), out=folder, method=method, net="mlp", settings=settings)
        return run.files.status()
    except Interrupted as stopped:
        return stopped.exit_code


@pytest.mark.parametrize("method", ["sat", "erm"])
def test_a_whole_run_on_two_processes(method: str, tmp_path: Path, processes: Starter) -> None:
    assert processes.group(1, whole_run, tmp_path / "1", method) == ["done"]
    assert processes.group(2, whole_run, tmp_path / "2", method) == ["done", "done"]
    one, two = (selfadapt.open_run(tmp_path / name) for name in "12")
    assert (one.about["resolved"]["processes"], two.about["resolved"]["processes"]) == (1, 2)
    assert one.about["noise"] == two.about["noise"]
    for name in ("given", "corrected", "part", "id"):
        assert one.labels[name] == two.labels[name], name
    beliefs = [run.labels["belief_given"].to_numpy(zero_copy_only=False) for run in (one, two)]
    np.testing.assert_allclose(beliefs[0], beliefs[1], atol=1e-5)
    for name in ("accuracy", "labels_changed", "labels_right", "training"):
        assert one.result[name] == pytest.approx(two.result[name], abs=1e-5)


def streamed_run(photos: Path, folder: Path, method: str) -> str:
    """As a set too large for memory is read: file by file, when a batch needs it."""
    from selfadapt.data import images

    images.IN_MEMORY = 0
    settings = {"train.epochs": 2, "train.batch": 16, "train.workers": 0, "data.test": 0.0}
    settings["train.precision"] = "fp32"
    run = selfadapt.fit(photos, out=folder, method=method, net="mlp", settings=settings)
    return run.files.status()


@pytest.mark.parametrize("method", ["sat", "erm"])
def test_what_one_process_cannot_read_all_leave_out(
    method: str, tmp_path: Path, processes: Starter
) -> None:
    random = np.random.default_rng(0)
    for number in range(60):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(path)
        if number in (7, 20, 33):
            path.write_bytes(path.read_bytes()[:60])
    tables = []
    for size in (1, 2):
        out = tmp_path / str(size)
        assert processes.group(size, streamed_run, tmp_path / "photos", out, method) == (
            ["done"] * size
        )
        run = selfadapt.open_run(out)
        assert run.result["training"] == 57
        tables.append(run.labels)
    assert tables[0]["part"].to_pylist().count("unreadable") == 3
    left_out = tables[0]["id"].filter(pc.equal(tables[0]["part"], "unreadable")).to_pylist()
    assert sorted(left_out) == ["a/20.png", "b/07.png", "b/33.png"]
    assert tables[0]["part"] == tables[1]["part"]
    for name in ("belief_given", "belief_corrected"):
        one, two = (table[name].fill_null(-1).to_numpy() for table in tables)
        np.testing.assert_allclose(one, two, atol=1e-5)


def saved(folder: Path) -> int:
    names = (path.name for path in (folder / "checkpoints").glob("[0-9]*"))
    return max(map(int, names), default=0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_on_two_processes_goes_on(number: int, tmp_path: Path, processes: Starter) -> None:
    """Killed, both are gone at once; asked, one is told and both stop with the same step saved."""
    folder = tmp_path / "stopped"
    stood = []
    for saves in (3, 5, 4):
        goal = saved(folder) + saves
        children = processes.start_group(2, whole_run, folder)
        while saved(folder) < goal and not children[0].ended(0):
            time.sleep(0.0005)
        if number == signal.SIGKILL:
            for child in children:
                child.kill(number)
            assert all(child.ended() for child in children)
        else:
            children[1].kill(number)
            assert [child.returned() for child in children] == [143, 143]
        found = latest_checkpoint(folder / "checkpoints")
        assert found is not None
        stood.append((found.progress["epoch"], found.progress["step"]))
    assert len(set(stood)) == 3
    assert processes.group(2, whole_run, folder) == ["done", "done"]
    assert processes.group(2, whole_run, tmp_path / "whole") == ["done", "done"]
    for name in ("labels.parquet", "signals.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert [line["epoch"] for line in RunDir(folder).log()] == list(range(6))


def refused(folder: Path) -> str:
    try:
        whole_run(folder)
    except selfadapt.errors.SelfAdaptError as error:
        return str(error)
    return "not refused"


def test_a_refusal_reaches_every_process(tmp_path: Path, processes: Starter) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    told = processes.group(2, refused, tmp_path)
    assert told[0] == told[1]
    assert "not a run (it holds 'notes.txt')" in told[0]


def full_disk(folder: Path) -> str:
    from selfadapt.engine import checkpoint

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if distributed.rank() == 0:
        checkpoint.save_file = full
    return refused(folder)


def test_a_full_disk_stops_every_process(tmp_path: Path, processes: Starter) -> None:
    told = processes.group(2, full_disk, tmp_path / "run")
    assert told[0] == told[1]
    assert "No space left on device" in told[0]


class Strange(Exception):
    """It cannot be copied to another process."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def fail(kind: str) -> tuple[str, str]:
    this_machine("fp32")

    def work() -> str:
        assert distributed.rank() == 0
        if kind == "strange":
            raise Strange("a", "b")
        if kind == "missing":
            Path("/no/such/file").read_text()
        return "done"

    try:
        return "returned", distributed.on_first(work)
    except Exception as error:
        return type(error).__name__, str(error)


def test_the_first_process_fails_for_all(processes: Starter) -> None:
    assert processes.group(2, fail, "not") == [("returned", "done")] * 2
    first, second = processes.group(2, fail, "missing")
    assert first == second
    assert first[0] == "FileNotFoundError"
    first, second = processes.group(2, fail, "strange")
    assert first == ("Strange", "ab")
    assert second == ("SelfAdaptError", "the first process failed: Strange: ab")
    assert fail("not") == ("returned", "done")


def full_log(folder: Path, name: str) -> str:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if os.environ["RANK"] == "0":
        setattr(RunDir, name, full)
    try:
        return str(whole_run(folder))
    except OSError as error:
        return str(error)


@pytest.mark.parametrize("name", ["append_log", "cut_log", "write_json"])
def test_a_file_that_cannot_be_written_stops_every_process(
    name: str, tmp_path: Path, processes: Starter
) -> None:
    assert (
        processes.group(2, full_log, tmp_path / "run", name)
        == ["[Errno 28] No space left on device"] * 2
    )


def asked_while_measuring(folder: Path) -> Any:
    """Only the second process gets the signal, and no training step follows."""
    from selfadapt.engine import measure

    done = measure.probabilities

    def asked(*arguments: Any) -> Any:
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return done(*arguments)

    measure.probabilities = asked
    return whole_run(folder)


def test_a_stop_while_measuring_reaches_every_process(tmp_path: Path, processes: Starter) -> None:
    assert processes.group(2, asked_while_measuring, tmp_path / "run") == [143, 143]
    found = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert found is not None
    assert found.progress["ended"]
    assert found.progress["epoch"] == 0
    assert not (tmp_path / "run" / "log.jsonl").exists()


@pytest.mark.slow
def test_the_command_under_a_launcher(npz: Path, tmp_path: Path) -> None:
    """`python -m torch.distributed.run`, which is what torchrun starts."""
    sets = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    command = ["-m", "selfadapt", "fit", str(npz), "--net", "mlp", *sets]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for folder, before in (("1", []), ("2", launcher)):
        told = subprocess.run(
            [sys.executable, *before, *command, "--out", str(tmp_path / folder)],
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        assert told.stdout.count("Everything is in") == 1
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in "12")
    assert one["accuracy"] == pytest.approx(two["accuracy"], abs=1e-5)
    run = json.loads((tmp_path / "2" / "run.json").read_text())
    assert run["resolved"]["processes"] == 2


@pytest.mark.slow
def test_ctrl_c_under_a_launcher(npz: Path, tmp_path: Path) -> None:
    """The terminal sends it to all, and the launcher sends it to its processes once more."""
    sets = ["--set=train.epochs=100000", "--set=train.batch=20", "--set=train.save_seconds=1000"]
    started = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("-m", "selfadapt", "fit", str(npz), "--out", str(tmp_path / "run"), "--net", "mlp"),
            *sets,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while not (tmp_path / "run" / "log.jsonl").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    _, told = started.communicate(timeout=PATIENCE)
    assert told.count("selfadapt: stopped; everything is saved in") == 1
    assert latest_checkpoint(tmp_path / "run" / "checkpoints") is not None
