"""What a synthetic table costs: memory of ``skdp synthesize`` from file to file, and how close a model of many rows is.

Run ``python benchmarks/engines_synthesis.py`` wherever skdp is installed with the extra duckdb.

- *files*: the command in a process of its own, its imports (some 200 MB) included, on Adult's 14 columns, with rows
  drawn from a model of it; ``"auto"`` at epsilon 1.
- *scaling*: the 48 marginals that ``"auto"`` chooses for 32,561 rows of Adult at epsilon 1, as 10,000,000 rows in the
  same shares would have them, with Gaussian noise of 25 records; fitted by descent alone, and by scaling first. The
  error is the mean over these marginals of the L1 distance of the shares from the true ones; that of the noise itself
  is the mean without a model.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from _timing import _resident, write_results
from engines_counts import ADULT, DOMAIN, synthesizer, write_rows

from skdp.cli import main as skdp_command
from skdp.synthesis.model import _estimation
from skdp.synthesis.model._tables import Marginal
from skdp.synthesis.selection._strategy import fit_table

ROWS = 1_000_000, 5_000_000
MANY, NOISE = 10_000_000, 25.0


def work(words: list[str]) -> None:
    """Run the command in this process, and print what it took."""
    start = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        assert skdp_command(words) == 0
    print(json.dumps([time.perf_counter() - start, _resident("VmHWM") / 1e6]))


def measure_file(source: Path, domain: Path) -> list[str]:
    """Run the command; return the seconds and the peak."""
    target = source.with_name(f"synthetic{source.suffix}")
    words = [
        "synthesize",
        source,
        target,
        "--domain",
        domain,
        "--epsilon",
        1,
        "--delta",
        1e-9,
        "--quiet",
    ]
    command = [sys.executable, __file__, "--work", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    target.unlink()
    seconds, peak = json.loads(done.stdout)
    return [f"{seconds:.1f}", f"{peak:,.0f}"]


def measure_files(folder: Path) -> list[list[str]]:
    domain = folder / "domain.toml"
    domain.write_text(DOMAIN.to_toml(), encoding="utf-8")
    lines = []
    for rows in ROWS:
        parquet, text = folder / f"{rows}.parquet", folder / f"{rows}.csv"
        write_rows(parquet, rows)
        pa_csv.write_csv(pq.read_table(parquet), text)
        lines += [
            [path.suffix[1:], f"{rows:,}", *measure_file(path, domain)]
            for path in (parquet, text)
        ]
    return lines


def compare_fits() -> list[list[str]]:
    chosen = synthesizer(epsilon=1.0).fit(ADULT).selected_cliques_
    cliques = [
        tuple(map(DOMAIN.columns.index, clique)) for clique in chosen if len(clique) > 1
    ]
    codes = DOMAIN.encode([ADULT[name] for name in DOMAIN.columns])
    rng, true, marginals = np.random.default_rng(0), {}, []
    for clique in cliques:
        part = DOMAIN.select([DOMAIN.columns[place] for place in clique])
        counts = np.bincount(
            part.join([codes[place] for place in clique]).astype(np.int64),
            minlength=part.size,
        )
        true[clique] = counts.reshape(part.sizes) / len(ADULT)
        marginals.append(
            Marginal(
                clique, MANY * true[clique] + rng.normal(0, NOISE, part.sizes), NOISE
            )
        )
    noise = [
        np.abs(marginal.counts / MANY - true[marginal.clique]).sum()
        for marginal in marginals
    ]
    lines = [["(the noise)", "", "", f"{np.mean(noise):.5f}"]]
    bound = _estimation._FAR
    for name, exact in (("descent alone", np.inf), ("scaling first", bound)):
        _estimation._FAR = exact
        start = time.perf_counter()
        fitted = fit_table(DOMAIN.sizes, marginals)
        seconds = time.perf_counter() - start
        errors = [
            np.abs(fitted.model.marginal(clique) - true[clique]).sum()
            for clique in cliques
        ]
        lines.append(
            [name, str(len(fitted.losses)), f"{seconds:.2f}", f"{np.mean(errors):.5f}"]
        )
    _estimation._FAR = bound
    return lines


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "Files": (
                ["format", "rows", "seconds", "peak, MB"],
                measure_files(Path(folder)),
            ),
            "Marginals of 10,000,000 rows": (
                ["fitted by", "steps", "seconds", "error"],
                compare_fits(),
            ),
        }
    notes = " ".join(
        line.strip() for line in (__doc__ or "").splitlines()[2:] if line
    ).replace(" - ", "\n- ")
    write_results(
        "engines_synthesis",
        "Synthetic tables of many rows",
        ["skdp", "numpy", "pyarrow"],
        notes,
        tables,
    )


if __name__ == "__main__":
    main()
