"""A release from and to S3, on a server of this machine: `pip install 'moto[server]'` in an environment of its own."""

import shutil
import socket
import subprocess
import time
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import estimate_file, privatize_files, tally_files

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("moto_server") is None, reason="moto_server is not on the PATH"),
]


@pytest.fixture(scope="module")
def endpoint():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def test_from_and_to_s3(endpoint, tmp_path):
    settings = {"access_key": "user", "secret_key": "SECRET", "region": "us-east-1", "scheme": "http"}
    files = pa.fs.S3FileSystem(
        endpoint_override=endpoint, allow_bucket_creation=True, allow_delayed_open=True, **settings
    )
    for number in range(3):
        files.create_dir("people", recursive=True)
        with files.open_output_stream(f"people/in/{number}.parquet") as file:
            rows = ["no"] * number + ["yes", "no", "no", "no"] * 500  # files with equal content are refused
            pq.write_table(pa.table({"smokes": rows[:2_000]}), file)

    def url(path):
        place = quote(endpoint, safe="")
        options = f"region=us-east-1&scheme=http&allow_delayed_open=true&endpoint_override={place}"
        return f"s3://user:SECRET@{path}?{options}"

    (tmp_path / "staging").mkdir()
    made = RandomizedResponseEncoder(3.0, categories={"smokes": ["yes", "no"]})
    privatize_files(url("people/in/*.parquet"), url("people/out"), made, staging=tmp_path / "staging", n_jobs=2)
    names = [info.base_name for info in files.get_file_info(pa.fs.FileSelector("people/out"))]
    assert sorted(names) == ["manifest.json", *(f"part-0000{part}.parquet" for part in range(3))]
    counts = estimate_file(url("people/out"))
    assert abs(counts.loc["yes", "count"] - 1_500) < 6 * counts.loc["yes", "std_error"]
    assert tally_files(url("people/out/manifest.json")).n_reports == 6_000
    assert counts.sum()["count"] == estimate_file(url("people/out"), made)["count"].sum()
    files.delete_file("people/out/part-00001.parquet")
    with pytest.raises(ValueError, match="missing") as caught:
        estimate_file(url("people/out"))
    assert "SECRET" not in str(caught.value)
    with pytest.raises(FileExistsError, match="not empty"):
        privatize_files(url("people/in"), url("people/out"), made, staging=tmp_path / "staging")
