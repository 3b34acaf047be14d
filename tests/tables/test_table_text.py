"""The four ways out of a table: what a person or a program reads there."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import make_run
from rich.console import Console

from selfadapt import tables
from selfadapt.tables import Layout, Table
from selfadapt.tables.as_latex import escape as latex
from selfadapt.tables.as_markdown import escape as markdown

LATEX_SPECIAL = r"100% & $5 #1 a_b {c} ~d ^e \f <g> |h|"


def shown(table: Table, width: int = 100) -> str:
    """As printed where lines are not broken by the terminal."""
    out = io.StringIO()
    table.to_terminal(Console(file=out, width=width, soft_wrap=True, highlight=False))
    return out.getvalue()


def a_table(
    folder: Path,
    methods: tuple[str, ...] = ("erm", "sat"),
    rates: tuple[float, ...] = (0.2, 0.4),
    seeds: int = 2,
    expected: Callable[[Mapping[str, Any], str], float | None] | None = None,
    layout: Layout | None = None,
    title: str = "",
) -> Table:
    """Accuracy 0.5 + 0.1·seed + 0.01·place, so every text is known."""
    for place, method in enumerate(methods):
        for rate in rates:
            for seed in range(1, seeds + 1):
                make_run(
                    folder / f"{place:02}-{rate}-{seed}",
                    method=method,
                    seed=seed,
                    corruption__rate=rate,
                    accuracy=0.5 + 0.1 * seed + 0.01 * place,
                    seconds=10.0 + place,
                )
    return tables.build(
        tables.rows(folder),
        layout or Layout(["method.name"], ["corruption.rate"]),
        expected,
        title=title,
    )


def paper(known: Mapping[str, Any], metric: str) -> float | None:
    return 70.50 if known["method.name"] == "sat" and known["corruption.rate"] == 0.4 else None


def test_a_person_reads_percent_deviations_differences_and_costs(tmp_path: Path) -> None:
    text = shown(a_table(tmp_path, expected=paper, title="A title"))
    assert text.startswith("A title\n")
    assert "test accuracy, last epoch, %" in text
    assert re.search(r"noise rate +20 % +40 % +time\n", text)
    assert re.search(r"erm +65\.0 ± 7\.1 +65\.0 ± 7\.1 +1\.00×\n", text)
    assert re.search(r"sat +66\.0 ± 7\.1 +66\.0 ± 7\.1 +1\.10×\n +70\.50, −4\.5 *\n", text)
    assert "Mean ± standard deviation over 2 seeds." in text
    assert "Below: the paper's number, and ours minus it." in text
    assert "over that of erm with the same settings" in text
    assert "Protocol equal" in text


def test_markdown_says_the_same(tmp_path: Path) -> None:
    text = a_table(tmp_path, expected=paper, title="A title").to_markdown()
    assert "### A title" in text
    assert "| method ↓ noise rate → | 20 % | 40 % | time |" in text
    assert "| --- | ---: | ---: | ---: |" in text
    assert "| sat | 66.0 ± 7.1 | 66.0 ± 7.1<br>70.50, −4.5 | 1.10× |" in text
    assert "- Below: the paper's number, and ours minus it." in text


def test_latex_says_the_same(tmp_path: Path) -> None:
    layout = Layout(["method.name"], ["data.name", "corruption.rate"])
    for number, (name, rate) in enumerate([("a_b", 0.2), ("a_b", 0.4), ("c", 0.2)]):
        make_run(tmp_path / str(number), accuracy=0.5, data__source=name, corruption__rate=rate)
    text = tables.build(tables.rows(tmp_path), layout, title="50 %").to_latex()
    lines = text.splitlines()
    assert r"\caption{50 \%}" in lines
    assert r"data & \multicolumn{2}{c}{a\_b} & c \\" in lines
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-4}" in lines
    assert r"noise rate & 20 \% & 40 \% & 20 \% \\" in lines
    assert r"sat & 50.0 & 50.0 & 50.0 \\" in lines
    for rule in ("toprule", "midrule", "bottomrule"):
        assert lines.count(f"\\{rule}") == 1
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_latex_has_the_published_number_and_no_bare_special_character(tmp_path: Path) -> None:
    text = a_table(tmp_path, ("erm", "sat"), expected=paper).to_latex()
    assert (
        r"sat & 66.0 $\pm$ 7.1 & 66.0 $\pm$ 7.1 {\scriptsize (70.50, $-$4.5)} & 1.10$\times$ \\"
        in text
    )
    assert text.isascii()


@pytest.mark.parametrize("name", [LATEX_SPECIAL, "co_teaching", "±×−–"])
def test_latex_escapes_every_special_character(name: str) -> None:
    escaped = latex(name)
    known = r"\\text\w+\{\}|\\[&%$#_{}]|\$\\(?:pm|times)\$|\$-\$|--"
    assert not re.search(r"[&%$#_{}~^\\<>|±×−–]", re.sub(known, "", escaped))
    assert re.sub(r"\W", "", name) in re.sub(r"\\text\w+\{\}|\W", "", escaped) or name == "±×−–"


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("*loud*", r"\*loud\*"),
        ("co_teaching", "co_teaching"),
        ("_private_", r"\_private\_"),
        ("<b>", r"\<b\>"),
        ("a\nb", "a b"),
        ("[x]`y`\\", r"\[x\]\`y\`" + "\\\\"),
    ],
)
def test_markdown_escapes_what_it_would_read_as_form(name: str, escaped: str) -> None:
    assert markdown(name) == escaped


def test_names_with_special_characters_come_through_every_way(tmp_path: Path) -> None:
    name = "[red]a|b_*c*[/red] & 5 %"
    table = a_table(tmp_path, ("erm", name), title=name)
    assert name in shown(table)
    assert latex(name) in table.to_latex()
    assert markdown(name) in table.to_markdown()
    assert name in [row["method.name"] for row in csv.DictReader(io.StringIO(table.to_csv()))]


def test_csv_is_flat_and_in_fractions(tmp_path: Path) -> None:
    layout = Layout(["method.name"], ["corruption.rate"], ["accuracy", "labels_right"])
    table = a_table(tmp_path, seeds=3, expected=paper, layout=layout)
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(read) == 2 * 2 * 2
    (found,) = [
        line
        for line in read
        if (line["method.name"], line["corruption.rate"], line["metric"])
        == ("sat", "0.4", "accuracy")
    ]
    values = np.array([0.61, 0.71, 0.81])
    assert float(found["mean"]) == pytest.approx(values.mean(), abs=1e-15)
    assert float(found["std"]) == pytest.approx(values.std(ddof=1), abs=1e-15)
    assert (found["n"], found["seeds"]) == ("3", "1 2 3")
    assert float(found["paper"]) == pytest.approx(0.705)
    assert float(found["difference"]) == pytest.approx(values.mean() - 0.705)
    assert float(found["cost"]) == pytest.approx(1.1)
    assert found["had_true_labels"] == "False"
    (erm,) = [line for line in read if line["method.name"] == "erm"][:1]
    assert (erm["paper"], erm["difference"]) == ("", "")


def test_csv_keeps_every_key_of_the_layout_and_the_protocol(tmp_path: Path) -> None:
    layout = Layout(["method.name", "protocol"], ["data.name"])
    runs = [make_run(tmp_path / name) for name in ("a", "b")]
    extra = {runs[0]: {"protocol": "own"}, runs[1]: {"protocol": "equal"}}
    text = tables.build(tables.rows(runs, extra), layout).to_csv()
    read = list(csv.DictReader(io.StringIO(text)))
    assert [line["protocol"] for line in read] == ["own", "equal"]
    assert {line["data.name"] for line in read} == {"digits"}


TWELVE = tuple(number / 20 for number in range(12))


def test_twelve_columns_fit_into_a_hundred(tmp_path: Path) -> None:
    """Two methods by twelve rates: turned, so that the rates stand below each other."""
    text = shown(a_table(tmp_path, rates=TWELVE))
    assert max(map(len, text.splitlines())) <= 100
    assert re.search(r"method +erm +sat\n", text)
    assert len(re.findall(r"± 7\.1", text)) == 2 * 12


@pytest.mark.parametrize("width", [100, 80, 40])
def test_what_fits_neither_way_is_split(width: int, tmp_path: Path) -> None:
    methods = tuple(f"method_{number:02}" for number in range(13))
    text = shown(a_table(tmp_path, methods, TWELVE), width)
    assert max(map(len, text.splitlines())) <= width
    assert len(re.findall(r"± 7\.1", text)) == 13 * 12, "every cell, once"
    assert text.count("method_07") > 1, "each part names its lines"
    assert "…" not in text, "nothing is cut off"


def test_parts_are_of_about_as_many_columns(tmp_path: Path) -> None:
    """Not ten columns, and then the time alone."""
    methods = ("erm", *(f"method_{number:02}" for number in range(12)))
    layout = Layout(["method.name", "corruption.name"], ["corruption.rate"])
    text = shown(a_table(tmp_path, methods, TWELVE, layout=layout), 90)
    counts = [
        len(re.findall(r"%|time", line)) for line in text.splitlines() if "noise rate" in line
    ]
    assert sum(counts) == 13
    assert max(counts) - min(counts) <= 1


def test_a_wide_terminal_is_not_filled_beyond_a_hundred(tmp_path: Path) -> None:
    methods = tuple(f"method_{number:02}" for number in range(13))
    text = shown(a_table(tmp_path, methods, TWELVE), 200)
    assert max(map(len, text.splitlines())) <= 100


def test_a_method_with_true_labels_is_marked(tmp_path: Path) -> None:
    make_run(tmp_path / "a", method="erm")
    make_run(tmp_path / "b", method="mentornet", results={"had_true_labels": True})
    down = tables.build(tables.rows(tmp_path), Layout(["method.name"], ["corruption.rate"]))
    across = tables.build(tables.rows(tmp_path), Layout(["corruption.rate"], ["method.name"]))
    for table in (down, across):
        text = shown(table)
        assert "mentornet*" in text
        assert "erm*" not in text
        assert "* was given true labels" in text
        assert r"mentornet\*" in table.to_markdown()
    assert "40 %*" not in shown(across)
    flat = list(csv.DictReader(io.StringIO(down.to_csv())))
    assert [line["had_true_labels"] for line in flat] == ["False", "True"]


def test_fewer_seeds_than_usual_are_told_in_the_cell(tmp_path: Path) -> None:
    a_table(tmp_path, seeds=3)
    made = sorted(path for path in tmp_path.iterdir() if path.name.startswith("01-0.4"))
    table = tables.build(
        [row for row in tables.rows(tmp_path) if Path(row.path) not in made[1:]],
        Layout(["method.name"], ["corruption.rate"]),
    )
    text = shown(table)
    assert re.search(r"sat +71\.0 ± 10\.0 +61\.0 \(1\)", text)
    assert "over 3 seeds; (n): over n seeds." in text


def test_one_seed_is_said_to_be_one(tmp_path: Path) -> None:
    text = shown(a_table(tmp_path, seeds=1))
    assert "±" not in text
    assert "One seed, so without a deviation." in text


def test_names_of_what_is_alike_everywhere_are_said_once(tmp_path: Path) -> None:
    layout = Layout(["net.name", "method.name"], ["data.name", "corruption.rate"])
    table = a_table(tmp_path, layout=layout)
    text = shown(table)
    assert re.search(r"noise rate +20 % +40 % +time\nmethod *\n", text)
    assert "All: mlp, digits." in text
    assert "net.name" in table.to_csv()


def test_lines_of_which_a_metric_knows_nothing_are_not_shown(tmp_path: Path) -> None:
    make_run(tmp_path / "a", method="erm", results={"accuracy_best_validation": 0.7})
    make_run(tmp_path / "b", method="sat")
    layout = Layout(["method.name"], ["data.name"], ["accuracy", "accuracy_best_validation"])
    last, best = shown(tables.build(tables.rows(tmp_path), layout)).split("test accuracy")[1:]
    assert "sat" in last
    assert "epoch of the best noisy validation accuracy" in best
    assert "sat" not in best.split("\n\n")[0]


def test_the_cost_stands_below_methods_that_are_columns(tmp_path: Path) -> None:
    layout = Layout(["corruption.rate"], ["method.name"])
    assert re.search(r"time +1\.00× +1\.10×", shown(a_table(tmp_path, layout=layout)))


def test_without_a_baseline_nothing_is_said_on_cost(tmp_path: Path) -> None:
    text = shown(a_table(tmp_path, ("sat", "gce")))
    assert "×" not in text
    assert "no run of erm to compare with" in text


def test_a_layout_without_columns_has_one(tmp_path: Path) -> None:
    text = a_table(tmp_path, rates=(0.4,), layout=Layout(["method.name"])).to_markdown()
    assert "| method | accuracy | time |" in text


def test_values_are_written_as_a_person_would() -> None:
    assert tables.words.value_of("corruption.rate", 0.1667) == "16.67 %"
    assert tables.words.value_of("method.reweight", False) == "no"
    assert tables.words.value_of("train.lr", 1e-4) == "0.0001"
    assert tables.words.value_of("train.milestones", [75, 90]) == "75, 90"
    assert tables.words.value_of("method.start", None) == "–"
    assert tables.words.said("data.augment", "none") == "augment none"
    assert tables.words.said("method.name", "sat") == "sat"
