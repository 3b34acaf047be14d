"""The house rules of DESIGN.md, checked over the syntax trees: who may import whom, and how long
a file or a function may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import selfadapt

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "selfadapt"
FILES = sorted(PACKAGE.rglob("*.py"))

# Left to right: a room imports only rooms further left; rooms of one tier do not import each other.
TIERS = [
    "errors",
    "batch distributed launched randomness signatures",
    "losses attacks corruption selective targets head",
    "adaptive_loss nets data methods",
    "rundir recipe labels_table",
    "study",
    "engine",
    "experiment",
    "tables audit",
    "reproduce report review",
    "integrations parameters abstention hand_over catalogue terminal demo "
    "study_verbs selective_verbs cli __main__",
]
TIER = {room: number for number, tier in enumerate(TIERS) for room in tier.split()}
LAST = len(TIERS) - 1
NOWHERE = len(TIERS)


def room_of(file: str) -> str:
    """The file selfadapt/data/feed.py lies in the room data."""
    return Path(file).parts[1].removesuffix(".py")


def imported_rooms(node: ast.AST) -> Iterator[str]:
    """The rooms an import statement names; "" is the front door, selfadapt itself."""
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level:
        modules = ["selfadapt.(relative)"]
    elif isinstance(node, ast.ImportFrom) and node.module == "selfadapt":
        modules = [f"selfadapt.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [node.module or ""]
    else:
        modules = []
    for module in modules:
        package, _, rest = module.partition(".")
        if package == "selfadapt":
            yield rest.partition(".")[0]


def may_import(mine: str, room: str) -> bool:
    theirs = TIER.get(room, NOWHERE) if room else LAST
    return room == mine or theirs < TIER[mine] or theirs == TIER[mine] == LAST


def forbidden_imports(source: str, file: str) -> list[str]:
    """Each import that breaks the order, with file and line."""
    mine = room_of(file)
    found = []
    for node in ast.walk(ast.parse(source)):
        for room in imported_rooms(node):
            if not may_import(mine, room):
                line = getattr(node, "lineno", 0)
                found.append(f"{file}:{line}: {mine} must not import {room or 'the front door'}")
    return found


def name_in_repository(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_file_lies_in_a_room() -> None:
    rooms = {room_of(name_in_repository(file)) for file in FILES} - {"__init__"}
    assert rooms <= TIER.keys(), "place the new room in TIERS, and in DESIGN.md"


def test_a_room_imports_only_rooms_to_its_left() -> None:
    found = []
    for file in FILES:
        if file != PACKAGE / "__init__.py":
            found += forbidden_imports(file.read_text(), name_in_repository(file))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "line"),
    [
        ("losses.py", "import os\nfrom selfadapt.engine.fit import fit", 2),
        ("losses.py", "from selfadapt import errors, engine", 1),
        ("losses.py", "import selfadapt.cli as c", 1),
        ("losses.py", "import json, selfadapt.cli", 1),
        ("losses.py", "def f():\n    if True:\n        from selfadapt import experiment", 3),
        ("losses.py", "from selfadapt import targets", 1),
        ("losses.py", "import selfadapt", 1),
        ("losses.py", "from selfadapt import fit", 1),
        ("losses.py", "from . import batch", 1),
        ("methods/sat.py", "from selfadapt.nets.mlp import mlp", 1),
        ("data/feed.py", "from selfadapt import methods", 1),
        ("data/sources/digits.py", "from selfadapt.rundir import RunDir", 1),
        ("rundir.py", "from selfadapt import recipe", 1),
        ("errors.py", "from selfadapt import batch", 1),
        ("report/page.py", "from selfadapt import review", 1),
        ("report/page.py", "from selfadapt.cli import main", 1),
        ("experiment/run.py", "from selfadapt.no_such_room import x", 1),
    ],
)
def test_an_import_to_the_right_is_found(file: str, source: str, line: int) -> None:
    found = forbidden_imports(source, f"selfadapt/{file}")
    assert len(found) == 1
    assert found[0].startswith(f"selfadapt/{file}:{line}: ")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("losses.py", "import torch, selfadapter\nfrom selfadapt import errors, batch"),
        ("data/feed.py", "from selfadapt.data.labelled import Rows\nfrom selfadapt import data"),
        ("cli.py", "import selfadapt\nfrom selfadapt import demo, experiment, errors"),
        ("__main__.py", "from selfadapt.cli import main"),
        ("engine/fit.py", "from selfadapt.rundir import RunDir\nimport selfadapt.methods.method"),
    ],
)
def test_an_import_to_the_left_is_not(file: str, source: str) -> None:
    assert forbidden_imports(source, f"selfadapt/{file}") == []


def runtime_imports(source: str) -> Iterator[str]:
    """What a file imports when it runs: without the bodies of `if TYPE_CHECKING`."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "").partition(".")[0]
        waiting += ast.iter_child_nodes(node)


def test_the_front_door_imports_the_standard_library_only() -> None:
    found = set(runtime_imports((PACKAGE / "__init__.py").read_text()))
    assert found <= sys.stdlib_module_names
    bad = "import os\nif TYPE_CHECKING:\n    import numpy\ndef f():\n    import torch.nn"
    assert set(runtime_imports(bad)) == {"os", "torch"}


@pytest.mark.parametrize(
    "code",
    [
        "import selfadapt",
        "from selfadapt.cli import run; assert run(['--help']) == 0",
        "from selfadapt.cli import run; assert run(['--version']) == 0",
        "from selfadapt.cli import run; assert run(['fit', '--help']) == 0",
        "from selfadapt.cli import run; assert run(['reproduce', '--help']) == 0",
        "from selfadapt.cli import run; assert run(['reproduce', '--list']) == 0",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(code: str) -> None:
    check = "import sys; print('heavy:', sorted({'torch', 'numpy', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\n{check}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_every_promised_name_is_there() -> None:
    assert {"fit", "load", "open_run", "with_rows", "SelfAdaptiveLoss", "Targets"} <= set(
        selfadapt.__all__
    )
    for name in selfadapt.__all__:
        assert getattr(selfadapt, name) is not None
        assert name in dir(selfadapt)
    assert selfadapt.fit is sys.modules["selfadapt.experiment"].fit
    assert selfadapt.losses is sys.modules["selfadapt.losses"]
    with pytest.raises(AttributeError, match="no_such_name"):
        selfadapt.no_such_name  # noqa: B018


def functions_of(source: str) -> Iterator[tuple[str, int, int]]:
    """(name, line, length) of every function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_file_is_longer_than_300_lines() -> None:
    lengths = {name_in_repository(file): len(file.read_text().splitlines()) for file in FILES}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    found = [
        f"{name_in_repository(file)}:{line}: {name} has {length} lines"
        for file in FILES
        for name, line, length in functions_of(file.read_text())
        if length > 60
    ]
    assert not found, "\n".join(found)
    assert list(functions_of("x = 1\ndef f():\n    a\n    b")) == [("f", 2, 3)]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_nothing_mentions_where_this_was_written() -> None:
    """Notes beside the repository are not there for who clones it."""
    elsewhere = [part + "/shared" for part in ("..", "/work")]
    found = []
    for file in tracked():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(name in line for name in elsewhere):
                found.append(f"{name_in_repository(file)}:{number}: {line.strip()[:80]}")
    assert not found, "\n".join(found)
