"""Ctrl-C and SIGTERM save and end a run in seconds; two processes never share a run directory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support import PATIENCE, Child, Starter, blobs

import selfadapt
from selfadapt import cli, errors
from selfadapt.engine import stop as stopping
from selfadapt.engine.checkpoint import latest_checkpoint
from selfadapt.engine.stop import stop_when_asked
from selfadapt.rundir import RunDir

SETTINGS = (
    *("train.epochs=150", "train.batch=20", "method.start=5", "net.width=16"),
    *("train.precision=fp32", "train.save_seconds=1000"),
)
SOON = 10.0


def command(data: Path, out: Path, *more: str) -> list[str]:
    sets = [f"--set={setting}" for setting in (*SETTINGS, *more)]
    return ["fit", str(data), "--out", str(out), "--net", "mlp", *sets]


def call(arguments: list[str]) -> tuple[int, str]:
    """The command's exit code, and what it said on its standard error."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        code = cli.run(arguments)
    return code, told.getvalue()


def wait_for_epoch(out: Path, child: Child | None = None) -> None:
    end = time.monotonic() + PATIENCE
    while not (out / "log.jsonl").exists():
        assert time.monotonic() < end
        assert child is None or not child.ended(0), child.returned()
        time.sleep(0.001)


def same_but_for_times(one: Path, other: Path) -> bool:
    lines = [RunDir(folder).log() for folder in (one, other)]
    for line in (*lines[0], *lines[1]):
        del line["seconds"], line["samples_per_second"]
    names = ("labels.parquet", "signals.safetensors")
    bytes_alike = all((one / name).read_bytes() == (other / name).read_bytes() for name in names)
    return bytes_alike and lines[0] == lines[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(number: int, npz: Path, tmp_path: Path, processes: Starter) -> None:
    out = tmp_path / "run"
    child = processes.start(call, command(npz, out))
    wait_for_epoch(out, child)
    asked = time.monotonic()
    child.kill(number)
    code, told = child.returned()
    assert time.monotonic() - asked < SOON
    assert code == 128 + number
    assert told == f"selfadapt: stopped; everything is saved in {out}. " + (
        "The same command goes on from here\n"
    )
    stood = latest_checkpoint(out / "checkpoints")
    assert stood is not None
    assert 0 < stood.progress["epoch"] < 150
    assert not (out / "result.json").exists()
    assert processes.start(call, command(npz, out)).returned() == (0, "")
    assert processes.start(call, command(npz, tmp_path / "whole")).returned() == (0, "")
    assert same_but_for_times(out, tmp_path / "whole")


def test_the_command_itself(npz: Path, tmp_path: Path) -> None:
    """A real process, as a person starts it."""
    out = tmp_path / "run"
    full = [sys.executable, "-m", "selfadapt", *command(npz, out)]
    started = subprocess.Popen(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_epoch(out)
    started.send_signal(signal.SIGINT)
    _, told = started.communicate(timeout=SOON)
    assert started.returncode == 130
    assert "The same command goes on from here" in told
    assert "Traceback" not in told


def measuring_long(data: Path, out: Path) -> tuple[int, str]:
    """As `call`, where one pass over the test part takes minutes."""
    from selfadapt.data.feed import Feed

    parts = Feed.plain_parts

    def slowly(self: Feed, rows: np.ndarray) -> object:
        long = np.resize(rows, 512 * 2000) if len(rows) == 40 else rows  # those to test on
        for number, read in enumerate(parts(self, long)):
            if len(rows) != 40:
                yield read
                continue
            (out / "measuring").write_text(str(number))
            time.sleep(0.1)
            yield read

    Feed.plain_parts = slowly  # type: ignore[assignment, method-assign]
    return call(command(data, out))


def test_asked_while_measuring(npz: Path, tmp_path: Path, processes: Starter) -> None:
    out = tmp_path / "run"
    child = processes.start(measuring_long, npz, out)
    while not (out / "measuring").exists():
        assert not child.ended(0), child.returned()
        time.sleep(0.01)
    child.kill(signal.SIGTERM)
    assert child.returned()[0] == 143
    (out / "measuring").unlink()
    stood = latest_checkpoint(out / "checkpoints")
    assert stood is not None
    assert stood.progress["ended"]
    assert not (out / "log.jsonl").exists()
    assert processes.start(call, command(npz, out)).returned() == (0, "")
    assert processes.start(call, command(npz, tmp_path / "whole")).returned() == (0, "")
    assert same_but_for_times(out, tmp_path / "whole")


def test_asked_before_training(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is under way that would have to be saved: it ends at once, and says so."""
    from selfadapt import experiment

    def slow(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(experiment, "_loaded", slow)
    code, told = call(command(npz, tmp_path / "run"))
    assert code == 143
    assert told.startswith("selfadapt: stopped; the same command goes on")
    assert not (tmp_path / "run").exists()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_signal_that_comes_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the terminal and from the launcher; only somebody impatient stops at once."""
    handler = signal.getsignal(signal.SIGTERM)
    with stop_when_asked() as stop:
        assert not stop.asked
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert stop.asked == signal.SIGINT
        monkeypatch.setattr(stopping, "_IMPATIENT", 0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_thread_can_train_too(tmp_path: Path) -> None:
    """Only the main thread may handle signals; another one goes without."""
    done = []

    def train() -> None:
        settings = {"train.epochs": 1, "net.width": 4}
        done.append(selfadapt.fit(blobs(), out=tmp_path / "run", net="mlp", settings=settings))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join(PATIENCE)
    assert done[0].result["epochs"] == 1


def test_a_second_process_is_refused(npz: Path, tmp_path: Path, processes: Starter) -> None:
    out = tmp_path / "run"
    first = processes.start(call, command(npz, out, "train.epochs=100000"))
    wait_for_epoch(out, first)
    code, told = processes.start(call, command(npz, out, "train.epochs=100000")).returned()
    assert code == 2
    assert f"is in use by process {first.pid}" in told
    assert call(command(npz, out))[0] == 2  # nor with other settings
    first.kill(signal.SIGKILL)
    assert first.ended()
    (out / "log.jsonl").unlink()
    third = processes.start(call, command(npz, out, "train.epochs=100000"))
    wait_for_epoch(out, third)
    third.kill(signal.SIGTERM)
    assert third.returned()[0] == 143, "the lock outlived its process"


def test_one_process_is_no_exception(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    with run.lock():
        with pytest.raises(errors.RunInUse, match=f"in use by process {os.getpid()}"):
            RunDir(tmp_path / ".." / tmp_path.name).lock().__enter__()
        with pytest.raises(errors.RunInUse):
            selfadapt.fit(blobs(), out=tmp_path, net="mlp")
    with run.lock():
        pass


def orphan(folder: Path) -> int:
    """Hold the lock, leave a child behind that was forked from us, and be killed."""
    lock = RunDir(folder).lock()
    lock.__enter__()
    child = os.fork()
    if child == 0:
        time.sleep(PATIENCE)
        os._exit(0)
    (folder / "child").write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_worker_processes_do_not_keep_the_lock(tmp_path: Path, processes: Starter) -> None:
    assert processes.start(orphan, tmp_path).ended()
    child = int((tmp_path / "child").read_text())
    try:
        with RunDir(tmp_path).lock():
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_finished_run_says_so(npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    short = command(npz, tmp_path / "run", "train.epochs=1")
    assert cli.run(short) == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert cli.run(short) == 0
    told = capsys.readouterr().out
    assert "is finished already; nothing to do" in told
    assert "selfadapt labels" in told
    del before[tmp_path / "run" / ".lock"]
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_of_another_recipe_is_refused(
    finished: bool, npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "run"
    assert cli.run(command(npz, out, "train.epochs=1")) == 0
    if not finished:
        (out / "result.json").unlink()
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert cli.run([*command(npz, out, "train.epochs=1", "train.lr=0.3"), "--seed", "7"]) == 2
    told = capsys.readouterr().err
    assert "holds a run with other settings" in told
    assert "seed: 1 there, 7 now" in told
    assert "train.lr: None there, 0.3 now" in told
    assert "Name another directory" in told
    assert files == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_data_that_changed_since_is_refused(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert cli.run(command(npz, out, "train.epochs=1")) == 0
    (out / "result.json").unlink()
    arrays = dict(np.load(npz))
    arrays["y"][0] = (arrays["y"][0] + 1) % 3
    np.savez(npz, **arrays)
    code, told = call(command(npz, out, "train.epochs=1"))
    assert code == 2
    assert "was begun with other labels" in told


def test_other_arrays_are_another_run(tmp_path: Path) -> None:
    settings = {"train.epochs": 1, "net.width": 4}
    (x, y), out = blobs(), tmp_path / "run"
    selfadapt.fit((x, y), out=out, net="mlp", settings=settings)
    selfadapt.fit({"x": x, "y": y}, out=out, net="mlp", settings=settings)
    with pytest.raises(errors.RunMismatch, match=r"data\.labels"):
        selfadapt.fit((x, (y + 1) % 3), out=out, net="mlp", settings=settings)


def test_places_that_are_no_run(npz: Path, tmp_path: Path) -> None:
    for name, told in (
        ("file", "is a file; a run needs a directory of its own"),
        ("file/below", "cannot be made: Not a directory; name another one"),
        ("photos", "is not empty and not a run (it holds 'cat.jpg'); name another directory"),
        ("n" * 300, "cannot be made: File name too long"),
    ):
        if name == "file":
            (tmp_path / name).write_text("mine")
        if name == "photos":
            (tmp_path / name).mkdir()
            (tmp_path / name / "cat.jpg").write_text("mine")
        code, message = call(command(npz, tmp_path / name))
        assert code == 2
        assert told in message
        assert "Traceback" not in message
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_a_place_that_cannot_be_written(npz: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / ".lock").mkdir(parents=True)
    code, told = call(command(npz, tmp_path / "run"))
    assert code == 2
    assert "run cannot be written to: Is a directory" in told


def test_result_only_with_run(tmp_path: Path, npz: Path) -> None:
    """A result.json of somebody else's is not a finished run of ours."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "result.json").write_text(json.dumps({"score": 1}))
    code, told = call(command(npz, tmp_path / "theirs"))
    assert code == 2
    assert "is not a run: it has no run.json" in told
