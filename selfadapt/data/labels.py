"""Labels as they stand in a source → class names and numbers 0..C-1, or a clear refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfadapt.data.part import Part, first_true, numbered, some
from selfadapt.errors import BadInput

Labels = NDArray[np.int64]
# As a person writes a number. Python would also take 007, 1_2, 1e3, inf and digits of all scripts,
# which are names to whoever wrote them.
_NUMBER = re.compile(r" *-?(0|[1-9][0-9]*)(\.[0-9]*)? *")
_LARGEST = 2**53  # beyond it a float no longer tells neighbouring numbers apart


def clean(given: Any, where: str) -> NDArray[Any]:
    """A column of labels as int64 class numbers or as class names; where: for the message."""
    values = np.asarray(given)
    if values.ndim != 1:
        raise BadInput(f"{where}: labels must be one class per sample, not of shape {values.shape}")
    if values.dtype.kind == "O":
        values = _of_one_kind(values, where)
    if values.dtype.kind == "f":
        values = _whole(values, where)
    if values.dtype.kind in "iu":
        return _not_negative(values.astype(np.int64), where)
    if values.dtype.kind == "b":
        return np.where(values, "true", "false")
    if values.dtype.kind != "U":
        raise BadInput(f"{where}: labels must be whole numbers or text, not {values.dtype}")
    return _named(values, where)


def from_text(texts: Sequence[str], where: str) -> NDArray[Any]:
    """Labels of a file without types (CSV). They are class numbers if they are exactly the numbers
    0 to C-1, each with a sample; any others are names, so that folders called 1, 2 and 3 are three
    classes in a table too, and not four."""
    if not all(_NUMBER.fullmatch(text) for text in texts):
        return clean(np.array(texts, np.str_), where)
    numbers = clean(np.array([float(text) for text in texts]), where)
    used = np.unique(numbers)
    return numbers if used[-1] == len(used) - 1 else numbers.astype(np.str_)


def _of_one_kind(values: NDArray[Any], where: str) -> NDArray[Any]:
    missing = first_true(np.array([v is None or v != v for v in values], bool))
    if len(missing):
        raise BadInput(f"{where}: no label in {numbered(missing)}. Label or remove them.")
    kinds = {type(v) for v in values.tolist()}
    for alike in ((str,), (bool, np.bool_), (int, float, np.integer, np.floating)):
        if all(issubclass(kind, alike) and (kind is not bool or bool in alike) for kind in kinds):
            return np.array(values.tolist())
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise BadInput(f"{where}: labels must be all whole numbers or all text, not {names}")


def _whole(values: NDArray[Any], where: str) -> NDArray[Any]:
    if len(bad := first_true(~np.isfinite(values))):
        raise BadInput(f"{where}: no label (NaN) in {numbered(bad)}. Label or remove them.")
    if len(bad := first_true(values != np.floor(values))):
        raise BadInput(
            f"{where}: label {values[bad[0]]} in {numbered(bad)} is not a whole number. "
            "A label is a class: a whole number from 0, or text."
        )
    if len(bad := first_true(abs(values) > _LARGEST)):
        raise BadInput(f"{where}: label {values[bad[0]]:g} in {numbered(bad)} is out of range")
    return values.astype(np.int64)


def _not_negative(values: Labels, where: str) -> Labels:
    if len(bad := first_true(values < 0)):
        raise BadInput(
            f"{where}: label {values[bad[0]]} in {numbered(bad)} is negative. Classes are numbered "
            "from 0; leave unlabelled samples out."
        )
    return values


def _named(values: NDArray[Any], where: str) -> NDArray[Any]:
    values = np.char.strip(values)  # " cat" is a cat
    names = np.unique(values)
    blank = [name for name in names.tolist() if not name or name in ("nan", "NaN")]
    if blank:
        bad = first_true(np.isin(values, blank))
        raise BadInput(
            f"{where}: no label ({blank[0]!r}) in {numbered(bad)}. Label or remove them."
        )
    return values


def class_names(labels: NDArray[Any], declared: tuple[str, ...] | None) -> tuple[str, ...]:
    """The declared names; else the sorted texts; else one number for each class up to the last."""
    if declared is not None:
        return declared
    if labels.dtype.kind == "U":
        return tuple(np.unique(labels).tolist())
    count = int(labels.max()) + 1
    if count > max(1000, 10 * len(labels)):
        raise BadInput(
            f"{len(labels):,} labels reach {count - 1:,}. As class numbers they would make "
            f"{count:,} classes; if they are codes, make them text or number them from 0."
        )
    return tuple(str(number) for number in range(count))


def alike(labels: NDArray[Any], training: NDArray[Any], classes: tuple[str, ...]) -> NDArray[Any]:
    """Numbers as names, where the training labels are names that look like numbers: a test table
    may hold 0 and 1 where the classes are 1, 2 and 3."""
    names = training.dtype.kind == "U" and all(name.isdecimal() for name in classes)
    return labels.astype(np.str_) if names else labels


def to_numbers(labels: NDArray[Any], classes: tuple[str, ...], where: str) -> Labels:
    if labels.dtype.kind == "U":
        return _from_names(labels, classes, where)
    if len(bad := first_true(labels >= len(classes))):
        raise BadInput(
            f"{where}: label {labels[bad[0]]} in {numbered(bad)} is out of range: there are "
            f"{len(classes)} classes, numbered 0 to {len(classes) - 1}"
        )
    return labels.astype(np.int64)


def _from_names(labels: NDArray[Any], classes: tuple[str, ...], where: str) -> Labels:
    number = {name: i for i, name in enumerate(classes)}
    names, inverse = np.unique(labels, return_inverse=True)
    if strange := [name for name in names.tolist() if name not in number]:
        raise BadInput(
            f"{where}: {some(strange)} is not among the {len(classes)} classes: "
            f"{some(list(classes), 10)}"
        )
    return np.array([number[name] for name in names.tolist()], np.int64)[inverse]


def check_seen(train: Labels, test: Labels, classes: tuple[str, ...]) -> None:
    if len(unseen := np.setdiff1d(test, train)):
        names = some([classes[i] for i in unseen.tolist()])
        raise BadInput(
            f"The test part has samples of class {names}, which no training sample is labelled "
            "with. Remove them from the test part, or check that the two parts belong together."
        )


def check_several(labels: Labels, classes: tuple[str, ...], limit: int | None) -> None:
    if len(used := np.unique(labels)) >= 2:
        return
    if limit is not None:
        raise BadInput(
            f"The first {limit} training samples are all of class {classes[used[0]]!r}. "
            "Raise data.limit, or shuffle the source."
        )
    raise BadInput(
        f"All {len(labels):,} training samples are of class {classes[used[0]]!r}; learning to tell "
        "classes apart takes at least two."
    )


def gap_note(labels: Labels) -> tuple[str, ...]:
    unused = np.setdiff1d(np.arange(labels.max() + 1), labels)
    if not len(unused):
        return ()
    names = some([str(i) for i in unused.tolist()])
    return (f"classes are numbered 0 to {labels.max()}, but no sample is labelled {names}",)


def check_ids(part: Part, where: str) -> None:
    ids = part.ids
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    twice = [i for i in ids if i in seen or seen.add(i)]  # type: ignore[func-returns-value]
    raise BadInput(
        f"{where}: every sample needs an id of its own, but these {part.id_name}s come more than "
        f"once: {some(list(dict.fromkeys(twice)))}. Remove the copies, or name a column of unique "
        "ids with data.id."
    )
