"""The binary archives of CIFAR-10 and CIFAR-100: records of label bytes and 3,072 pixels."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from selfadapt.data import labels
from selfadapt.data.fetch import cache, fetch
from selfadapt.data.part import Found, Part, Progress, Wanted, no_progress, row_ids
from selfadapt.errors import BadInput, DamagedFile

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Archive:
    """One of the two sets, as its authors publish it."""

    name: str
    folder: str
    file: str
    train: tuple[str, ...]
    test: str
    classes: str
    label_bytes: int  # the last one counts: CIFAR-100 puts the coarse label before the fine one
    pickled: str
    address: str
    md5: str


CIFAR10 = Archive(
    name="cifar10",
    folder="cifar-10-batches-bin",
    file="cifar-10-binary.tar.gz",
    train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    test="test_batch.bin",
    classes="batches.meta.txt",
    label_bytes=1,
    pickled="cifar-10-batches-py",
    address="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
)
CIFAR100 = Archive(
    name="cifar100",
    folder="cifar-100-binary",
    file="cifar-100-binary.tar.gz",
    train=("train.bin",),
    test="test.bin",
    classes="fine_label_names.txt",
    label_bytes=2,
    pickled="cifar-100-python",
    address="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    md5="03b5dce01913d631647c71ecec9e9cb8",
)


def read_named(archive: Archive, wanted: Wanted) -> Found:
    """From data.root or the cache; fetched if it is in neither."""
    for folder in (wanted.root, cache()):
        if folder is not None and (found := find(archive, folder, wanted.progress)) is not None:
            return found
    path = fetch(archive.address, archive.file, archive.md5, wanted.progress, wanted.root)
    return read_archive(archive, path, wanted.progress)


def read_folder(folder: Path, progress: Progress | None) -> Found | None:
    """None where the folder is neither of the two sets."""
    for archive in (CIFAR10, CIFAR100):
        if (found := find(archive, folder, progress)) is not None:
            return found
    return None


def find(archive: Archive, folder: Path, progress: Progress | None) -> Found | None:
    """The set in this folder: unpacked here or one level below, or as the published archive."""
    for each in (folder, folder / archive.folder, folder / archive.name / archive.folder):
        if (each / archive.train[0]).is_file():
            return _read(archive, lambda name, at=each: _file(at / name), progress)  # type: ignore[misc]
    for each in (folder, folder / archive.name):
        if (each / archive.file).is_file():
            return read_archive(archive, each / archive.file, progress)
        if (each / archive.pickled).is_dir():
            raise BadInput(
                f"{each / archive.pickled} is the pickled version, which is never read here "
                f"(reading a pickle can run anything). Put {archive.file} beside it; it is at "
                f"{archive.address}."
            )
    return None


def read_archive(archive: Archive, path: Path, progress: Progress | None) -> Found:
    try:
        with tarfile.open(path) as tar:
            return _read(archive, lambda name: _member(tar, f"{archive.folder}/{name}"), progress)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DamagedFile(f"{path} is damaged: {error}. Remove it and get it again.") from None


def _file(path: Path) -> bytes:
    if not path.is_file():
        raise BadInput(f"{path} is missing, though others of the set are there")
    return path.read_bytes()


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    try:
        file = tar.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise DamagedFile(f"{tar.name!s} has no file {name}")
    return file.read()


def _read(archive: Archive, content: Callable[[str], bytes], progress: Progress | None) -> Found:
    files = (*archive.train, archive.test)
    parts = []
    for done, name in enumerate(files, 1):
        parts.append(_records(archive, name, content(name)))
        (progress or no_progress)(done, len(files), f"reading {archive.name}")
    classes = tuple(content(archive.classes).decode().split())
    *train, test = parts
    return Found(archive.name, _joined(train), test, classes)


def _records(archive: Archive, name: str, content: bytes) -> Part:
    width = archive.label_bytes + _PIXELS
    if not content or len(content) % width:
        raise DamagedFile(
            f"{name} of {archive.name} has {len(content):,} bytes, not a multiple of {width:,}. "
            "Remove it and get it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, width)
    pixels = records[:, archive.label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    given = labels.clean(records[:, archive.label_bytes - 1], name)
    return Part(pixels, given, row_ids(len(given)))


def _joined(parts: list[Part]) -> Part:
    y = np.concatenate([part.y for part in parts])
    return Part(np.concatenate([part.x for part in parts]), y, row_ids(len(y)))
