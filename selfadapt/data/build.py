"""From what a reader found to LabelledData: test part, limit, class numbers, pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfadapt.data import labels, split
from selfadapt.data.images import as_tensor, check_quarantine, choose_size, open_images
from selfadapt.data.labelled import InMemory, Inputs, LabelledData
from selfadapt.data.part import Found, Part, Progress
from selfadapt.errors import BadInput, unknown

Settings = Mapping[str, Any]


def check_settings(
    test: float | str | Path, limit: int | None, size: int | None, root: str | Path | None
) -> None:
    if isinstance(test, bool) or not isinstance(test, int | float | str | Path):
        raise BadInput(f"data.test={test!r}: give a share below 1, or the path of a test set")
    if isinstance(test, int | float) and not 0 <= test < 1:
        raise BadInput(f"data.test={test}: the share to hold out must be at least 0 and below 1")
    for name, value in (("limit", limit), ("size", size)):
        if value is not None and (type(value) is not int or value < 1):
            raise BadInput(f"data.{name}={value!r}: give a whole number from 1")
    if size is not None and size > 4096:
        raise BadInput(f"data.size={size}: images are scaled to at most 4096 pixels")
    if root is not None and not Path(root).expanduser().is_dir():
        raise BadInput(f"data.root={str(root)!r}: there is no such folder")


def build(
    found: Found,
    beside: Part | None,
    test: float | str | Path,
    limit: int | None,
    size: int | None,
    without: Sequence[str | int] | None,
    progress: Progress | None,
    source: Settings,
    several: bool = True,
) -> LabelledData:
    """beside: a test set given apart, which takes the place of the source's own. several: whether
    there must be two classes at least."""
    if not len(found.train):
        raise BadInput(f"{found.name} has no samples")
    found = _numbered(replace(found, test=beside or found.test))
    all_in_one = found.test is None
    if found.test is None and isinstance(test, int | float):
        found = _hold_out(found, test)
    found, others = leave_out(found, without)
    found = _limited(found, limit)
    classes = found.classes or ()
    if several:
        labels.check_several(found.train.y, classes, limit)
    labels.check_ids(found.train, found.name)
    side = _side(found.train, size or found.size)
    data = _opened(found.name, found.train, classes, side, progress, "training")
    if found.test is not None:
        opened = _opened(found.name, found.test, classes, side, progress, "test")
        data = replace(data, test=opened)
        _check_alike(data)
    if others is not None:
        left = _opened(found.name, others, classes, side, progress, "left out")
        data = replace(data, left_out=left.inputs)
    notes = (*found.notes, *data.notes, *(data.test.notes if data.test else ()))
    held_out = len(data.test) if all_in_one and data.test is not None else 0
    data = replace(data, features=found.train.features, held_out=held_out)
    notes += tuple(f"corrupted when it was saved: {noise}" for noise in found.corrupted)
    data = replace(data, augment=found.augment, corrupted=found.corrupted)
    return replace(data, source=source, notes=notes)


def leave_out(found: Found, without: Sequence[str | int] | None) -> tuple[Found, Part | None]:
    """Without the samples of some classes, and those of the test part apart: what a model has never
    heard of. A training sample of which either label is one of them goes."""
    if without is None:
        return found, None
    classes, names = found.classes or (), dict.fromkeys(map(str, without))
    for name in names:
        if name not in classes:
            raise unknown("class in data.without", name, classes)
    kept = [number for number, name in enumerate(classes) if name not in names]
    place = np.full(len(classes), -1)
    place[kept] = np.arange(len(kept))
    train = _renumbered(found.train, place)
    test = None if found.test is None else _renumbered(found.test, place)
    others = None
    if found.test is not None:
        rows = np.flatnonzero(place[found.test.y] < 0)
        others = found.test.take(rows)
        others = replace(others, y=np.zeros(len(rows), np.int64), true=None) if len(rows) else None
    told = f"data.without: {len(found.train) - len(train):,} samples of {len(names)} classes"
    remaining = tuple(classes[number] for number in kept)
    notes = (*found.notes, f"{told} are left out")
    return replace(found, train=train, test=test, classes=remaining, notes=notes), others


def _renumbered(part: Part, place: NDArray[np.int64]) -> Part:
    stays = place[part.y] >= 0
    if part.true is not None:
        stays &= place[part.true] >= 0
    part = part.take(np.flatnonzero(stays))
    true = None if part.true is None else place[part.true]
    return replace(part, y=place[part.y], true=true)


def _numbered(found: Found) -> Found:
    """Labels as numbers; the training part decides what the classes are."""
    train, test = found.train, found.test
    classes = labels.class_names(train.y, found.classes)
    y = labels.to_numbers(train.y, classes, found.name)
    counted = found.classes is None and train.y.dtype.kind != "U"
    notes = (*found.notes, *(labels.gap_note(y) if counted else ()))
    true = train.true
    if true is not None:
        true = labels.to_numbers(labels.alike(true, train.y, classes), classes, "true labels")
    if test is not None:
        test_y = labels.to_numbers(labels.alike(test.y, train.y, classes), classes, "the test part")
        labels.check_seen(y if true is None else np.union1d(y, true), test_y, classes)
        test = replace(test, y=test_y, true=None)
    train = replace(train, y=y, true=true)
    return replace(found, train=train, test=test, classes=classes, notes=notes)


def _hold_out(found: Found, share: float) -> Found:
    stay, held = split.hold_out(found.train.y, share)
    count = f"{len(held):,} of {len(found.train):,} samples"
    if share == 0:
        return replace(found, notes=(*found.notes, "no test part (data.test=0)"))
    if not len(held):
        told = f"no test part, and {len(found.train):,} samples are too few to hold one out"
        return replace(found, notes=(*found.notes, told))
    told = f"no test part: held out {count}, stratified (data.test=0 for none)"
    test = replace(found.train.take(held), true=None, noisy_images=None, clean=None)
    if found.train.true is not None:
        test = replace(test, y=found.train.true[held])
        told += "; measured by their true labels"
    if (before := found.train.take(held).clean) is not None:
        test = replace(test, x=before)
        told += " and their images before they were corrupted"
    return replace(found, train=found.train.take(stay), test=test, notes=(*found.notes, told))


def _limited(found: Found, limit: int | None) -> Found:
    train = found.train
    if limit is None or limit >= len(train):
        return found
    if not found.by_class:
        return replace(found, train=train.take(np.arange(limit)))
    told = f"data.limit={limit}: {limit:,} of {len(train):,} samples, in proportion to the classes"
    train = train.take(split.sample(train.y, limit))
    return replace(found, train=train, notes=(*found.notes, told))


def _side(part: Part, size: int | None) -> int:
    """What images are scaled to; 0 for arrays as they are."""
    if isinstance(part.x, list):
        return choose_size(part.x, size)
    if size is not None and part.x.dtype != np.uint8:
        raise BadInput(f"data.size={size}: only images of 8 bits are scaled, not {part.x.dtype}")
    return size or 0


def _opened(
    name: str,
    part: Part,
    classes: tuple[str, ...],
    side: int,
    progress: Progress | None,
    what: str,
) -> LabelledData:
    bad: dict[int, str] = {}
    inputs: Inputs
    if isinstance(part.x, list):
        inputs, bad = open_images(part.x, side, progress, f"reading {what} images")
    else:
        inputs = InMemory(as_tensor(part.x, side))
    clean: Inputs | None = None
    if isinstance(part.clean, list):
        clean, _ = open_images(part.clean, side, progress, "reading images before corruption")
    elif part.clean is not None:
        clean = InMemory(as_tensor(part.clean, side))
    notes = check_quarantine(bad, len(part), part.ids, what)
    true = None if part.true is None else part.true.astype(np.int64)
    ids, noisy = tuple(part.ids), part.noisy_images
    data = LabelledData(name, inputs, part.y, classes, ids, part.id_name, true, noisy, clean)
    return replace(data, quarantined=bad, notes=notes)


def _check_alike(data: LabelledData) -> None:
    if data.test is not None and data.test.inputs.shape != data.inputs.shape:
        raise BadInput(
            f"training samples have shape {data.inputs.shape}, test samples "
            f"{data.test.inputs.shape}: they must be alike"
        )
