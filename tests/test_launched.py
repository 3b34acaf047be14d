"""Of several processes one speaks, also before it has joined the others."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from selfadapt import cli, launched, terminal

BY_SLURM = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "4", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(
    ("given", "first", "first_here"),
    [
        ({}, True, True),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True, True),
        ({"RANK": "4", "LOCAL_RANK": "0"}, False, True),
        ({"RANK": "5", "LOCAL_RANK": "1"}, False, False),
        (BY_SLURM, False, True),
        (BY_SLURM | {"SLURM_PROCID": "0"}, True, True),
        (BY_SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_LOCALID": "3"}, True, True),
        (BY_SLURM | {"RANK": "0"}, True, True),
    ],
)
def test_who_speaks(
    given: dict[str, str], first: bool, first_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK", *BY_SLURM):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert launched.is_first() is first
    assert launched.is_first_here() is first_here
    told = io.StringIO()
    with terminal.View(Console(file=told)) as view:
        view.run("sat")({"note": "something"})
    assert bool(told.getvalue()) is first


def test_an_error_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ["fit", "digits", "--out", str(tmp_path / "run"), "--set=train.epochs=many"]
    for rank, lines in (("0", 1), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert cli.run(wrong) == 2
        assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({}, 1),
        ({"RANK": "0", "WORLD_SIZE": "4"}, 4),
        (BY_SLURM, 8),
        (BY_SLURM | {"RANK": "0", "WORLD_SIZE": "2"}, 2),
    ],
)
def test_how_many_there_are(
    given: dict[str, str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert launched.count() == count
