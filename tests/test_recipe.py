"""Settings as data: from text to tables, and what differs between two of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfadapt import recipe
from selfadapt.errors import BadInput, UnknownName


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40", 40),
        ("-1", -1),
        ("0.4", 0.4),
        ("1e-3", 0.001),
        ("5e-4", 0.0005),
        ("1_000", 1000),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("[75, 90]", [75, 90]),
        ('"40"', "40"),
        ("uniform", "uniform"),
        ("none", "none"),
        ("cosine_step", "cosine_step"),
        ("photos/my cats", "photos/my cats"),
        ("a=b", "a=b"),
        ("timm:vit_tiny", "timm:vit_tiny"),
        ("", ""),
        ("  40 ", 40),
        ("007", "007"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:00", "12:30:00"),
    ],
)
def test_values_are_read_as_toml_or_text(text: str, value: object) -> None:
    parsed = recipe.parse([f"data.label={text}"])
    assert parsed == {"data.label": value}
    assert type(parsed["data.label"]) is type(value)


@pytest.mark.parametrize("name", ["none", "3", "true", "sat", '"sat"'])
def test_a_name_is_always_text(name: str) -> None:
    """`corruption.name=none` is a kind of noise, and a class may be called 3."""
    assert recipe.parse([f"corruption.name={name}"]) == {"corruption.name": name.strip('"')}


def test_the_last_of_two_assignments_holds() -> None:
    assert recipe.parse(["train.lr=1", " train.lr = 0.5 "]) == {"train.lr": 0.5}
    assert recipe.parse([]) == {}


@pytest.mark.parametrize("text", ["train.epochs", "train.epochs 40", "=40", " =40", ""])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(BadInput, match=r"--set takes table\.key=value"):
        recipe.parse([text])


def test_nest_fills_every_table() -> None:
    nested = recipe.nest({"train.epochs": 40, "train.lr": 0.1, "method.start": 5})
    assert list(nested) == list(recipe.TABLES)
    assert nested["train"] == {"epochs": 40, "lr": 0.1}
    assert nested["method"] == {"start": 5}
    assert nested["data"] == nested["corruption"] == nested["net"] == {}


def test_tables_are_not_shared_between_calls() -> None:
    recipe.nest({})["train"]["epochs"] = 1
    assert recipe.nest({})["train"] == {}


@pytest.mark.parametrize(
    ("name", "near"), [("trian.epochs", "train"), ("methods.start", "method"), ("dat", "data")]
)
def test_an_unknown_table_has_a_nearest_name(name: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"Did you mean '{near}'"):
        recipe.nest({name: 1})


@pytest.mark.parametrize("name", ["train", "train."])
def test_a_table_alone_is_no_setting(name: str) -> None:
    with pytest.raises(BadInput, match=r"a setting is table\.key"):
        recipe.nest({name: 1})


KEYS = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
VALUES = st.one_of(st.integers(), st.booleans(), st.text(max_size=5), st.lists(st.integers()))


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from(recipe.TABLES), KEYS), VALUES, max_size=8))
def test_flatten_undoes_nest(given_settings: dict[tuple[str, str], object]) -> None:
    flat = {f"{table}.{name}": value for (table, name), value in given_settings.items()}
    assert recipe.flatten(recipe.nest(flat)) == flat
    assert recipe.differences(recipe.nest(flat), recipe.nest(flat)) == []


def test_differences_name_setting_and_both_values() -> None:
    there = {"seed": 1, "train": {"epochs": 40, "lr": 0.1}, "net": {"name": "mlp"}}
    now = {"seed": 2, "train": {"epochs": 60, "lr": 0.1}, "net": {"name": "mlp", "width": 64}}
    assert recipe.differences(there, now) == [
        "net.width: None there, 64 now",
        "seed: 1 there, 2 now",
        "train.epochs: 40 there, 60 now",
    ]
