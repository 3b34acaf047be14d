"""The command line: verbs only. Every setting of a run is `--set table.key=value`."""

from __future__ import annotations

import errno
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App, CycloptsError

import selfadapt
from selfadapt import errors, launched, selective_verbs, study_verbs
from selfadapt.parameters import Sets

if TYPE_CHECKING:
    from selfadapt.experiment import Run

app = App(
    name="selfadapt",
    help="Train through wrong labels, and get clean ones back.",
    version=selfadapt.__version__,
    version_flags=["--version"],
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # `run` says what is to be said
)


@app.command
def fit(
    data: str,
    /,
    *,
    out: Path,
    method: str | None = None,
    net: str | None = None,
    seed: int = 1,
    set: Sets = None,
    data_root: Path | None = None,
) -> None:
    """Train on DATA, correct its labels, and keep everything in a run directory.

    DATA is a folder of class folders, a .csv or .parquet with images or paths and labels, an .npz
    with x and y, or a name: see `selfadapt list`. The same command goes on with an unfinished run.

    Example: selfadapt fit photos/ --out runs/a --net resnet18 --set train.epochs=40

    Parameters
    ----------
    data
        What to train on.
    out
        The run directory: new, empty, or of the same run.
    method
        How to train: sat, erm, …; by default sat.
    net
        The network: resnet18, mlp, module:function, timm:NAME, …; by default one that suits the
        data.
    seed
        Of weights, order, augmentation and label noise.
    set
        A setting, as table.key=value; may be repeated. `selfadapt list` shows them all, in the
        tables data, corruption, net, method and train.
    data_root
        Where named sets lie, in their published layouts.
    """
    from selfadapt import recipe, terminal
    from selfadapt.experiment import fit as run_fit

    settings = recipe.parse(set or [])
    if data_root is not None:
        settings["data.root"] = str(data_root)
    screen = terminal.console()
    with terminal.View(screen) as view:
        run = run_fit(
            data,
            out=out,
            method=method,
            net=net,
            seed=seed,
            settings=settings,
            show=view.run(method or settings.get("method.name", "sat")),
        )
    _summarise(run, screen)


def _summarise(run: Run, screen: Any) -> None:
    from selfadapt import terminal

    if not launched.is_first():
        return
    screen.print(terminal.result_table([terminal.result_row(run.result)]))
    quoted = shlex.quote(str(run.path))
    screen.print(f"\nEverything is in {run.path}. Next:", markup=False)
    clean = f"{run.path.name}-clean.csv" if Path("clean.csv").exists() else "clean.csv"
    steps = [f"labels {quoted} --to {shlex.quote(clean)}"]
    steps += [f"threshold {quoted} --coverage 0.9"] * bool(run.about["data"].get("calibration"))
    for step in (*steps, f"predict {quoted} DATA --to predictions.csv"):
        screen.print(f"  selfadapt {step}", markup=False)


@app.command
def demo(*, out: Path, seeds: int = 1) -> None:
    """Watch wrong labels ruin ordinary training, and self-adaptive training survive them.

    Trains both on handwritten digits of which 40 % got a random label. Takes under three minutes.

    Example: selfadapt demo --out demo --seeds 3

    Parameters
    ----------
    out
        Where the runs go: new, empty, or of an earlier demo.
    seeds
        How many seeds, from 0.
    """
    from selfadapt.demo import run_demo

    run_demo(out, seeds)


@app.command
def labels(run: Path, /, *, to: Path) -> None:
    """Write a run's corrected labels to a file, with the given ones beside them.

    Example: selfadapt labels runs/a --to clean.csv

    Parameters
    ----------
    run
        A finished run directory.
    to
        The file to write: .csv or .parquet.
    """
    from selfadapt import hand_over, terminal

    written = hand_over.write_labels(run, to)
    terminal.console().print(written, markup=False)


@app.command
def predict(run: Path, data: str, /, *, to: Path, set: Sets = None) -> None:
    """Write a trained run's predictions for DATA, which needs no labels, to a file.

    Example: selfadapt predict runs/a new_photos/ --to predictions.csv

    Parameters
    ----------
    run
        A run directory.
    data
        A folder of images, a .csv, .parquet or .npz, or a name (its test part).
    to
        The file to write: .csv or .parquet.
    set
        How to read it: data.path, data.id, data.root.
    """
    from selfadapt import hand_over, recipe, terminal

    asked = hand_over.only(("data",), recipe.parse(set or []))
    screen = terminal.console()
    with terminal.View(screen) as view:
        written = hand_over.write_predictions(run, data, to, asked["data"], view.run("predict"))
    screen.print(written, markup=False)


@app.command
def corrupt(
    data: str,
    /,
    *,
    to: Path,
    seed: int = 1,
    set: Sets = None,
    data_root: Path | None = None,
) -> None:
    """Write DATA with corrupted labels or images, the true labels beside them, as a set of its own.

    `selfadapt fit` on it sees what it would see on DATA with the same corruption and seed.

    Example: selfadapt corrupt digits --to noisy.npz --set corruption.name=uniform

    Parameters
    ----------
    data
        What to corrupt: anything `selfadapt fit` takes. Its test part stays as it is.
    to
        An .npz file; or a folder, into which colour images of any number go as Parquet.
    seed
        Of the noise.
    set
        A setting of the tables corruption and data, such as corruption.rate=0.2.
    data_root
        Where named sets lie, in their published layouts.
    """
    from selfadapt import hand_over, recipe, terminal

    settings = recipe.parse(set or [])
    if data_root is not None:
        settings["data.root"] = str(data_root)
    screen = terminal.console()
    with terminal.View(screen) as view:
        written = hand_over.write_corrupted(data, to, seed, settings, view.run("corrupt"))
    screen.print(written, markup=False)


@app.command(name="list")
def list_names(name: str | None = None, /) -> None:
    """List the methods, data sources, nets and corruptions there are, with their settings.

    Example: selfadapt list sat

    Parameters
    ----------
    name
        Only this one, with its whole card: formula, paper, code.
    """
    from selfadapt import catalogue, terminal

    if name is None:
        catalogue.show(terminal.console())
    else:
        catalogue.show_one(terminal.console(), name)


app.command(selective_verbs.evaluate)
app.command(selective_verbs.threshold)
app.command(study_verbs.reproduce)
app.command(study_verbs.table)


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code: 0, 1 for a study with failed cells, 2 for what a person can put right, 130 or
    143 for a stopped run."""
    try:
        with _ended_by_sigterm():
            app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        return _complain(f"{error}\nSee `selfadapt --help`.", 2)
    except errors.Interrupted as error:
        return _complain(str(error), error.exit_code, speaks=launched.is_first())
    except errors.SelfAdaptError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt as stop:
        code = 143 if isinstance(stop, _Terminated) else 130
        told = "stopped; the same command goes on from the last checkpoint, if there is one yet"
        return _complain(told, code, speaks=launched.is_first())
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise
        return _complain(_of_the_disk(error), 2)
    return 0


def _of_the_disk(error: OSError) -> str:
    """A full disk is found in the middle of a file, and the system does not say which."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" for {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}: make room, then give the same command again"
    return f"{error.strerror}: {error.filename or 'what was to be written'}"


def _complain(message: str, code: int, speaks: bool | None = None) -> int:
    """Once for all processes that fail alike; an error once a machine, for it may lie with one."""
    if launched.is_first_here() if speaks is None else speaks:
        print(f"selfadapt: {message}", file=sys.stderr)
    return code


class _Terminated(KeyboardInterrupt):
    """SIGTERM while no training was under way, which would have saved first."""


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
