"""Studies carried out: what is skipped, resumed, left to others, reported, and written."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE, Child, Starter

import selfadapt
from selfadapt import cli, errors, losses
from selfadapt.batch import Batch, StepLoss
from selfadapt.data import load, sources
from selfadapt.errors import BadInput
from selfadapt.methods import Method
from selfadapt.reproduce import Report, Task, cell, plan, reproduce
from selfadapt.reproduce.cell import Loaded
from selfadapt.rundir import RunDir

RECIPE = """
title = "Two methods on a few points"
source = "nobody"
[base]
data = {{ name = "{data}" }}
corruption = {{ name = "uniform" }}
net = {{ name = "mlp", width = 16 }}
train = {{ epochs = 2, batch = 30, precision = "fp32" }}
[grid]
"method.name" = {methods}
"corruption.rate" = [0.2, 0.4]
seed = [1, 2]
[small]
{small}
[[only]]
where = {{ "method.name" = "{last}" }}
set = {{ {set} }}
[[expect]]
where = {{ "method.name" = "erm", "corruption.rate" = 0.4 }}
accuracy = 50
[table]
rows = ["method.name"]
columns = ["corruption.rate"]
metrics = ["accuracy"]
"""
NAMES = [  # in the order they are run in: what is compared at about the same time
    f"{method}-rate{rate}-seed{seed}"
    for seed in (1, 2)
    for rate in (0.2, 0.4)
    for method in ("erm", "sat")
]


class Broken(Method):
    """Fails in a way that nobody foresaw."""

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        raise ZeroDivisionError("nobody foresaw this")


class Killed(Method):
    """Takes its process with it."""

    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Slow(Method):
    def loss(self, batch: Batch, epoch: int) -> StepLoss:
        time.sleep(0.02)
        values = losses.cross_entropy(self.net(batch.x), batch.y)
        return StepLoss(values, values.new_ones(len(values)))


def write(
    folder: Path,
    data: object,
    other: str = "sat",
    set: str = '"method.start" = 1',
    small: str = "",
) -> Path:
    path = folder / "toy.toml"
    methods = json.dumps(["erm", other])
    path.write_text(RECIPE.format(data=data, methods=methods, last=other, set=set, small=small))
    return path


@pytest.fixture
def toy(tmp_path: Path, npz: Path) -> Path:
    return write(tmp_path, npz)


def endings(report: Report) -> dict[str, str]:
    return {name: outcome.ending for name, outcome in report.outcomes.items()}


def outcome_of(path: Path) -> tuple[bytes, list[Any]]:
    """What a run came to, but for its times."""
    times = ("seconds", "samples_per_second")
    lines = [{k: v for k, v in line.items() if k not in times} for line in RunDir(path).log()]
    return (path / "labels.parquet").read_bytes(), lines


def call(*arguments: object) -> int:
    return cli.run(["reproduce", *map(str, arguments)])


def test_cells_are_run_once(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    first = reproduce(toy, out=out)
    assert endings(first) == dict.fromkeys(NAMES, "done")
    folder = out / "toy-small"
    assert sorted(path.name for path in (folder / "cells").iterdir()) == sorted(NAMES)
    run = selfadapt.open_run(folder / "cells" / "sat-rate0.4-seed2")
    assert run.about["settings"]["corruption"]["rate"] == 0.4
    assert run.about["settings"]["method"]["start"] == 1
    assert run.about["settings"]["seed"] == 2
    written = {path: path.stat().st_mtime_ns for path in folder.glob("cells/**/*")}
    again = reproduce(toy, out=out)
    assert endings(again) == dict.fromkeys(NAMES, "was done")
    assert written == {path: path.stat().st_mtime_ns for path in folder.glob("cells/**/*")}


def test_what_is_written_in_the_end(toy: Path, tmp_path: Path) -> None:
    report = reproduce(toy, out=tmp_path, shard="1/2", seeds=1)
    folder = tmp_path / "toy-small"
    text = (folder / "table.md").read_text()
    assert "Two methods on a few points" in text
    assert "After nobody; small scale." in text
    assert "not finished: 2 of 4 runs" in text, "it says how many of how many"
    assert (folder / "table.csv").read_text().count("\n") > 1
    assert "tabular" in (folder / "table.tex").read_text()
    assert len(json.loads((folder / "study.json").read_text())["runs"]) == 2
    table = report.written.table
    assert table is not None
    reproduce(toy, out=tmp_path, seeds=1)
    assert "not finished" not in (folder / "table.md").read_text()
    assert "50" in (folder / "table.md").read_text(), "the published number stands beside ours"
    assert "Otherwise" not in text
    reproduce(toy, out=tmp_path / "other", seeds=1, settings={"train.lr": 0.2})
    text = (tmp_path / "other" / "toy-small" / "table.md").read_text()
    assert "Otherwise than in the recipe: train.lr=0.2." in text


def test_a_figure_is_drawn(npz: Path, tmp_path: Path) -> None:
    path = write(tmp_path, npz)
    figure = 'kind = "lines"\nx = "corruption.rate"\nlines = ["method.name"]\ny = ["accuracy"]'
    path.write_text(f'{path.read_text()}[[figure]]\nname = "rates"\n{figure}\n')
    reproduce(path, out=tmp_path, seeds=1)
    assert {f.suffix for f in (tmp_path / "toy-small").glob("rates.*")} >= {".png", ".svg", ".pdf"}


def test_what_was_cut_off_goes_on(toy: Path, tmp_path: Path) -> None:
    class CutOff(BaseException):
        pass

    def show(event: Mapping[str, Any]) -> None:
        if event.get("cell") == NAMES[5] and event.get("step") == 2 and event["epoch"] == 1:
            raise CutOff

    settings = {"train.save_seconds": 0.0001}
    whole = reproduce(toy, out=tmp_path / "whole", settings=settings)
    with pytest.raises(CutOff):
        reproduce(toy, out=tmp_path / "cut", settings=settings, show=show)
    events: list[Mapping[str, Any]] = []
    rest = reproduce(toy, out=tmp_path / "cut", settings=settings, show=events.append)
    assert [*endings(rest).values()] == ["was done"] * 5 + ["done"] * 3
    [todo] = [event for event in events if "todo" in event]
    assert list(todo["todo"]) == NAMES[5:]
    assert todo["cells"] == 8
    first = next(event for event in events if event.get("cell") == NAMES[5] and "step" in event)
    assert (first["epoch"], first["step"]) > (0, 1), "not from the beginning"
    for name in NAMES:
        of = [tmp_path / place / "toy-small" / "cells" / name for place in ("whole", "cut")]
        assert outcome_of(of[0]) == outcome_of(of[1])
    assert whole.failed == rest.failed == {}


def test_a_failed_cell_stops_no_other(
    npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(tmp_path, npz, set='"method.momentum" = 7')
    assert call(bad, "--out", tmp_path) == 1
    told = capsys.readouterr()
    assert "4 of 8 cells failed: sat-rate0.2-seed1, sat-" in told.err
    assert "the first: momentum must lie in" in told.err
    assert "8/8 cells, 4 failed" in told.out
    failures = tmp_path / "toy-small" / "failures"
    failed = [name for name in NAMES if name.startswith("sat")]
    assert sorted(path.stem for path in failures.iterdir()) == sorted(failed)
    assert "momentum must" in (failures / f"{failed[0]}.txt").read_text()
    report = reproduce(write(tmp_path, npz), out=tmp_path)
    assert endings(report) == {name: "done" if name in failed else "was done" for name in NAMES}
    assert list(failures.iterdir()) == []


def test_an_error_that_nobody_foresaw_is_kept_whole(npz: Path, tmp_path: Path) -> None:
    recipe = write(tmp_path, npz, f"{__name__}:Broken", '"train.lr" = 0.1')
    report = reproduce(recipe, out=tmp_path, seeds=1)
    assert [*endings(report).values()] == ["done", "failed"] * 2
    [text, _] = [path.read_text() for path in (tmp_path / "toy-small" / "failures").iterdir()]
    assert "Traceback" in text
    assert "ZeroDivisionError: nobody foresaw this" in text


def test_a_cell_of_other_settings_is_a_failure(toy: Path, npz: Path, tmp_path: Path) -> None:
    reproduce(toy, out=tmp_path, seeds=1)
    report = reproduce(write(tmp_path, npz, set='"method.start" = 0'), out=tmp_path, seeds=1)
    assert sorted(endings(report).values()) == ["failed"] * 2 + ["was done"] * 2
    assert "method.start: 1 there, 0 now" in report.failed["sat-rate0.2-seed1"]


def test_a_cell_in_use_is_left_to_who_has_it(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = RunDir(tmp_path / "toy-small" / "cells" / NAMES[1])
    taken.path.mkdir(parents=True)
    with taken.lock():
        assert call(toy, "--out", tmp_path) == 0
    assert f"{NAMES[1]} was left out: {taken.path} is in use" in capsys.readouterr().out
    assert not (tmp_path / "toy-small" / "failures").exists()
    assert endings(reproduce(toy, out=tmp_path))[NAMES[1]] == "done"


def test_shards_share_the_cells_out(toy: Path) -> None:
    shares = [[t.name for t in plan(toy, shard=f"{part}/3").tasks] for part in (1, 2, 3)]
    assert sorted(name for share in shares for name in share) == sorted(NAMES)
    assert [len(share) for share in shares] == [3, 3, 2]
    assert len(plan(toy, shard="3/3", seeds=5).cells) == 20


def test_only_the_cells_asked_for(toy: Path) -> None:
    def asked(*where: str, **more: Any) -> list[str]:
        return [task.name for task in plan(toy, where=where, **more).tasks]

    assert asked("method.name=sat") == [name for name in NAMES if name.startswith("sat")]
    assert asked("seed=2", "corruption.rate = 0.4") == [
        name for name in NAMES if "rate0.4" in name and name.endswith("seed2")
    ]
    assert asked("method.name=erm,sat") == NAMES
    assert len(asked("method.name=sat", shard="1/2")) == 2, "a share of those"
    assert len(plan(toy, where=["method.name=sat"]).cells) == len(NAMES), "the table is of all"
    plain = plan("cifar-noise", where=["method.name=erm", "variant=none"]).tasks
    assert len(plain) == 12, "four rates, three seeds, neither early stopping nor smoothing"


def test_what_is_compared_runs_at_about_the_same_time(toy: Path) -> None:
    """A machine that grows slow slows all methods alike."""
    assert [task.name for task in plan(toy).tasks] == NAMES


def carry_out(recipe: Path, out: Path, shard: str | None, jobs: int) -> dict[str, str]:
    return endings(reproduce(recipe, out=out, shard=shard, jobs=jobs))


def test_two_at_once_in_one_folder(toy: Path, tmp_path: Path, processes: Starter) -> None:
    two = [processes.start(carry_out, toy, tmp_path, f"{part}/2", 1) for part in (1, 2)]
    found = [child.returned() for child in two]
    assert sorted((found[0] | found[1]).items()) == sorted(dict.fromkeys(NAMES, "done").items())
    assert set(endings(reproduce(toy, out=tmp_path)).values()) == {"was done"}


def test_two_at_once_at_the_same_cells(toy: Path, tmp_path: Path, processes: Starter) -> None:
    two = [processes.start(carry_out, toy, tmp_path, None, 1) for _ in range(2)]
    found = [child.returned() for child in two]
    for name in NAMES:
        assert {found[0][name], found[1][name]} <= {"done", "was done", "in use"}
        assert "done" in (found[0][name], found[1][name])


def test_processes_of_a_launcher_share_each_cell(
    toy: Path, tmp_path: Path, processes: Starter
) -> None:
    found = processes.group(2, carry_out, toy, tmp_path, "1/4", 1)
    mine = [task.name for task in plan(toy, shard="1/4").tasks]
    assert found == [dict.fromkeys(mine, "done")] * 2
    run = selfadapt.open_run(tmp_path / "toy-small" / "cells" / NAMES[0])
    assert run.about["resolved"]["processes"] == 2
    assert (tmp_path / "toy-small" / "table.md").exists()


def test_several_jobs(npz: Path, tmp_path: Path) -> None:
    """Each in a process of its own; one that dies takes nothing down."""
    recipe = write(tmp_path, npz, f"{__name__}:Killed", '"train.lr" = 0.1')
    events: list[Mapping[str, Any]] = []
    report = reproduce(recipe, out=tmp_path, jobs=2, shard="1/2", show=events.append)
    assert sorted(endings(report).values()) == ["done", "done", "failed", "failed"]
    for name, text in report.failed.items():
        assert "Killed" in name
        assert "ended by SIGKILL (which is what happens when memory runs out)" in text
    run = selfadapt.open_run(tmp_path / "toy-small" / "cells" / NAMES[0])
    assert run.about["resolved"]["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)
    assert any(event.get("cell") == NAMES[0] and "line" in event for event in events)


def run_slowly(recipe: Path, out: Path, *more: str) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by who was started with &
    return call(recipe, "--out", out, "--set", "train.epochs=40", *more)


def wait_for_cells(out: Path, count: int, child: Child) -> None:
    end = time.monotonic() + PATIENCE
    while len(list(out.glob("toy-small/cells/*/log.jsonl"))) < count:
        assert time.monotonic() < end
        assert not child.ended(0), child.returned()
        time.sleep(0.01)


def all_free(out: Path) -> bool:
    for path in out.glob("toy-small/cells/*"):
        try:
            with RunDir(path).lock():
                pass
        except errors.RunInUse:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("jobs", [1, 2])
def test_stopped_and_taken_up_again(
    number: int, jobs: int, npz: Path, tmp_path: Path, processes: Starter
) -> None:
    """However the command ends, no worker goes on, and all of them have saved where they are."""
    recipe = write(tmp_path, npz, f"{__name__}:Slow", '"train.lr" = 0.1')
    more = ("--jobs", str(jobs), "--shard", "3/4", "--set", "train.save_seconds=1000")
    child = processes.start(run_slowly, recipe, tmp_path, *more)
    wait_for_cells(tmp_path, 2, child)
    child.kill(number)
    assert child.ended()
    if number != signal.SIGKILL:
        assert child.returned() == 128 + number
    end = time.monotonic() + 10
    while not all_free(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.05)
    if jobs > 1 or number != signal.SIGKILL:
        assert any(tmp_path.glob("toy-small/cells/*Slow*/checkpoints/*"))
    assert not (tmp_path / "toy-small" / "failures").exists()
    assert run_slowly(recipe, tmp_path, *more) == 0
    assert len(list(tmp_path.glob("toy-small/cells/*/result.json"))) == 2


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    read: list[Any] = []

    @functools.wraps(load)
    def counting(source: Any, **settings: Any) -> Any:
        read.append((source, settings["limit"]))
        return load(source, **settings)

    monkeypatch.setattr(cell.sources, "load", counting)
    return read


def test_data_is_read_once(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    reproduce(write(tmp_path, npz, set='"data.limit" = 100'), out=tmp_path)
    assert read == [(str(npz), None), (str(npz), 100)]


def test_data_is_forgotten_when_memory_is_short(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = counted(monkeypatch)
    loaded = Loaded()
    monkeypatch.setattr(cell, "IN_MEMORY", 150 * 6 * 4)
    for limit in (150, 100, 150, 100):
        loaded.get(str(npz), {"data.limit": limit}, lambda _: None)
    assert [limit for _, limit in read] == [150, 100]
    loaded.get(str(npz), {"data.limit": 50}, lambda _: None)
    assert [data.inputs.shape for data in loaded.sets.values()] == [(6,)] * 2
    loaded.get(str(npz), {"data.limit": 150}, lambda _: None)
    assert [limit for _, limit in read] == [150, 100, 50, 150]


def test_data_that_cannot_be_read_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = counted(monkeypatch)
    report = reproduce(write(tmp_path, tmp_path / "none.npz"), out=tmp_path)
    assert len(read) == 1
    assert len(report.failed) == 8
    assert {text.partition("'")[0] for text in report.failed.values()} == {
        "There is no file or folder "
    }


def one_machine_lacks_it(recipe: Path, out: Path) -> dict[str, str]:
    if os.environ["RANK"] == "1":
        original = cell._read

        def lacking(source: str, reads: dict[str, Any], show: Any) -> Any:
            original(source, reads, show)
            raise BadInput("this machine has no such file")

        cell._read = lacking
    return reproduce(recipe, out=out, seeds=1).failed


def test_what_one_machine_of_several_lacks(toy: Path, tmp_path: Path, processes: Starter) -> None:
    found = processes.group(2, one_machine_lacks_it, toy, tmp_path)
    assert len(found[0]) == 4
    assert found[0] == found[1]
    assert set(found[0].values()) == {"this machine has no such file"}


def test_settings_that_read_data_are_taken_out(npz: Path) -> None:
    settings = {"data.limit": 60, "data.validation": 0.1, "train.epochs": 2}
    data = Loaded().get(str(npz), settings, lambda _: None)
    assert len(data) == 60
    assert settings == {"data.validation": 0.1, "train.epochs": 2}


@pytest.mark.parametrize("source", ["digits", "npz", "folder of a run"])
def test_a_cell_is_the_run_that_fit_makes(source: str, npz: Path, tmp_path: Path) -> None:
    """Either goes on with the other's: from loaded data the settings are those of its name."""
    settings = {"method.name": "sat", "net.name": "mlp", "train.epochs": 2, "data.validation": 0.1}
    data = {"digits": "digits", "npz": str(npz)}.get(source)
    if data is None:
        data = str(selfadapt.fit(str(npz), out=tmp_path / "run", settings=settings).path)
        data += "/labels.parquet"
    else:
        settings["data.limit"] = 100
    mine = tmp_path / "mine"
    task = Task("one", str(mine), {"data.name": data, **settings}, 3)
    outcome = cell.carry_out(task, Loaded(), lambda _: None)
    assert outcome.ending == "done", outcome.text
    notes: list[str] = []
    selfadapt.fit(data, out=mine, seed=3, settings=settings, show=lambda e: notes.append(e["note"]))
    assert notes == [f"{mine} is finished already; nothing to do"]
    theirs = tmp_path / "theirs"
    selfadapt.fit(data, out=theirs, seed=3, settings=settings)
    task = Task("one", str(theirs), {"data.name": data, **settings}, 3)
    assert cell.carry_out(task, Loaded(), lambda _: None).ending == "was done"
    (theirs / "result.json").unlink()
    assert cell.carry_out(task, Loaded(), lambda _: None).ending == "done"


