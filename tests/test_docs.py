"""Every command and snippet of README and docs is run, in order, page by page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from selfadapt import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- here: (?P<here>[^>]*) -->\n)?```(?P<kind>[\w{}]+)\n(?P<text>.*?)```", re.DOTALL
)


def blocks(page: Path) -> list[re.Match[str]]:
    return [b for b in BLOCK.finditer(page.read_text()) if b["kind"] in ("python", "console")]


def pictures(folder: Path, count: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for number in range(count):
        base = np.full((32, 32, 3), 90 * seed + 30)
        pixels = (base + random.integers(0, 30, base.shape)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


def photos(space: dict[str, Any]) -> None:
    pictures(Path("photos/cat"), 14, 0)
    pictures(Path("photos/dog"), 14, 1)


def photos_and_more(space: dict[str, Any]) -> None:
    photos(space)
    pictures(Path("new_photos"), 3, 1)


def photos_and_images(space: dict[str, Any]) -> None:
    photos(space)
    space["images"] = np.zeros((2, 32, 32, 3), np.uint8)


def loop(space: dict[str, Any]) -> None:
    labels = torch.arange(40) % 10
    x = torch.nn.functional.one_hot(labels, 10).float()
    model = torch.nn.Linear(10, 10)
    space["labels"], space["model"] = labels, model
    space["dataset"] = torch.utils.data.TensorDataset(x, labels)
    space["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.1)


def recipe(space: dict[str, Any]) -> None:
    """The one that the page shows."""
    page = (ROOT / "docs" / "reproduce.md").read_text()
    [text] = [found["text"] for found in BLOCK.finditer(page) if found["kind"] == "toml"]
    Path("mine.toml").write_text(text)


HERE: dict[str, Callable[[dict[str, Any]], None]] = {
    "a folder photos/ of class folders": photos,
    "a folder photos/ of class folders, and a folder new_photos/ of pictures": photos_and_more,
    "a folder photos/ of class folders, and images of uint8 N×H×W×3": photos_and_images,
    "a recipe mine.toml": recipe,
    "a model, an optimizer, a dataset of (x, y) and its labels": loop,
}


def run_python(text: str, here: str | None, space: dict[str, Any]) -> None:
    if here and here.startswith("a file my_methods.py"):
        Path("my_methods.py").write_text(text)
        return
    exec(compile(text, "snippet", "exec"), space)


def run_command(line: str) -> None:
    words = shlex.split(line)
    if words[0] == "make":
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[0] == "selfadapt":
        if words[1:] == ["fit", "--help"]:
            return
        assert cli.run(words[1:]) == 0, line
    elif words[0] == "python":
        subprocess.run([sys.executable, *words[1:]], check=True, timeout=240)
    else:
        pytest.fail(f"no way to run {line!r}")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    space: dict[str, Any] = {}
    for block in blocks(page):
        if block["here"] in HERE:
            HERE[block["here"]](space)
        elif block["here"]:
            assert block["here"].startswith("a file my_methods.py"), block["here"]
        if block["kind"] == "python":
            run_python(block["text"], block["here"], space)
        else:
            for line in block["text"].strip().splitlines():
                run_command(line)


def test_pages_are_found_and_hold_commands() -> None:
    names = {page.name for page in PAGES if blocks(page)}
    assert {"README.md", "start.md", "add_a_method.md", "several_gpus.md", "reproduce.md"} <= names


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
    assert (ROOT / "LICENSE").exists()
