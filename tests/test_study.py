"""Recipes: what is read from a file, which cells it stands for, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from selfadapt import study
from selfadapt.errors import BadInput, UnknownName
from selfadapt.study import Cell, Recipe

HEAD = """
title = "A study"
source = "arXiv 2002.10319, table 1"
"""
RECIPE = (
    HEAD
    + """
[base]
data = { name = "cifar10", validation = 0.1 }
corruption = { name = "uniform" }
net = { name = "resnet34" }
train = { epochs = 200, batch = 256 }
[small]
data = { name = "digits" }
train = { epochs = 60 }
[grid]
"method.name" = ["erm", "sat"]
"corruption.rate" = [0.2, 0.4]
protocol = ["own", "equal"]
seed = [1, 2, 3]
[small.grid]
protocol = ["equal"]
[[only]]
where = { "method.name" = "sat" }
set = { "method.start" = 60 }
[[only]]
where = { scale = "small", "method.name" = "sat" }
set = { "method.start" = 5 }
[[only]]
where = { "method.start" = [60, 70], protocol = "own", seed = 3 }
set = { "train.lr" = 0.05 }
[[skip]]
where = { "method.name" = "erm", "corruption.rate" = 0.2, scale = "paper" }
[[expect]]
where = { "method.name" = "sat", "corruption.rate" = 0.4 }
accuracy = 92.64
[[expect]]
where = { "method.name" = "erm", "corruption.rate" = [0.2, 0.4] }
accuracy = 80
[table]
rows = ["method.name"]
columns = ["corruption.rate", "protocol"]
metrics = ["accuracy"]
[[figure]]
name = "curves"
kind = "curves"
panels = ["corruption.rate"]
lines = ["method.name"]
y = ["fitted"]
"""
)


def read(text: str, folder: Path) -> Recipe:
    path = folder / "toy.toml"
    path.write_text(text)
    return study.read(path)


def only(cells: list[Cell], **key: Any) -> Cell:
    [found] = [
        c
        for c in cells
        if key.items() <= {k.rpartition(".")[2]: v for k, v in c.key.items()}.items()
    ]
    return found


def test_the_cells_of_both_scales(tmp_path: Path) -> None:
    recipe = read(RECIPE, tmp_path)
    paper, small = recipe.cells("paper"), recipe.cells("small")
    assert len(paper) == 2 * 2 * 2 * 3 - 6
    assert len(small) == 2 * 2 * 1 * 3
    cell = only(small, name="sat", rate=0.4, seed=2)
    assert cell.name == "sat-rate0.4-equal-seed2"
    assert (cell.seed, cell.labels) == (2, {"protocol": "equal"})
    assert cell.settings == {
        "data.name": "digits",  # and not validation=0.1, which was said of CIFAR-10
        "corruption.name": "uniform",
        "corruption.rate": 0.4,
        "net.name": "resnet34",
        "method.name": "sat",
        "method.start": 5,
        "train.epochs": 60,
        "train.batch": 256,
    }
    assert cell.key == {
        "method.name": "sat",
        "corruption.rate": 0.4,
        "protocol": "equal",
        "seed": 2,
    }
    cell = only(paper, name="sat", rate=0.4, protocol="own", seed=3)
    assert cell.settings["data.validation"] == 0.1
    assert (cell.settings["method.start"], cell.settings["train.lr"]) == (60, 0.05)
    assert "train.lr" not in only(paper, name="sat", rate=0.4, protocol="own", seed=2).settings
    assert "method.start" not in only(paper, name="erm", rate=0.4, protocol="own", seed=2).settings


def test_seeds_asked_for(tmp_path: Path) -> None:
    recipe = read(RECIPE, tmp_path)
    assert {cell.seed for cell in recipe.cells("small", seeds=2)} == {1, 2}
    assert {cell.seed for cell in recipe.cells("small", seeds=5)} == {1, 2, 3, 4, 5}
    names = {cell.name for cell in recipe.cells("small")}
    assert names > {cell.name for cell in recipe.cells("small", seeds=1)}
    lone = read(RECIPE.replace("seed = [1, 2, 3]", "").replace(", seed = 3", ""), tmp_path)
    assert {cell.seed for cell in lone.cells("small")} == {1}
    assert {cell.seed for cell in lone.cells("small", seeds=2)} == {1, 2}


def test_a_union_of_grids_has_each_cell_once(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
    [base]
    data = { name = "digits" }
    [[grid]]
    "method.momentum" = [0.8, 0.9]
    "method.start" = [60]
    [[grid]]
    seed = [1]
    "method.start" = [40, 60]
    "method.momentum" = [0.9]
    [[grid]]
    "method.reweight" = [false]
    """
    )
    names = [cell.name for cell in read(text, tmp_path).cells("paper")]
    assert names == [
        "momentum0.8-start60-seed1",
        "momentum0.9-start60-seed1",
        "momentum0.9-start40-seed1",
        "reweightfalse-seed1",
    ]
    assert read(text, tmp_path).cells("small") == read(text, tmp_path).cells("paper")
    lone = '[[small.grid]]\n"method.reweight" = [true]\n'
    assert len(read(text + lone, tmp_path).cells("small")) == 1
    with pytest.raises(BadInput, match=r"write \[\[small.grid\]\]"):
        read(text + lone.replace("[[", "[").replace("]]", "]"), tmp_path)


