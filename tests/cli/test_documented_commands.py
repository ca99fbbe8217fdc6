"""The commands of the README and of the guide run as written, on small tables."""

import io
import re
import shlex
import sys
from contextlib import ExitStack, contextmanager
from glob import glob
from pathlib import Path

import pandas as pd
import pytest

from skdp import Domain, Interval, PrivacyLedger, RandomizedResponseEncoder, save
from skdp.cli import main
from skdp.engines import privatize_file

ROOT = Path(__file__).parents[2]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{place}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))
    for place, block in enumerate(re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    if re.search(r"^skdp ", block, re.MULTILINE)
]
DOMAIN = Domain({"sex": ["f", "m"], "race": ["a", "b"], "age": Interval(0, 120, bins=2)})


@pytest.mark.parametrize("block", BLOCKS)
def test_commands_run(block, tmp_path, monkeypatch):
    people = pd.DataFrame({"sex": ["f", "m"] * 30, "race": ["a", "a", "b"] * 20, "age": range(20, 80)})
    people["patient_id"] = range(60)
    people[["patient_id"]].assign(ward=["er", "gp"] * 30).to_csv("visits.csv", index=False)
    for name in ("people", "sample", "march", "patients"):
        people.to_csv(f"{name}.csv", index=False)
    people.to_parquet("people.parquet")
    encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]}).fit(people[["sex"]])
    encoder.save("protocol.json")
    save(encoder, "model.skops")
    for name in ("reports", "monday", "tuesday"):
        if f"{name}.parquet" in block and not re.search(rf"privatize \S+ {name}\.parquet", block):
            privatize_file("people.csv", f"{name}.parquet", encoder)
    if "spark-reports" in block:
        Path("spark-reports").mkdir()
        privatize_file("people.csv", "spark-reports/part-0.parquet", encoder)
    if "--budget" not in block:
        PrivacyLedger(3.0, path="ledger.sqlite").charge(encoder.guarantee_, "survey")
    Path("model.py").write_text(
        "from skdp import RandomizedResponseEncoder\n"
        "pipeline = RandomizedResponseEncoder(1.0, categories={'sex': ['f', 'm']})\n"
    )
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.replace("45000", str(len(people))), comments=True)  # number of reports to shuffle
        # As a shell does.
        command = [path for word in words for path in (sorted(glob(word)) or [word])]
        domain = next((word for word in command if word.endswith(".toml")), None)
        if domain is not None and command[1] != "draft-domain":
            events = {"ward": ["er", "gp"]} if "--events" in command else {}
            Path(domain).write_text(Domain(DOMAIN | events).to_toml())  # the draft, reviewed
        if command[:1] == ["skdp"] and command[1] != "report":
            with redirect_streams(command, monkeypatch) as words:
                assert main(words[1:]) == 0


@contextmanager
def redirect_streams(command, monkeypatch):
    """Redirect as a shell does for ``< file`` and ``> file``."""
    words = list(command)
    with ExitStack() as stack, monkeypatch.context() as patched:
        for sign, name, mode in (("<", "stdin", "rb"), (">", "stdout", "wb")):
            if sign in words:
                place = words.index(sign)
                file = stack.enter_context(open(words[place + 1], mode))
                patched.setattr(sys, name, stack.enter_context(io.TextIOWrapper(file)))
                del words[place : place + 2]
        yield words
