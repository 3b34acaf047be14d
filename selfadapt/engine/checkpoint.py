"""Checkpoints: whole, or not there at all.

Tensors go into a safetensors file, the optimiser's state into a torch file that is read with
`weights_only=True`. Both formats load a flipped bit without a word, so a manifest carries their
sha256. A checkpoint is written beside, synced and renamed to the next number; two are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from selfadapt.errors import DamagedFile, SelfAdaptError
from selfadapt.rundir import sync_directory

_KEEP = 2
_FILES = {"tensors.safetensors", "optimizer.pt", "progress.json"}


class Checkpoint(NamedTuple):
    tensors: dict[str, Tensor]  # the method's state, and the signals'
    optimizer: dict[str, Any] | None
    progress: dict[str, Any]  # epoch, step, and sums over the epoch so far


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Under the number after the last one, whatever that one is worth: no name is ever used twice,
    so nothing has to go before its successor is in place."""
    name = f"{max(map(_number, _numbered(folder)), default=0) + 1:09d}"
    beside = folder / f".{name}.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        save_file(_on_cpu(checkpoint.tensors), beside / "tensors.safetensors")
        torch.save(checkpoint.optimizer, beside / "optimizer.pt")
        (beside / "progress.json").write_text(json.dumps(checkpoint.progress))
        sums = {path.name: _sync_and_digest(path) for path in sorted(beside.iterdir())}
        (beside / "manifest.json").write_text(json.dumps(sums, indent=2))
        _sync_and_digest(beside / "manifest.json")
        sync_directory(beside)
        beside.rename(folder / name)
        sync_directory(folder)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise SelfAdaptError(
            f"the checkpoint could not be written to {folder}: {error}. What was saved before "
            "is kept; make room, then give the same command again"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for old in _numbered(folder)[:-_KEEP]:
        shutil.rmtree(old, ignore_errors=True)


def _on_cpu(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous and apart from each other: safetensors refuses tensors that share memory, as tied
    weights do."""
    apart, seen = {}, set()
    for name, tensor in tensors.items():
        here = tensor.detach().cpu().contiguous()
        memory = here.untyped_storage().data_ptr()
        apart[name] = here.clone() if memory in seen else here
        seen.add(memory)
    return apart


def _sync_and_digest(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _number(path: Path) -> int:
    return int(path.name)


def _numbered(folder: Path) -> list[Path]:
    found = (path for path in folder.glob("[0-9]*") if path.name.isdecimal() and path.is_dir())
    return sorted(found, key=_number)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is as it was written. A damaged one is passed over for the one
    before it; if all are damaged, that is an error rather than a silent restart."""
    damaged = []
    for path in reversed(_numbered(folder)):
        try:
            return load_checkpoint(path)
        except DamagedFile as error:
            damaged.append(str(error))
    if damaged:
        raise DamagedFile(f"no checkpoint in {folder} can be used: {'; '.join(damaged)}")
    return None


def what_is_kept(folder: Path) -> str:
    """For a message to somebody whose run has just failed."""
    if _numbered(folder):
        return f"The last good checkpoint is kept in {folder.parent}"
    return "Nothing had been saved yet"


def load_checkpoint(path: Path) -> Checkpoint:
    try:
        sums = json.loads((path / "manifest.json").read_text())
        if not isinstance(sums, dict) or sums.keys() != _FILES:
            raise DamagedFile(f"{path / 'manifest.json'} is not what was written")
        for name, expected in sums.items():
            with (path / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected:
                raise DamagedFile(f"{path / name} is not what was written (sha256 differs)")
        return Checkpoint(
            load_file(path / "tensors.safetensors"),
            torch.load(path / "optimizer.pt", weights_only=True, map_location="cpu"),
            json.loads((path / "progress.json").read_text()),
        )
    except (OSError, ValueError, RuntimeError, SafetensorError, UnpicklingError) as error:
        raise DamagedFile(f"checkpoint {path} cannot be read: {error}") from None