def test_names_of_folders_hold_nothing_odd(tmp_path: Path) -> None:
    values = '["a/b: c", "d"]\n"train.milestones" = [[75, 90], [10]]'
    text = f'{HEAD}\n[base]\ndata = {{ name = "digits" }}\n[grid]\n"net.name" = {values}'
    names = [cell.name for cell in read(text, tmp_path).cells("small")]
    assert names[0] == "a_b_c-milestones75_90-seed1"
    with pytest.raises(BadInput, match="share the folder x_y-"):
        read(text.replace('"a/b: c", "d"', '"x y", "X/Y"'), tmp_path)


def test_a_name_starts_its_table_afresh(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
    [base]
    data = { name = "cifar10" }
    net = { name = "resnet18", width = 8 }
    method = { name = "sat", start = 60 }
    [grid]
    part = ["a", "b"]
    [[only]]
    where = { part = "b" }
    set = { "net.name" = "mlp", "method.start" = 3 }
    """
    )
    a, b = read(text, tmp_path).cells("paper")
    assert (a.settings["net.name"], a.settings["net.width"]) == ("resnet18", 8)
    assert b.settings["net.name"] == "mlp"
    assert "net.width" not in b.settings
    assert (b.settings["method.name"], b.settings["method.start"]) == ("sat", 3)


def test_what_was_published(tmp_path: Path) -> None:
    recipe = read(RECIPE, tmp_path)
    known = {"method.name": "sat", "corruption.rate": 0.4, "data.name": "digits"}
    assert recipe.expected(known, "accuracy") == 92.64
    assert recipe.expected(known, "labels_right") is None
    assert recipe.expected({"method.name": "sat"}, "accuracy") is None
    assert recipe.expected(known | {"corruption.rate": 0.2}, "accuracy") is None
    assert recipe.expected({"method.name": "erm", "corruption.rate": 0.2}, "accuracy") == 80


def test_what_stands_for_what_was_published(tmp_path: Path) -> None:
    recipe = read(RECIPE, tmp_path)
    assert recipe.stands_for("small") == {"data.name": "cifar10"}
    assert recipe.stands_for("paper") == {}


def test_true_is_not_one() -> None:
    from selfadapt.study.recipe import matches

    assert matches({"a": 1}, {"a": 1.0})
    assert not matches({"a": 1}, {"a": True})
    assert not matches({"a": [False]}, {"a": 0})
    assert matches({"a": [False, 3]}, {"a": 3, "b": 1})


RATES = '"corruption.rate" = [0.2, 0.4]'


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('title = "A study"', "", "it has no title"),
        ('title = "A study"', "title = 3", "title must be text, got 3"),
        ("[base]", "[bases]", r"unknown part of a recipe 'bases'. Did you mean 'base'\?"),
        ("corruption = {", "coruption = {", "Did you mean 'corruption'"),
        (RATES, '"corruption.rate" = []', "a list of one value or more"),
        (RATES, '"corruption.rate" = 0.2', "a list of one value or more"),
        (RATES, '"corruption.rate" = [0.2, 0.2]', "a value twice"),
        (RATES, '"coruption.rate" = [0.2]', "Did you mean 'corruption'"),
        (RATES, '"corruption." = [0.2]', "a setting is table.key"),
        (RATES, '"corruption.rate" = [{}]', "must be text, a number"),
        ("seed = [1, 2, 3]", "seed = [1.5]", "whole numbers from 0"),
        ("seed = [1, 2, 3]", "scale = [1]", "cannot be a label"),
        ("epochs = 200", "epochs = inf", "must be text, a number"),
        ("epochs = 200", "epochs = 2020-01-01", "must be text, a number"),
        ('"method.start" = 60', '"method" = 60', "a setting is table.key"),
        ('"method.start" = 60', "", "sets nothing"),
        ('"method.start" = 60', '"corruption.rate" = 60', "which the grid sets"),
        ('scale = "small"', 'scale = "smal"', "Did you mean 'small'"),
        ('protocol = "own", seed', 'protocl = "own", seed', "Did you mean 'protocol'"),
        ('protocol = "own", seed', 'protocol = "mine", seed', "matches no cell at either scale"),
        ("[[skip]]", '[[skip]]\nset = { "train.lr" = 1 }', r"unknown key of \[\[skip\]\] 'set'"),
        (
            '"corruption.rate" = 0.4 }\naccuracy',
            '"corruption.rate" = 0.5 }\naccuracy',
            "matches no",
        ),
        ("accuracy = 92.64", "accuracy = 92.64\nlabels_right = 9", "one where and one metric"),
        ("accuracy = 92.64", "", "one where and one metric"),
        ("accuracy = 92.64", "accuracy = 926.4", "a percentage"),
        ("accuracy = 92.64", "accuracy = true", "a percentage"),
        ('"corruption.rate" = [0.2, 0.4] }\nacc', '"corruption.rate" = 0.4 }\nacc', None),
        (
            '"method.name" = "erm", "corruption.rate" = [0',
            '"corruption.rate" = [0',
            "another accuracy",
        ),
        ("[[expect]]", "[expect]", r"is written \[\[expect\]\]|not valid TOML"),
        ('rows = ["method.name"]', 'rows = ["method.nam"]', "Did you mean 'method.name'"),
        ('rows = ["method.name"]', 'rows = "method.name"', "must be a list"),
        ("metrics = [", "metric = [", "Did you mean 'metrics'"),
        ('kind = "curves"', 'kind = "curve"', "Did you mean 'curves'"),
        ('kind = "curves"', "", "has no kind"),
        ('lines = ["method.name"]', 'lines = ["method"]', "unknown key in the figure curves"),
        ('name = "curves"', 'name = "../curves"', "the name of a file"),
        ("[base]", "[base", "is not valid TOML"),
        ('name = "cifar10", ', "", "at paper scale has no data.name"),
    ],
)
def test_mistakes_are_told(old: str, new: str, told: str | None, tmp_path: Path) -> None:
    assert old in RECIPE
    if told is None:
        read(RECIPE.replace(old, new), tmp_path)
        return
    with pytest.raises(BadInput, match=told) as error:
        read(RECIPE.replace(old, new), tmp_path)
    assert str(error.value).startswith(f"the recipe {tmp_path / 'toy.toml'}")


def test_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        study.read(tmp_path / "none.toml")
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        study.read(f"{tmp_path}/none")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(BadInput, match="not valid TOML"):
        study.read(tmp_path / "bytes.toml")
    with pytest.raises(UnknownName, match=r"unknown recipe 'no_such'.*NAME\.toml"):
        study.read("no_such")


def test_every_shipped_recipe_is_read() -> None:
    for name in study.names():
        recipe = study.read(name)
        assert recipe.name == name
        assert all(recipe.cells(scale) for scale in study.SCALES)


def test_recipes_are_read_without_torch() -> None:
    code = "import selfadapt.study, sys; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
