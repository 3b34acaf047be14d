"""Files that are there whole or not at all, and what a run directory is taken for."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from support import Starter

from selfadapt.errors import BadInput, DamagedFile
from selfadapt.rundir import RunDir, write_atomically


def test_the_old_file_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["labels.parquet"]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "labels.parquet"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["labels.parquet"]


def write_and_die(path: Path, moment: int) -> None:
    """Be killed just before the `moment`-th opening or renaming of a file there."""
    left = [moment]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove") and str(path.parent) in str(arguments[0]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    write_atomically(path, b"new" * 1000)


def test_killed_while_writing(tmp_path: Path, processes: Starter) -> None:
    found = []
    for moment in range(1, 7):
        path = tmp_path / str(moment) / "result.json"
        path.parent.mkdir()
        path.write_bytes(b"old")
        assert processes.start(write_and_die, path, moment).ended()
        found.append(path.read_bytes()[:3])
    assert found[0] == b"old"
    assert found[-1] == b"new"
    assert found == sorted(found, reverse=True)


def test_status(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    assert run.status() == "new"
    assert run.create()
    assert not run.create()
    run.write_json(run.run_file, {"settings": {"seed": 1}})
    assert run.status() == "partial"
    assert run.settings() == {"seed": 1}
    run.write_json(run.result_file, {})
    assert run.status() == "done"


def test_a_directory_with_hidden_files_is_empty(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    assert not RunDir(tmp_path).create()


def test_leaving_a_run_that_did_not_begin(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "runs" / "a")
    made = run.create()
    with run.lock():
        run.leave(made)
    assert not any(tmp_path.iterdir())
    made = run.create()
    with run.lock():
        (run.path / "theirs").touch()
        run.leave(made)
    assert [path.name for path in run.path.iterdir()] == ["theirs"]
    with run.lock():
        run.write_json(run.run_file, {})
        run.leave(made)
    assert run.run_file.exists()


def test_leaving_a_folder_that_was_there(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "empty")
    run.path.mkdir()
    with run.lock():
        run.leave(run.create())
    assert run.path.is_dir()
    assert not any(run.path.iterdir())


def test_the_log_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert run.log() == []
    for epoch in range(4):
        run.append_log({"epoch": epoch, "loss": epoch / 3})
    whole = run.log_file.read_bytes()
    run.log_file.write_bytes(whole[:-4])
    assert [line["epoch"] for line in run.log()] == [0, 1, 2]
    run.log_file.write_bytes(whole)
    run.cut_log(2)
    assert run.log() == [{"epoch": 0, "loss": 0.0}, {"epoch": 1, "loss": 1 / 3}]
    run.append_log({"epoch": 2, "loss": 2 / 3})
    run.append_log({"epoch": 3, "loss": 1.0})
    assert run.log_file.read_bytes() == whole


def test_json_that_cannot_be_read(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    with pytest.raises(BadInput, match=r"is not a run: it has no run\.json"):
        run.read_json(run.run_file)
    for text in ('{"a": ', "[1]", "\x00\x00"):
        run.run_file.write_text(text)
        with pytest.raises(DamagedFile, match=r"run\.json"):
            run.read_json(run.run_file)
    run.run_file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(DamagedFile, match=r"run\.json"):
        run.read_json(run.run_file)


def test_no_json_that_others_cannot_read(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    for write in (lambda: run.append_log({"loss": float("nan")}), lambda: _nan(run)):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write()
    assert not list(tmp_path.iterdir()) or run.log() == []
    run.write_json(run.run_file, {"classes": ["Käse", "🐈"]})
    assert json.loads(run.run_file.read_text(encoding="utf-8")) == {"classes": ["Käse", "🐈"]}


def _nan(run: RunDir) -> None:
    run.write_json(run.result_file, {"accuracy": float("nan")})
