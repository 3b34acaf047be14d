"""A signature is a schema: names, types and defaults of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from selfadapt import signatures
from selfadapt.errors import BadInput, UnknownName


def train(
    place: str,
    *,
    epochs: int = 200,
    lr: float = 0.1,
    flip: bool = False,
    label: str | None = None,
    milestones: list[int] | None = None,
    start: int | float = 0.3,
    clip: float | None = None,
    augment: Literal["auto", "none"] = "auto",
    untyped=7,
) -> None: ...


class Method:
    def __init__(self, labels: list[int], *, momentum: float = 0.9) -> None: ...


def needs(*, rate: float, place: Path | None = None) -> None: ...


def bound(**given_settings: Any) -> dict[str, Any]:
    return signatures.bind(train, "train", given_settings)


def test_every_setting_is_there_given_or_default() -> None:
    assert bound(epochs=40) == {
        "epochs": 40,
        "lr": 0.1,
        "flip": False,
        "label": None,
        "milestones": None,
        "start": 0.3,
        "clip": None,
        "augment": "auto",
        "untyped": 7,
    }


def test_only_keyword_only_parameters_are_settings() -> None:
    assert "place" not in signatures.settings_of(train)
    assert list(signatures.settings_of(Method)) == ["momentum"]
    assert signatures.bind(Method, "method", {"momentum": 0.5}) == {"momentum": 0.5}
    with pytest.raises(UnknownName):
        signatures.bind(train, "train", {"place": "x"})


@pytest.mark.parametrize(
    ("given_name", "near"),
    [("epoch", "epochs"), ("LR", "lr"), ("mile_stones", "milestones"), ("agument", "augment")],
)
def test_an_unknown_setting_has_a_nearest_name(given_name: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"setting of train '{given_name}'.*mean '{near}'"):
        bound(**{given_name: 1})


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(UnknownName) as raised:
        bound(qqqqqq=1)
    assert "Did you mean" not in str(raised.value)
    assert "epochs, flip, label, lr" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 40.0),
        ("epochs", "40"),
        ("epochs", True),
        ("epochs", None),
        ("epochs", "none"),
        ("lr", "0.1"),
        ("lr", True),
        ("flip", 1),
        ("flip", "yes"),
        ("label", 3),
        ("milestones", [1.5]),
        ("milestones", 75),
        ("milestones", [True]),
        ("start", True),
        ("start", "60"),
        ("augment", "flip"),
    ],
)
def test_a_wrong_type_is_named_with_its_setting(name: str, value: object) -> None:
    with pytest.raises(BadInput) as raised:
        bound(**{name: value})
    assert str(raised.value).startswith(f"train.{name} must be ")
    assert f"; got {value!r}" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("lr", 1, 1.0),
        ("clip", 2, 2.0),
        ("clip", None, None),
        ("start", 60, 60),
        ("start", 0.5, 0.5),
        ("milestones", [75, 90], [75, 90]),
        ("clip", "none", None),
        ("milestones", "none", None),
        ("augment", "none", "none"),
        ("label", "none", "none"),
        ("untyped", "anything", "anything"),
    ],
)
def test_values_that_fit(name: str, value: object, kept: object) -> None:
    got = bound(**{name: value})[name]
    assert got == kept
    assert type(got) is type(kept)


def test_what_has_no_default_must_be_given() -> None:
    with pytest.raises(BadInput, match=r"corruption\.rate must be given"):
        signatures.bind(needs, "corruption", {})
    assert signatures.bind(needs, "corruption", {"rate": 1})["rate"] == 1.0


def test_skipped_parameters_are_no_settings() -> None:
    assert "lr" not in signatures.bind(train, "train", {}, skip=("lr",))
    with pytest.raises(UnknownName):
        signatures.bind(train, "train", {"lr": 0.1}, skip=("lr",))


def test_the_given_settings_are_left_alone() -> None:
    given_settings = {"lr": 1}
    signatures.bind(train, "train", given_settings)
    assert given_settings == {"lr": 1}
    assert type(given_settings["lr"]) is int


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("epochs", 2.5, "train.epochs must be a whole number; got 2.5"),
        ("lr", "high", "train.lr must be a number; got 'high'"),
        ("flip", 1, "train.flip must be true or false; got 1"),
        ("label", 3, "train.label must be text or none; got 3"),
        ("milestones", 75, "train.milestones must be a list of whole numbers or none; got 75"),
        ("start", "late", "train.start must be a number; got 'late'"),
        ("augment", "non", "must be one of auto, none; got 'non'. Did you mean 'none'?"),
        ("augment", "x", "must be one of auto, none; got 'x'"),
    ],
)
def test_types_are_told_in_plain_words(name: str, value: object, told: str) -> None:
    with pytest.raises(BadInput) as raised:
        bound(**{name: value})
    assert str(raised.value).endswith(told)


def test_meanings_are_read_off_the_docstring() -> None:
    def documented(*, one: int = 1, two: int = 2, three: int = 3, four: int = 4) -> None:
        """Does things: many.

        one: the first,
          and so on.
        two, three: the others: all of them.
        none of these: is a setting.
          nor is this.
        """

    others = "the others: all of them."
    expected = {"one": "the first, and so on.", "two": others, "three": others}
    assert signatures.meanings(documented) == expected


def test_every_setting_says_what_it_means() -> None:
    from selfadapt import data, methods
    from selfadapt.engine.plan import Plan
    from selfadapt.experiment.assembly import make_parts

    for function in (Plan, data.load, make_parts, *map(methods.resolve, methods.names())):
        missing = signatures.settings_of(function).keys() - signatures.meanings(function).keys()
        assert missing <= {"progress"}, f"{function.__qualname__}: {missing}"
