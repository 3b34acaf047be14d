"""Files of public data sets, fetched once from their authors into a cache."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TextIO

from selfadapt.data.part import Progress, no_progress
from selfadapt.errors import BadInput, DamagedFile, SelfAdaptError

ATTEMPTS = 5
PAUSE_SECONDS = 2.0  # before asking again after a connection broke
_BLOCK = 1 << 18


def cache() -> Path:
    given = os.environ.get("SELFADAPT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "selfadapt"


def fetch(
    address: str,
    name: str,
    md5: str,
    progress: Progress | None = None,
    root: Path | None = None,
) -> Path:
    """The file `name` of the cache. What arrives lies in NAME.part until its checksum is right,
    and an interrupted transfer continues from there. `root` is where it was looked for in vain."""
    target = cache() / name
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        alone = _alone(target)
    except OSError as error:
        raise BadInput(
            f"the cache {str(cache())!r} cannot be written: {error.strerror}. Name another folder "
            "in the environment variable SELFADAPT_CACHE."
        ) from None
    with alone:
        # Another process may have fetched it while this one waited.
        if not target.is_file():
            part = target.with_name(f"{target.name}.part")
            _transfer(address, part, progress or no_progress, root)
            _check(part, md5, address)
            part.replace(target)
    return target


def _alone(target: Path) -> TextIO:
    """A lock that goes when it is closed, and with its process."""
    lock = target.with_name(f"{target.name}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _transfer(address: str, part: Path, progress: Progress, root: Path | None) -> None:
    """Ask for what is missing until all is there."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _receive(address, part, progress)
            return
        except (OSError, http.client.HTTPException) as error:
            if attempt == ATTEMPTS or _is_final(error):
                raise SelfAdaptError(_failure(address, part, error, root)) from None
            time.sleep(PAUSE_SECONDS)


def _is_final(error: Exception) -> bool:
    return isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500


def _failure(address: str, part: Path, error: Exception, root: Path | None) -> str:
    kept = f" {_size(part):,} bytes are kept and the next attempt continues." if _size(part) else ""
    name = address.rpartition("/")[2]
    if root is None:
        without = "get the file elsewhere, put it into a folder and name the folder with data.root."
    else:
        without = f"get {name} elsewhere and put it into {root}: the set is not there."
    return f"{address} could not be fetched: {error}.{kept} Without a network, {without}"


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _receive(address: str, part: Path, progress: Progress) -> None:
    have = _size(part)
    headers = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            _append(answer, part, have if answer.status == 206 else 0, progress)
    except urllib.error.HTTPError as error:
        error.close()
        # "Range not satisfiable": nothing is missing. The checksum will tell whether it is right.
        if not (have and error.code == 416):
            raise


def _append(answer: http.client.HTTPResponse, part: Path, have: int, progress: Progress) -> None:
    length = answer.headers.get("Content-Length")
    total = have + int(length) if length else 0
    with part.open("ab" if have else "wb") as file:
        while block := answer.read(_BLOCK):
            file.write(block)
            have += len(block)
            progress(have, total, f"fetching {part.name.removesuffix('.part')}")
        file.flush()
        os.fsync(file.fileno())
    if have < total:
        raise ConnectionError(f"the connection broke after {have:,} of {total:,} bytes")


def _check(part: Path, md5: str, address: str) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        part.unlink()
        raise DamagedFile(
            f"What came from {address} is damaged or has been replaced: its md5 is {found}, not "
            f"{md5} as published. It was removed; try again."
        )
