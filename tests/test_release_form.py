"""The form of a release does not depend on the rows: on every path, for frames of every library."""

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import skdp
from skdp.domain import Interval
from skdp.engines import privatize, privatize_file, synthesize_file
from tests.carry_checks import opposite_frames, require_same_form
from tests.conftest import often

VALUES = {
    "text": ["red", "green", "blue"],
    "gaps": ["xx", "yy", "zz", None],
    "number": [1, 2, 3],
    "number with gaps": [1, 2, 3, None],
    "truth": [True, False],
}
ROWS = pd.DataFrame({name: pd.Series((values * 6)[:12], dtype=object) for name, values in VALUES.items()})
NUMBERS = pd.DataFrame({"whole": [1, 2, 3, 4], "real": [0.5, 1.25, 2.5, 3.0]})
BOUNDS = {"whole": (0, 5), "real": (0.0, 5.0)}
WORDS = ROWS[["text"]]
KEY = {"memoize": True, "secret_key": b"k" * 32}
EPSILON = 0.01
QUICK = {"random_state": 0, "marginals": "independent"}
LIBRARIES = ("pandas", "polars", "pyarrow")


def library_of(table):
    return type(table).__module__.split(".")[0]


def check_form(release, X):
    """Check that a release depends on the rows by their values only, and return the types of frames that it accepts.

    The two tables of each library have the same distinct values, in opposite orders and each without one of them, and a
    secret beside their rows: in unused categories, under missing values, in metadata.
    """
    kinds = []
    for kind, *tables in opposite_frames(X):
        try:
            released = [release(table) for table in tables]
        except (TypeError, ValueError):
            continue
        kinds.append(kind)
        require_same_form(kind, tables, released)
    return kinds


def only(table, *libraries):
    """Raise an error for a frame that a path does not accept, as the path does."""
    if library_of(table) not in libraries:
        raise TypeError("of another library")
    return table


def declare(table, values=VALUES):
    return values if library_of(table) in LIBRARIES else list(values.values())


def by_encoder(kind, output="default", **parameters):
    def release(table):
        only(table, *LIBRARIES, *(["numpy"] if output == "default" else []))
        encoder = kind(EPSILON, categories=declare(table), **parameters).set_output(transform=output)
        return encoder.fit(table).transform(table)

    return release


def by_perturber(**parameters):
    def release(table):
        only(table, *LIBRARIES, "numpy")
        ids = {"person": list(range(len(table)))} if parameters else {}
        perturber = skdp.NumericPerturber(EPSILON, bounds=declare(table, BOUNDS), **parameters)
        return perturber.fit(table).transform(table, **ids)

    return release


def resampled_columns(table):
    only(table, *LIBRARIES)
    columns = ["text", "number with gaps"]
    rows = skdp.DPColumnSynthesizer(columns, EPSILON, domain=declare(table), random_state=0).fit(table).transform(table)
    return rows.select(columns) if hasattr(rows, "select") else rows[columns]


def resample_table(table):
    only(table, *LIBRARIES)
    rest = [name for name in VALUES if name != "text"]
    X = table.select(rest) if hasattr(table, "select") else table[rest]
    synthesizer = skdp.DPMarginalSynthesizer(EPSILON, domain=VALUES, **QUICK)
    return skdp.SyntheticResampler(synthesizer).fit_resample(X, table["text"])[0]


def drawn_in_bins(table):
    only(table, *LIBRARIES)
    domain = {name: Interval(*ends, bins=5, real=True) for name, ends in BOUNDS.items()}
    return skdp.DPMarginalSynthesizer(EPSILON, domain=domain, **QUICK).fit(table).sample(50)


def encoder(**parameters):
    return skdp.RandomizedResponseEncoder(EPSILON, categories=VALUES, **parameters)


