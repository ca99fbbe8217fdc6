from __future__ import annotations

import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.synthesis._table_file import read_frame, synthesize_file

DOMAIN = Domain(
    {
        "age": Interval(0, 100, bins=10),
        "height": Interval(edges=[0, 1.5, 2.5]),
        "grade": [1, 2, None],
        "score": [1, 2.5],
        "left": [True, False, None],
        "word": ["None", "007", "x"],
    }
)
ROW = {"age": "40", "height": "1", "grade": "1", "score": "1", "left": "True", "word": "007"}
ODD = {"age": "40.5", "height": "1.75", "grade": "", "score": "2.5", "left": "", "word": "None"}


def write(path, rows):
    path.write_text("\n".join([",".join(ROW), *(",".join(row.values()) for row in rows)]) + "\n", encoding="utf-8")
    return path


def run(source, target, **options):
    synthesizer = DPMarginalSynthesizer(50.0, domain=DOMAIN, handle_unknown="ignore", random_state=0)
    synthesize_file(source, target, synthesizer, **options)
    return synthesizer


def test_no_dtype_depends_on_the_data(tmp_path):
    """One odd row changes what pandas takes each column for."""
    dtypes = []
    for name, rows in {"plain": [ROW] * 40, "odd": [*[ROW] * 39, ODD], "all odd": [ODD] * 40, "none": []}.items():
        source = write(tmp_path / f"{name}.csv", rows)
        run(source, tmp_path / f"{name}.parquet", n_samples=5)
        dtypes.append(pd.read_parquet(tmp_path / f"{name}.parquet").dtypes.astype(str).to_dict())
    expected = {"age": "Int64", "height": "float64", "grade": "Int64", "score": "float64", "left": "boolean"}
    assert dtypes == [expected | {"word": "str"}] * 4


def test_real_columns_keep_their_fractions(tmp_path):
    source = write(tmp_path / "in.csv", [ROW] * 40)
    run(source, tmp_path / "out.csv", n_samples=50, real_columns=["age"])
    assert (pd.read_csv(tmp_path / "out.csv")["age"] % 1 > 0).any()


def test_no_number_changes_its_bin(tmp_path):
    """Fractions are cut off, but 99.5 stays in its bin, 100.5 and -0.5 outside, and infinite ones too."""
    ages = {"99.5": 1, "100": 1, "100.5": 0, "-0.5": 0, "inf": 0, "-inf": 0, "1e300": 0, "39.999": 1, "": 0}
    for age, inside in ages.items():
        source = write(tmp_path / "in.csv", [ROW | {"age": age}] * 100)
        target = tmp_path / f"out {age}.csv"
        synthesizer = run(source, target)
        assert (synthesizer.n_rows_ > 50) == inside
        if inside:
            assert synthesizer.count({"age": (float(age) // 10 * 10 if age != "100" else 90, None)}) > 50


def test_declared_texts_are_no_missing_values_and_no_numbers(tmp_path):
    frame = read_frame(write(tmp_path / "in.csv", [ROW, ODD]), DOMAIN)
    assert frame["word"].tolist() == ["007", "None"]
    assert frame["grade"].isna().tolist() == [False, True]
    assert read_frame(tmp_path / "in.csv")["word"].isna().tolist() == [False, True]


def test_columns_come_in_the_order_of_the_table(tmp_path):
    source = tmp_path / "in.csv"
    pd.DataFrame([ROW | {"more": "1"}] * 40)[["word", "more", *[name for name in ROW if name != "word"]]].to_csv(
        source, index=False
    )
    synthesizer = DPMarginalSynthesizer(50.0, domain=DOMAIN, random_state=0)
    assert synthesize_file(source, tmp_path / "out.csv", synthesizer, n_samples=3) == ["more"]
    assert pd.read_csv(tmp_path / "out.csv").columns[0] == "word"
    with pytest.raises(ValueError, match="n_samples must be between 0"):
        synthesize_file(source, tmp_path / "two.csv", synthesizer, n_samples=-1)
