"""The page of results is made from what was kept, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pages
import pytest
import results_page
import selective_page
from made_runs import make_run, write_labels
from PIL import Image

from selfadapt import study, tables

EPOCHS = 5


def keep(name: str, folder: Path, results: Path, accuracies: dict[str, float], scale: str) -> Path:
    """Two made-up seeds of each method under the settings of the recipe's cells."""
    recipe = study.read(name)
    every = recipe.cells("small", seeds=2)
    cells = [cell for cell in every if not cell.labels.get("variant")]
    names = {name for cell in every for name in cell.labels}
    runs = {}
    for number, cell in enumerate(cells):
        method = cell.settings.get("method.name", "sat")
        level = accuracies.get(method)
        if level is not None:
            settings = {k.replace(".", "__"): v for k, v in cell.settings.items()}
            settings["data__source"] = settings.pop("data__name")
            del settings["method__name"]
            log = [
                {
                    "fitted": level,
                    "untouched_right": level,
                    "corrupted_right": level,
                    "test_accuracy": level,
                }
            ] * EPOCHS
            run = make_run(
                folder / f"{number}-{method}",
                method=method,
                seed=cell.seed,
                accuracy=level + cell.seed / 1000,
                log=log,
                **settings,
            )
            write_labels(run, [0, 1, 1], [0, 1, 0], [0.9, 0.8, 0.3])
            runs[run] = {name: cell.labels.get(name) for name in names}
    about = {"recipe": name, "scale": scale}
    kept = tables.keep(tables.rows(list(runs), runs), recipe.figures, about)
    path = results / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept))
    return path


def page(tmp_path: Path) -> str:
    results_page.main(tmp_path / "results" / "study", tmp_path / "docs")
    return (tmp_path / "docs" / "results.md").read_text()


def made(tmp_path: Path, name: str, accuracies: dict[str, float], **known: Any) -> str:
    results = tmp_path / "results" / "study"
    keep(name, tmp_path / "runs", results, accuracies, known.get("scale", "small"))
    return page(tmp_path)


def test_without_any_study_the_page_says_how_to_run_each(tmp_path: Path) -> None:
    text = page(tmp_path)
    for name in study.names():
        assert f"`selfadapt reproduce {name} --scale small`" in text
    assert "## Not run yet" in text
    assert "## In short" not in text
    assert "**Small scale is not the paper's.**" in text


@pytest.mark.parametrize(("sat", "word"), [(0.9, "yes"), (0.5, "no")])
def test_verdicts_follow_the_data(sat: float, word: str, tmp_path: Path) -> None:
    text = made(tmp_path, "cifar-noise", {"erm": 0.6, "sat": sat})
    assert f"- SAT above ERM: **{word}**, at {4 if word == 'yes' else 0} of 4 noise rates" in text
    assert f"| SAT above ERM | {word} | Test accuracy under uniform label noise |" in text


def test_a_section_has_table_numbers_of_the_paper_and_origin(tmp_path: Path) -> None:
    text = made(tmp_path, "cifar-noise", {"erm": 0.6, "sat": 0.9})
    section = text.split("## Test accuracy under uniform label noise")[1].split("\n## ")[0]
    assert "arXiv 2002.10319, table 1" in section
    (line,) = [line for line in section.splitlines() if line.startswith("| sat |")]
    assert line.count("90.1 ± 0.1") == 4
    assert "<br>92.64" in line, "of CIFAR-10 at 40 %, for which digits stand"
    assert "The paper's numbers are of cifar10, resnet34" in section
    for said in (
        "`selfadapt reproduce cifar-noise --scale small`",
        "seeds 1, 2",
        "commit abc123",
        "2026-01-02",
        "Made Up 9000",
        "data digits",
        "`results/study/cifar-noise.json`",
    ):
        assert said in section
    assert "reproduce cifar-noise" not in text.split("## Not run yet")[1]


def test_numbers_that_stand_for_nothing_of_ours_have_a_table_of_their_own(tmp_path: Path) -> None:
    """Start 20 of 200 epochs is not start 20 of 60."""
    text = made(tmp_path, "sensitivity", {"sat": 0.9})
    section = text.split("## Sensitivity to momentum and start\n")[1].split("\n## ")[0]
    ours, paper = section.split("The paper's numbers:")
    assert "<br>" not in ours
    assert "| 0.9 | 60 | 92.64 |" in paper