def from_duckdb(table):
    duckdb = pytest.importorskip("duckdb")
    if any(pa.types.is_dictionary(field.type) and field.type.value_type != pa.string() for field in table.schema):
        raise TypeError("DuckDB has no such dictionaries")
    with duckdb.connect() as connection:
        return privatize(connection.from_arrow(table), encoder()).to_arrow_table()


def through_file(run):
    """Read a written Parquet file, and fail if the file contains more."""

    def release(table, folder):
        path, place = folder / "in.parquet", folder / "out.parquet"
        for old in (path, place):
            old.unlink(missing_ok=True)
        pq.write_table(only(table, "pyarrow"), path)
        run(path, place)
        assert b"s3cr3t" not in place.read_bytes()
        return pq.read_table(place)

    return release


PATHS = {
    "split": by_encoder(skdp.RandomizedResponseEncoder),
    # In nearly all draws, a value is missing in 24 reports, and pandas would make floats of the remaining values.
    "to pandas": by_encoder(skdp.RandomizedResponseEncoder, "pandas", random_state=0),
    "to polars": by_encoder(skdp.RandomizedResponseEncoder, "polars"),
    "unary": by_encoder(skdp.UnaryEncodingTransformer),
    "posterior": lambda table: skdp.PosteriorFeatures(
        skdp.UnaryEncodingTransformer(EPSILON, categories=declare(table))
    ).fit_transform(table),
    "resampled columns": resampled_columns,
    "resampled features": resample_table,
    "lazy frame": lambda table: privatize(only(table, "polars").lazy(), encoder()).collect(),
    "Dataset": lambda table: privatize(ds.dataset(only(table, "pyarrow")), encoder()).to_table(),
    "DuckDB": lambda table: from_duckdb(only(table, "pyarrow")),
}
OF_NUMBERS = {
    "perturbed": by_perturber(),
    "perturbed, memoised": by_perturber(mechanism="square_wave", **KEY),
    "drawn in bins": drawn_in_bins,
}
SYNTHESIZER = skdp.DPMarginalSynthesizer(EPSILON, domain=VALUES, **QUICK)
OF_FILES = {
    "reports": through_file(lambda path, place: privatize_file(path, place, encoder())),
    "rows": through_file(lambda path, place: synthesize_file(path, place, SYNTHESIZER, n_samples=50)),
}


# Other classes are read and written like one of these.
QUICK_PATHS = ["split", "unary", "resampled columns", "Dataset", "DuckDB"]


@pytest.mark.parametrize("path", often(PATHS, QUICK_PATHS))
def test_form_of_reports_of_values_does_not_depend_on_rows(path):
    tried = check_form(PATHS[path], ROWS)
    assert len(tried) >= (2 if path in ("DuckDB",) else 4)


@pytest.mark.parametrize("path", often(OF_NUMBERS, ["perturbed"]))
def test_form_of_reports_of_numbers_does_not_depend_on_rows(path):
    assert len(check_form(OF_NUMBERS[path], NUMBERS)) >= 10


@pytest.mark.parametrize("path", OF_FILES)
def test_form_of_files_does_not_depend_on_rows(path, tmp_path):
    assert len(check_form(lambda table: OF_FILES[path](table, tmp_path), ROWS)) >= 3


def test_form_of_reports_of_words_does_not_depend_on_rows():
    assert len(check_form(skdp.HeavyHitters(EPSILON, max_length=5).report, WORDS)) >= 10


def test_kept_columns_contain_their_rows_only():
    """Kept columns are true by declaration, but the memory of their table may contain more."""
    keep = "text"

    def release(table):
        rest = {name: values for name, values in VALUES.items() if name != keep}
        local = skdp.RandomizedResponseEncoder(EPSILON, categories=rest)
        if library_of(table) == "polars":
            return privatize(table.lazy(), local, keep=[keep]).select([keep]).collect()
        return privatize(only(table, "pyarrow"), local, keep=[keep]).select([keep])

    assert len(check_form(release, ROWS)) >= 5