def test_data_root_is_for_sets_that_have_files(toy: Path, tmp_path: Path) -> None:
    def roots(data: str, **more: Any) -> set[Any]:
        found = plan(write(tmp_path, data), data_root=tmp_path, **more).tasks
        return {task.settings.get("data.root") for task in found}

    assert roots("cifar10") == {str(tmp_path)}
    assert roots("imagenet") == {str(tmp_path)}
    assert roots("digits") == roots("points.npz") == {None}
    assert roots("cifar10", settings={"data.root": "/else"}) == {"/else"}


def test_a_set_is_as_large_as_its_file_says() -> None:
    for name in sources.names():
        assert sources.size(name) is not None, f"{name} does not say its SIZE"
    data, size = load("digits"), sources.size("digits")
    assert size is not None
    assert data.test is not None
    assert size[:4] == (len(data), len(data.test), data.inputs.shape, data.num_classes)
    assert not sources.has_files("digits")
    assert sources.has_files("fashion-mnist")
    assert sources.size("photos") is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"scale": "papr"}, "unknown scale 'papr'. Did you mean 'paper'"),
        ({"shard": "5/4"}, "the part must lie in 1 to 4"),
        ({"shard": "0/4"}, "the part must lie in 1 to 4"),
        ({"shard": "1"}, "PART/PARTS, such as 2/4"),
        ({"shard": "a/b"}, "PART/PARTS, such as 2/4"),
        ({"shard": "-1/2"}, "PART/PARTS, such as 2/4"),
        ({"seeds": 0}, "how many seeds to run, at least 1"),
        ({"jobs": 0}, "how many cells to run at a time, at least 1"),
        ({"data_root": "/no/such"}, "--data-root '/no/such': there is no such folder"),
        ({"settings": {"corruption.rate": 0.1}}, "what the recipe compares"),
        ({"settings": {"data.name": "digits"}}, "what the recipe compares"),
        ({"settings": {"trian.epochs": 1}}, "Did you mean 'train'"),
        ({"settings": {"epochs": 1}}, "unknown table of settings 'epochs'"),
        ({"out": "/dev/null"}, "cannot be made: Not a directory"),
    ],
)
def test_what_cannot_be_asked_for(
    asked: dict[str, Any], told: str, toy: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as error:
        reproduce(toy, **{"out": tmp_path / "runs", **asked})
    assert told in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_jobs_within_a_launcher(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(BadInput, match="--jobs 2 within 4 processes"):
        reproduce(toy, jobs=2)
