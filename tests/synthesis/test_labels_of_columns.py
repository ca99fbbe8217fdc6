"""Labels of columns that were chosen from more: nothing of those that were left out stays."""

from __future__ import annotations

import io
import pickle

import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.testing import replay_release

COLUMNS = [("d", "flu"), ("d", "cold")]


def table_of(diseases):
    """Tell for each of some persons which diseases they have, of two that everybody knows of."""
    people = pd.DataFrame({"p": range(len(diseases)), "k": "d", "dis": diseases})
    return pd.crosstab(people["p"], [people["k"], people["dis"]])[COLUMNS].reset_index(drop=True)


USUAL = ["flu", "cold", "flu", "cold"]
TABLES = {
    "levels": [table_of(USUAL), table_of([*USUAL[:-1], "rare"])],
    "order of levels": [table_of(USUAL), table_of(USUAL)],
    "categories": [
        pd.DataFrame([[0, 1]] * 4, columns=pd.CategoricalIndex(["flu", "cold"], categories=categories, name="dis"))
        for categories in (["cold", "flu"], ["cold", "flu", "rare"], ["flu", "cold"])
    ],
}
TABLES["order of levels"][1].columns = (
    TABLES["order of levels"][1].columns.set_levels(["flu", "cold"], level=1).set_codes([0, 1], level=1)
)


def labels_of(frame):
    """Say all that a frame tells of its columns."""
    columns = frame.columns
    levels = [level.tolist() for level in getattr(columns, "levels", [])]
    return columns.to_list(), levels, list(columns.names), repr(columns.dtype)


def fitted(table, **parameters):
    domain = {name: [0, 1] for name in table.columns}
    return DPMarginalSynthesizer(1.0, domain=domain, random_state=0, **parameters).fit(table)


@pytest.mark.parametrize("kind", TABLES)
def test_neither_rows_nor_states_tell_of_other_columns(kind):
    told = []
    for table in TABLES[kind]:
        synthesizer = fitted(table)
        file = io.BytesIO()
        synthesizer.save(file)
        frames = [
            synthesizer.sample(2),
            synthesizer.transform(table),
            pickle.loads(pickle.dumps(synthesizer)).sample(2),
            DPMarginalSynthesizer.load(io.BytesIO(file.getvalue())).sample(2),
        ]
        told.append(list(map(labels_of, frames)))
        assert told[-1] == [told[0][0]] * len(frames)
        assert b"rare" not in pickle.dumps(synthesizer)
        assert told[-1][0][0] == table.columns.to_list()
        assert told[-1][0][2] == list(table.columns.names)


def test_a_replayed_release_has_the_same_labels():
    first, second = TABLES["levels"]
    domain = {name: [0, 1] for name in COLUMNS}
    assert replay_release(DPMarginalSynthesizer(1.0, domain=domain), first, second).passed
