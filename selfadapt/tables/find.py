"""Which runs a person means by a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from selfadapt.errors import BadInput
from selfadapt.tables.kept import read_kept
from selfadapt.tables.read import read_run
from selfadapt.tables.row import Row

StrPath = str | os.PathLike[str]


def rows(
    paths: Iterable[StrPath] | StrPath,
    extra: Mapping[StrPath, Mapping[str, Any]] | None = None,
) -> list[Row]:
    """A row for each run: of run directories, of folders that hold some at any depth, and of the
    JSON files that `keep` made. `extra`, by run directory, says what its files do not: labels
    such as the protocol. Unfinished runs have done=False; a damaged one is an error."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    known = {Path(path).resolve(): labels for path, labels in (extra or {}).items()}
    found: list[Row] = []
    seen: set[Path] = set()
    for path in map(Path, given):
        if path.suffix == ".json" and path.is_file():
            found += read_kept(path)
            continue
        for run in _runs(path):
            place = run.resolve()
            if place not in seen:
                seen.add(place)
                found.append(read_run(run).with_labels(known.get(place, {})))
    return found


def _runs(path: Path) -> list[Path]:
    if not path.is_dir():
        raise BadInput(f"{path} is not there, or not a folder: name run directories")
    found = list(_below(path))
    if not found:
        raise BadInput(f"{path} holds no run (no run.json in it, nor in a folder below)")
    return found


def _below(path: Path) -> Iterator[Path]:
    """Runs, sorted by path; what lies within a run, its stages among it, belongs to that run."""
    stopped_in_a_stage = (path / ".lock").exists() and (path / "stages").is_dir()
    if (path / "run.json").exists() or stopped_in_a_stage:
        yield path
        return
    for inner in sorted(path.iterdir()):
        if inner.is_dir():
            yield from _below(inner)