def test_pictures_are_drawn_linked_and_renewed(tmp_path: Path) -> None:
    stale = tmp_path / "docs" / "pictures" / "results" / "stale.svg"
    stale.parent.mkdir(parents=True)
    stale.touch()
    text = made(tmp_path, "label-recovery", {"erm": 0.7, "sat": 0.9})
    for name in ("portions", "recovered", "weights"):
        picture = f"pictures/results/label-recovery-{name}.svg"
        assert f"]({picture})" in text
        assert (tmp_path / "docs" / picture).read_text().startswith("<?xml")
    assert not stale.exists()
    again = page(tmp_path)
    assert again == text


def test_a_large_picture_is_a_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_page, "_LARGEST_SVG", 10)
    text = made(tmp_path, "label-recovery", {"erm": 0.7, "sat": 0.9})
    assert "(pictures/results/label-recovery-portions.png)" in text
    path = tmp_path / "docs" / "pictures" / "results" / "label-recovery-portions.png"
    with Image.open(path) as image:
        assert image.mode == "P"


def test_reasons_that_a_person_wrote_are_on_the_page(tmp_path: Path) -> None:
    results = tmp_path / "results" / "study"
    path = keep("sensitivity", tmp_path / "runs", results, {"sat": 0.9}, "small")
    path.with_suffix(".md").write_text("Because the net is small.\n")
    assert "\n\nBecause the net is small.\n\n" in page(tmp_path)


def test_paper_scale_is_told_and_has_differences(tmp_path: Path) -> None:
    text = made(tmp_path, "sensitivity", {"sat": 0.9}, scale="paper")
    assert "## Sensitivity to momentum and start, paper scale" in text


def test_a_study_of_no_recipe_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "results" / "study"
    path = keep("sensitivity", tmp_path / "runs", results, {"sat": 0.9}, "small")
    path.write_text(path.read_text().replace('"recipe": "sensitivity"', '"recipe": "no-such"'))
    with pytest.raises(SystemExit, match="no-such"):
        page(tmp_path)


@pytest.mark.parametrize("name", ["cifar-noise-paper", "human-labels-paper"])
def test_the_figures_in_the_readme_are_those_that_were_kept(name: str) -> None:
    folder = results_page.ROOT / "results" / "study"
    erm, sat = sorted(
        tables.rows(folder / f"{name}.json"), key=lambda row: str(row.get("method.name"))
    )
    time = sat.get("training_seconds_of_all_stages") / erm.get("training_seconds_of_all_stages")
    line = (
        f"| {shown(sat, 'error_rate')} | {shown(erm, 'accuracy')} | **{shown(sat, 'accuracy')}** "
        f"| {shown(sat, 'labels_right')} | {time:.2f}× |"
    )
    assert line in (results_page.ROOT / "README.md").read_text(encoding="utf-8")


def shown(row: tables.Row, metric: str) -> str:
    value = tables.value(row, metric)
    assert value is not None
    return f"{100 * value:.1f} %"


@pytest.mark.slow
def test_the_page_in_the_repository_is_that_of_its_results(tmp_path: Path) -> None:
    """If this fails, `make results` has not been run since results or recipes changed."""
    results_page.main(docs=tmp_path)
    here = results_page.ROOT / "docs" / "results.md"
    assert (tmp_path / "results.md").read_text() == here.read_text()


def test_so_is_the_page_of_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, `make results` has not been run since the studies of abstaining changed."""
    here = results_page.ROOT / "docs" / "selective_results.md"
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").symlink_to(results_page.ROOT / "results")
    monkeypatch.setattr(selective_page, "ROOT", tmp_path)
    selective_page.main()
    assert (tmp_path / "docs" / here.name).read_text() == here.read_text()


def test_so_is_the_page_of_figures() -> None:
    """If this fails, `python benchmarks/pages.py` has not been run since results changed."""
    here = results_page.ROOT / "docs" / "figures.md"
    assert pages.page() == here.read_text(encoding="utf-8")
