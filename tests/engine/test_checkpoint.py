"""A checkpoint is whole, or it is not there at all."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from support import Starter
from torch import nn

from selfadapt.engine import checkpoint as checkpoints
from selfadapt.engine.checkpoint import Checkpoint, latest_checkpoint, save_checkpoint
from selfadapt.errors import DamagedFile, SelfAdaptError

FILES = ("tensors.safetensors", "optimizer.pt", "progress.json", "manifest.json")


def numbered(value: int) -> Checkpoint:
    tensors = {"method.weight": torch.full((50,), float(value)), "count": torch.tensor(value)}
    return Checkpoint(tensors, {"state": {0: {"step": value}}}, {"epoch": value, "total": 0.1})


def stands_at(folder: Path) -> int:
    found = latest_checkpoint(folder)
    assert found is not None
    value = found.progress["epoch"]
    assert found.optimizer == {"state": {0: {"step": value}}}
    torch.testing.assert_close(found.tensors, numbered(value).tensors, rtol=0, atol=0)
    return int(value)


def newest(folder: Path) -> Path:
    return max(path for path in folder.iterdir() if path.name.isdecimal())


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


DAMAGES = (flip_a_bit, cut_off, Path.unlink)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for value in (1, 2):
        save_checkpoint(tmp_path, numbered(value))
    return tmp_path


def test_what_is_saved_comes_back_exactly(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    tensors = {
        **net.state_dict(),
        "half": torch.randn(3, 2).half(),
        "mark": torch.tensor([-1, 7], dtype=torch.int32),
        "right": torch.tensor([True, False]),
        "images": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "empty": torch.empty(0, 3),
    }
    progress = {"epoch": 3, "total": 1 / 3, "unreadable": {"7": "zero bytes"}, "ended": True}
    save_checkpoint(tmp_path, Checkpoint(tensors, optimizer.state_dict(), progress))
    found = latest_checkpoint(tmp_path)
    assert found is not None
    assert found.progress == progress
    torch.testing.assert_close(found.tensors, tensors, rtol=0, atol=0)
    torch.testing.assert_close(found.optimizer, optimizer.state_dict(), rtol=0, atol=0)


def test_nothing_saved_is_nothing_found(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "missing") is None


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_passed_over(two: Path, damage: Callable[[Path], None], name: str) -> None:
    damage(newest(two) / name)
    assert stands_at(two) == 1


def test_a_manifest_that_names_no_files_is_damage(two: Path) -> None:
    for text in ("{}", "[]", "null", '{"progress.json": "00"}'):
        (newest(two) / "manifest.json").write_text(text)
        assert stands_at(two) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_damaged_is_an_error_and_no_restart(two: Path, damage: Callable[[Path], None]) -> None:
    for folder in two.iterdir():
        damage(folder / "tensors.safetensors")
    with pytest.raises(DamagedFile, match=r"no checkpoint in .* can be used.*tensors.safetensors"):
        latest_checkpoint(two)


def test_saving_goes_on_after_damage(two: Path) -> None:
    flip_a_bit(newest(two) / "optimizer.pt")
    assert stands_at(two) == 1
    save_checkpoint(two, numbered(2))
    assert stands_at(two) == 2
    save_checkpoint(two, numbered(3))
    flip_a_bit(newest(two) / "progress.json")
    assert stands_at(two) == 2


def test_two_are_kept(tmp_path: Path) -> None:
    for value in range(1, 13):
        save_checkpoint(tmp_path, numbered(value))
    assert len(list(tmp_path.iterdir())) == 2
    assert stands_at(tmp_path) == 12


def test_weights_that_share_memory(tmp_path: Path) -> None:
    tied = nn.ModuleDict({"first": nn.Linear(4, 4), "second": nn.Linear(4, 4)})
    tied["second"].weight = tied["first"].weight
    both = torch.randn(6)
    tied.register_buffer("left", both[:3])
    tied.register_buffer("right", both[3:])
    save_checkpoint(tmp_path, Checkpoint(tied.state_dict(), None, {}))
    found = latest_checkpoint(tmp_path)
    assert found is not None
    torch.testing.assert_close(found.tensors, dict(tied.state_dict()), rtol=0, atol=0)
    tied.load_state_dict(found.tensors)


class Harmful:
    """Unpickling this would write a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.path),))


def test_no_code_is_run_by_reading(two: Path, tmp_path: Path) -> None:
    folder, harm = newest(two), tmp_path / "harm"
    torch.save({"state": Harmful(str(harm))}, folder / "optimizer.pt")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["optimizer.pt"] = sha256((folder / "optimizer.pt").read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert stands_at(two) == 1
    assert not harm.exists()


@pytest.mark.parametrize("writer", ["save_file", "torch.save", "sync_directory"])
def test_a_full_disk_leaves_the_one_before(
    two: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints if "." not in writer else torch, writer.split(".")[-1], full)
    with pytest.raises(SelfAdaptError, match=r"No space left on device.*saved before is kept"):
        save_checkpoint(two, numbered(3))
    monkeypatch.undo()
    assert stands_at(two) == 2
    assert len(list(two.iterdir())) == 2


def save_within(limit: int, folder: Path, value: int) -> str:
    """Save where no file may grow beyond `limit` bytes: a write that really fails half way."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        save_checkpoint(folder, numbered(value))
    except SelfAdaptError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return "saved"


def test_a_write_that_really_fails(two: Path, processes: Starter) -> None:
    for limit in (100, 1000):
        told = processes.start(save_within, limit, two, 3).returned()
        assert "could not be written" in told
        assert "is kept" in told
        assert stands_at(two) == 2
        assert len(list(two.iterdir())) == 2


def die_at_event(number: int, folder: Path, value: int) -> str:
    """Save, and be killed just before the `number`-th thing done to a file of the folder."""
    left = [number]
    watched = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree")

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in watched and str(arguments[0]).startswith(str(folder)):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    save_checkpoint(folder, numbered(value))
    return "saved"


def test_killed_at_every_moment_of_a_save(tmp_path: Path, processes: Starter) -> None:
    """Whatever the moment, the state before or the state after is there, whole."""
    found = []
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        for value in (1, 2):
            save_checkpoint(folder, numbered(value))
        child = processes.start(die_at_event, moment, folder, 3)
        assert child.ended()
        found.append(stands_at(folder))
        save_checkpoint(folder, numbered(4))
        assert stands_at(folder) == 4
        assert len([path for path in folder.iterdir() if path.name.isdecimal()]) == 2
        if child.to.exists():
            break
    assert child.returned() == "saved"
    assert sorted(found) == found
    assert set(found) == {2, 3}
    assert len(found) > 12
