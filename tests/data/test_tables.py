"""CSV and Parquet files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import pixels_of

from selfadapt.data import load
from selfadapt.errors import BadInput, UnknownName


def write_csv(path: Path, columns: dict[str, list], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture
def photos(tmp_path: Path, picture) -> list[Path]:
    return [picture(tmp_path / "photos" / f"{i}.png") for i in range(20)]


def test_csv_of_paths(tmp_path: Path, photos):
    names = ['tabby "cat"', "🦊, red"]
    table = write_csv(
        tmp_path / "t.csv",
        {
            "file": [f"photos/{i}.png" for i in range(19)] + [str(photos[19])],
            "label": [names[i % 2] for i in range(20)],
        },
    )
    data = load(table)
    assert data.classes == tuple(sorted(names))
    assert data.id_name == "path"
    assert data.inputs.shape == (3, 8, 8)
    for row in (0, 7, len(data) - 1):
        source = int(Path(data.ids[row]).stem)
        assert (data.inputs.read(np.array([row]))[0][0].numpy() == pixels_of(photos[source])).all()
        assert data.classes[data.labels[row]] == names[source % 2]


def test_csv_of_features_ids_and_other_columns(tmp_path: Path):
    table = write_csv(
        tmp_path / "t.csv",
        {
            "id": [f"0{i}" for i in range(10)],
            "width": [i / 2 for i in range(10)],
            "who": ["me"] * 10,
            "height": range(10),
            "y": [-i for i in range(10)],
            "label": [i % 3 for i in range(10)],
        },
        delimiter=";",
    )
    data = load(table, test=0)
    values = data.inputs.read(np.array([9, 1]))[0].numpy()
    assert values.tolist() == [[4.5, 9, -9], [0.5, 1, -1]]
    assert data.ids[1] == "01"
    assert data.notes[0] == "3 feature columns; not used: who"


def test_columns_by_name_and_by_hint(tmp_path: Path, photos):
    columns = {
        "klass": ["a", "b"] * 10,
        "right": ["a", "a"] * 10,
        "picture": [str(photo) for photo in photos],
        "key": [f"k{i}" for i in range(20)],
    }
    table = write_csv(tmp_path / "t.csv", columns)
    with pytest.raises(BadInput, match=r"no column called label.*klass, right, picture, key"):
        load(table)
    with pytest.raises(UnknownName, match=r"'klas'\. Did you mean 'klass'"):
        load(table, label="klas")
    with pytest.raises(UnknownName, match="'pictur'"):
        load(table, label="klass", path="pictur")
    with pytest.raises(BadInput, match=r"neither images nor features.*data.path"):
        load(table, label="klass")
    data = load(table, label="klass", path="picture", id="key", true="right", test=0)
    assert (data.ids[3], data.id_name) == ("k3", "key")
    assert data.true_labels.tolist() == [0] * 20
    assert data.labels.tolist() == [0, 1] * 10


def test_a_runs_own_labels_are_a_source(tmp_path: Path, photos):
    columns = {
        "row": range(20),
        "id": [f"photos/{i}.png" for i in range(20)],
        "given": ["a", "b"] * 10,
        "corrected": ["b", "a"] * 10,
        "weight": [0.5] * 20,
    }
    write_csv(tmp_path / "labels.csv", columns)
    pq.write_table(pa.table({k: list(v) for k, v in columns.items()}), tmp_path / "labels.parquet")
    for table in ("labels.csv", "labels.parquet"):
        data = load(tmp_path / table, label="corrected", test=0)
        assert data.inputs.shape == (3, 8, 8)
        assert data.labels.tolist() == [1, 0] * 10
    (tmp_path / "run").mkdir()
    (tmp_path / "labels.csv").rename(tmp_path / "run" / "labels.csv")
    with pytest.raises(BadInput, match=r"none of the first 20 files exists.*data.root"):
        load(tmp_path / "run" / "labels.csv")
    assert len(load(tmp_path / "run" / "labels.csv", root=tmp_path, test=0)) == 20
    columns["id"] = [f"s{i}" for i in range(20)]
    write_csv(tmp_path / "labels.csv", columns)
    with pytest.raises(BadInput, match="neither images nor features"):
        load(tmp_path / "labels.csv")


def test_a_missing_file_is_quarantined(tmp_path: Path, photos):
    photos[4].unlink()
    table = write_csv(tmp_path / "t.csv", {"path": photos, "label": ["a", "b"] * 10})
    data = load(table, test=0)
    assert data.quarantined == {4: "no such file"}
    assert len(data) == 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("path,label\n", "has no rows"),
        ("x,x,label\n1,2,0\n", "same name"),
        ("x,label\n1,0\n2,1,5\n", "not a readable CSV"),
        ("x,label\n1,0\n2,\n", "no label"),
        ("x,label\n1,a\n2,\n", "no label"),
        ("x,label\n1,0\n2,0.5\n", "not a whole number"),
        ("x,label\n1,0\n,1\n", "not finite in row 1"),
        ("id,x,label\na,1,0\na,2,1\n", "ids come more than once: 'a'"),
        ("id,x,label\na,1,0\n,2,1\n", "'id' is empty in row 1"),
    ],
)
def test_unusable_csv(tmp_path: Path, text: str, message: str):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(BadInput, match=message):
        load(tmp_path / "t.csv", test=0)


def test_line_breaks_commas_and_quotes_in_names(tmp_path: Path):
    names = ["a\nb", "c,d", 'e "f"', "a\nb"]
    # More than one block of the reader: 1 MiB.
    columns = {"x": range(200_000), "label": names * 50_000}
    data = load(write_csv(tmp_path / "t.csv", columns), test=0)
    assert len(data) == 200_000
    assert [data.classes[i] for i in data.labels[-4:]] == names


def test_a_byte_order_mark_and_other_encodings(tmp_path: Path):
    (tmp_path / "t.csv").write_bytes("label,x\nä,1\nb,2\n".encode("utf-8-sig"))
    assert load(tmp_path / "t.csv", test=0).classes == ("b", "ä")
    (tmp_path / "t.csv").write_bytes("label,x\nä,1\nb,2\n".encode("latin-1"))
    with pytest.raises(BadInput, match="UTF"):
        load(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes("läbel,x\na,1\nb,2\n".encode("latin-1"))
    with pytest.raises(BadInput, match="UTF-8"):
        load(tmp_path / "t.csv")


def hub_table(photos, labels, **columns) -> pa.Table:
    """The layout of a Hugging Face image set, with its class names."""
    images = [{"bytes": photo.read_bytes(), "path": photo.name} for photo in photos]
    feature = {"names": ["zebra", "ape", "bee"], "_type": "ClassLabel"}
    features = {"image": {"_type": "Image"}, "label": feature}
    table = pa.table({"image": images, "label": labels, **columns})
    info = json.dumps({"info": {"features": features}})
    return table.replace_schema_metadata({"huggingface": info})


def test_parquet_of_encoded_images_with_class_names(tmp_path: Path, photos):
    pq.write_table(hub_table(photos, [0, 1] * 10), tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet", test=0)
    assert data.classes == ("zebra", "ape", "bee")
    assert data.labels.tolist() == [0, 1] * 10
    assert (data.ids[2], data.id_name) == ("2.png", "path")
    assert (data.inputs.read(np.array([2]))[0][0].numpy() == pixels_of(photos[2])).all()


def test_shards_with_a_test_part_that_has_only_true_labels(tmp_path: Path, photos):
    folder = tmp_path / "set" / "data"
    folder.mkdir(parents=True)
    noisy = hub_table(photos, [0, 1] * 10, noisy=[1, 0] * 10)
    pq.write_table(noisy.slice(0, 12), folder / "train-00000-of-00002.parquet")
    pq.write_table(noisy.slice(12), folder / "train-00001-of-00002.parquet")
    pq.write_table(hub_table(photos[:4], [1, 0, 0, 1]), folder / "test-00000-of-00001.parquet")
    data = load(tmp_path / "set", label="noisy", true="label", limit=15)
    assert len(data) == 15
    assert data.labels.tolist() == [*([1, 0] * 7), 1]
    assert data.true_labels.tolist() == [*([0, 1] * 7), 0]
    assert data.test.labels.tolist() == [1, 0, 0, 1]
    apart = load(
        folder / "train-00000-of-00002.parquet",
        label="noisy",
        true="label",
        test=folder / "test-00000-of-00001.parquet",
    )
    assert len(apart) == 12
    assert apart.test.labels.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("below", ["", "plain_text", "data"])
def test_a_named_set_as_the_hub_has_it_with_labels_that_people_gave(
    tmp_path: Path, photos, below: str
):
    true = [0, 1] * 10
    folder = tmp_path / "root" / "cifar10" / below
    folder.mkdir(parents=True)
    given = hub_table(photos, true, human=[1, *true[1:]])
    pq.write_table(given, folder / "train-00000-of-00001.parquet")
    pq.write_table(hub_table(photos[:4], true[:4]), folder / "test-00000-of-00001.parquet")
    data = load("cifar10", root=tmp_path / "root", label="human", true="label", limit=15)
    assert data.name == "cifar10"
    assert data.labels.tolist() == [1, *true[1:15]]
    assert data.true_labels is not None
    assert data.true_labels.tolist() == true[:15]
    assert data.test is not None
    assert data.test.labels.tolist() == true[:4]
    again = load("cifar10", root=tmp_path / "root")
    assert again.labels.tolist() == true


def test_parquet_of_plain_bytes_and_an_empty_one(tmp_path: Path, photos):
    contents = [photo.read_bytes() for photo in photos]
    contents[3], contents[4] = b"", None
    table = pa.table({"pic": contents, "label": ["a", "b"] * 10, "id": range(100, 120)})
    pq.write_table(table, tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet", test=0)
    assert data.quarantined == {3: "zero bytes", 4: "zero bytes"}
    assert data.ids[:2] == ("100", "101")


def test_parquet_of_features(tmp_path: Path):
    table = pa.table(
        {
            "a": [1.0, 2.0, 3.0],
            "label": pa.array(["x", "y", "x"]).dictionary_encode(),
            "b": [[1, 2], [3, 4], [5, 6]],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet", test=0)
    assert data.inputs.read(np.arange(3))[0].tolist() == [[1, 1, 2], [2, 3, 4], [3, 5, 6]]
    assert data.labels.tolist() == [0, 1, 0]
    assert (data.ids, data.id_name) == (("0", "1", "2"), "row")
    ragged = table.set_column(2, "b", pa.array([[1, 2], [3], [4, 5]]))
    pq.write_table(ragged, tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="not of one length"):
        load(tmp_path / "t.parquet")


def test_unusable_parquet(tmp_path: Path):
    (tmp_path / "t.parquet").write_text("nothing")
    with pytest.raises(BadInput, match="not a readable Parquet file"):
        load(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [1.0, 2.0], "label": [0, None]}), tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="no label in row 1"):
        load(tmp_path / "t.parquet")


def write_parquet(path: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_a_test_table_with_its_columns_in_another_order(tmp_path: Path):
    train = write_csv(tmp_path / "a.csv", {"a": [1, 2, 3], "b": [10, 20, 30], "label": [0, 1, 0]})
    columns = {"b": [40, 50], "extra": [7, 7], "a": [4, 5], "label": [0, 1]}
    test = write_csv(tmp_path / "b.csv", columns)
    data = load(train, test=test)
    assert data.features == ("a", "b")
    assert data.test.inputs.read(np.arange(2))[0].tolist() == [[4, 40], [5, 50]]
    del columns["a"]
    with pytest.raises(
        BadInput, match=r"b\.csv lacks 1 of the 2 feature columns.*'a'.*It has: b, e"
    ):
        load(train, test=write_csv(tmp_path / "b.csv", columns))
    assert load((np.zeros((4, 2)), [0, 1, 0, 1]), test=0).features is None
    (tmp_path / "set").mkdir()
    write_parquet(tmp_path / "set" / "train.parquet", a=[1, 2], b=[3, 4], label=[0, 1])
    write_parquet(tmp_path / "set" / "test.parquet", b=[3, 4], a=[1, 2], label=[0, 1])
    data = load(tmp_path / "set")
    assert data.test.inputs.read(np.arange(2))[0].tolist() == [[1, 3], [2, 4]]


def test_a_test_table_with_given_and_true_labels(tmp_path: Path):
    columns = {"x": [1.0, 2, 3, 4], "label": [0, 1, 0, 1], "truth": [0, 1, 1, 0]}
    train = write_parquet(tmp_path / "a.parquet", **columns)
    test = write_parquet(tmp_path / "b.parquet", **columns)
    for label in (None, "label"):
        data = load(train, label=label, true="truth", test=test)
        assert data.test.inputs.shape == data.inputs.shape == (1,)
        assert data.test.labels.tolist() == [0, 1, 1, 0], "measured by the true labels"
        assert data.labels.tolist() == [0, 1, 0, 1]


def test_the_labels_a_run_wrote_are_no_features(tmp_path: Path):
    rows = {"label": [0, 1, 0], "given": [0, 1, 1], "part": ["train"] * 3}
    rows |= {name: [0.5, 0.25, 0.125] for name in ("belief_given", "belief_corrected", "weight")}
    for key in ("row", "key"):
        alone = write_csv(tmp_path / "clean.csv", {key: [5, 6, 7], **rows})
        with pytest.raises(BadInput, match=r"labels that a run wrote.*RUN/labels\.parquet"):
            load(alone, test=0)
        joined = write_csv(tmp_path / "j.csv", {key: [5, 6, 7], **rows, "a": [1, 2, 3]})
        data = load(joined, test=0)
        assert data.features == ("a",)
        assert data.labels.tolist() == [0, 1, 0]
    names = ["0.png", "1.png", "2.png"]
    with pytest.raises(BadInput, match=r"none of the first 3 files.*RUN/labels\.parquet"):
        load(write_csv(tmp_path / "clean.csv", {"path": names, **rows}), test=0)


def test_the_nearest_column(tmp_path: Path):
    table = write_csv(tmp_path / "t.csv", {"x": [1, 2], "Lables": [0, 1], "z": [1, 2]})
    with pytest.raises(BadInput, match=r"It has: x, Lables, z\. Did you mean 'Lables'\?"):
        load(table)
    with pytest.raises(BadInput, match=r"has no 'y'\. Did you mean 'Y'\? It has: x, Y"):
        load({"x": np.zeros((2, 2)), "Y": [0, 1]})


def test_objects_in_an_npz(tmp_path: Path):
    np.savez(tmp_path / "t.npz", x=np.zeros((2, 2)), y=np.array(["a", None], object))
    with pytest.raises(BadInput) as error:
        load(tmp_path / "t.npz")
    assert "Python objects" in str(error.value)
    assert "pickle" not in str(error.value)
