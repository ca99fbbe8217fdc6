"""A file of another form is refused by its name, and by the name of what reads it."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

import skdp
from skdp import DPMarginalSynthesizer, PrivacyLedger, RandomizedResponseEncoder, UnaryEncodingTransformer

DOMAIN = {"smokes": ["no", "yes"]}
ROWS = pd.DataFrame({"smokes": ["yes", "no", "no"] * 10})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What this library writes, by what wrote it."""
    folder = tmp_path_factory.mktemp("files")
    paths = {name: folder / name for name in ("save", "protocol", "synthesizer", "ledger", "guarantee", "record")}
    encoder = RandomizedResponseEncoder(1.0, categories=DOMAIN).fit(ROWS)
    skdp.save(encoder, paths["save"])
    encoder.save(paths["protocol"])
    DPMarginalSynthesizer(1.0, domain=DOMAIN, max_iter=5).fit(ROWS).save(paths["synthesizer"])
    ledger = PrivacyLedger(paths["ledger"], epsilon=1.0)
    paths["guarantee"].write_text(encoder.guarantee_.to_json())
    paths["record"].write_text(ledger.to_json())
    return paths


@pytest.mark.parametrize("load", [DPMarginalSynthesizer.load, RandomizedResponseEncoder.load])
def test_what_save_wrote(load, files):
    with pytest.raises(ValueError, match=r"it is what skdp\.save wrote: use skdp\.load$"):
        load(files["save"])


@pytest.mark.parametrize("load", [skdp.load, RandomizedResponseEncoder.load])
def test_what_a_synthesizer_wrote(load, files):
    with pytest.raises(ValueError, match=r"what DPMarginalSynthesizer\.save wrote: use DPMarginalSynthesizer\.load$"):
        load(files["synthesizer"])


def test_a_protocol(files):
    with pytest.raises(ValueError, match=r"the protocol of a fitted transformer, which `load` of its class reads$"):
        DPMarginalSynthesizer.load(files["protocol"])
    with pytest.raises(ValueError, match=r"use RandomizedResponseEncoder.from_json, or RandomizedResponseEncoder.load"):
        UnaryEncodingTransformer.load(files["protocol"])


@pytest.mark.parametrize("load", [skdp.load, DPMarginalSynthesizer.load, RandomizedResponseEncoder.load])
def test_records(load, files):
    for name, what in (("ledger", "a ledger"), ("guarantee", "a guarantee"), ("record", "the record of a ledger")):
        with pytest.raises(ValueError, match=f"; it is {what}, which skdp.Privacy"):
            load(files[name])


def test_a_binary_file_and_one_of_others(files, tmp_path):
    with pytest.raises(ValueError, match=r"use DPMarginalSynthesizer\.load$"):
        skdp.load(io.BytesIO(Path(files["synthesizer"]).read_bytes()))
    for content in (b"", b"PK\x05\x06" + bytes(18), b"PK", b"\xff\xfe", b"{}"):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ValueError, match=r"no file that skdp\.save wrote$|header of the file"):
            skdp.load(tmp_path / "file")
        with pytest.raises(ValueError, match="no protocol of a local transformer"):
            RandomizedResponseEncoder.load(tmp_path / "file")
