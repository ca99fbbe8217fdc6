"""Text that a database takes for equal: reports and record ids are compared byte by byte all the same."""

import duckdb
import pyarrow as pa
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import privatize, tally
from skdp.local import NumericPerturber, SecretKey

WORDS = ["Yes", "yes", "YES", "yés", "no"]
PADDED = [*WORDS, "yes "]  # for Spark, which has collations that ignore trailing spaces


def of_a_collation(connection, words, collation):
    connection.execute(f"CREATE TABLE answers (answer VARCHAR COLLATE {collation}, number BIGINT)")
    connection.executemany("INSERT INTO answers VALUES (?, ?)", [[word, n] for n, word in enumerate(words)])
    return connection.table("answers")


def of_the_default(connection, words, collation):
    connection.execute(f"SET default_collation = '{collation}'")
    connection.register("words", pa.table({"answer": words, "number": range(len(words))}))
    return connection.sql("SELECT * FROM words")


@pytest.fixture(params=[of_a_collation, of_the_default])
def make(request):
    return request.param


@pytest.fixture(params=["NOCASE", "NOACCENT.NOCASE"])
def relation(request, make):
    with duckdb.connect() as connection:
        yield make(connection, WORDS * 3, request.param)


def test_reports_are_tallied_by_their_bytes(relation):
    encoder = RandomizedResponseEncoder(1.0, categories={"answer": WORDS}).fit(pa.table({"answer": WORDS}))
    assert tally(relation, encoder).counts[0].tolist() == [3] * 5


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT"])
def test_record_ids_that_differ_by_bytes_are_distinct(make, collation):
    perturber = NumericPerturber(
        1.0, mechanism="laplace", bounds={"number": (0, 9)}, memoize=True, secret_key=SecretKey.generate()
    )
    with duckdb.connect() as connection:
        frame = make(connection, WORDS, collation)
        assert len(privatize(frame, perturber, record_id="answer").fetchall()) == 5
        with pytest.raises(ValueError, match="repeated"):
            privatize(frame.union(frame), perturber, record_id="answer")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_spark_compares_bytes_too(spark):
    words = spark.createDataFrame(pa.table({"answer": PADDED * 3, "number": range(18)}))
    frame = words.selectExpr("collate(answer, 'UTF8_LCASE_RTRIM') AS answer", "number")
    assert frame.groupBy("answer").count().count() == 3
    encoder = RandomizedResponseEncoder(1.0, categories={"answer": PADDED}).fit(pa.table({"answer": PADDED}))
    assert tally(frame, encoder).counts[0].tolist() == [3] * 6
    perturber = NumericPerturber(
        1.0, mechanism="laplace", bounds={"number": (0, 20)}, memoize=True, secret_key=SecretKey.generate()
    )
    assert privatize(frame.where("number < 6"), perturber, record_id="answer").count() == 6
    with pytest.raises(ValueError, match="repeated"):
        privatize(frame, perturber, record_id="answer")
