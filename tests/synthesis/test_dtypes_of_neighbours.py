"""Tables of the same declared values, whose dtypes one record of one of them decides: all that is released is equal."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer
from skdp.domain import Categories, Domain

LABELS = [f"v{place:02d}" for place in range(40)]
SHARES = np.r_[np.full(4, 0.2), np.full(35, 0.2 / 35)]


def released(table, domain, **parameters):
    """Return the whole of what is released: rows, the file of the fit, and the rows that a table gets."""
    options = {"delta": 1e-6, "random_state": 0, "max_iter": 20, "handle_unknown": "ignore"} | parameters
    synthesizer = DPMarginalSynthesizer(0.1, domain=domain, **options).fit(table)
    file = io.BytesIO()
    synthesizer.save(file)
    rows = [synthesizer.transform(table)]
    if "protect" not in parameters:
        rows.append(synthesizer.sample(60))
    return synthesizer, json.loads(file.getvalue()), rows


class TestOrder:
    """The record of a rare label decided whether all labels are categories of an ordered dtype, and so an order."""

    N = 3_000

    def table(self, categories):
        rng = np.random.default_rng(0)
        values = rng.choice(LABELS[:-1], self.N, p=SHARES)
        public = np.where(np.isin(values, LABELS[:20]), "p", "q")
        return pd.DataFrame({"pub": public, "s": pd.Categorical(values, categories, ordered=True)})

    @staticmethod
    def groups(synthesizer):
        groups = []
        for marginal in synthesizer.marginals_:
            if marginal.groups is not None and marginal.groups[-1] is not None:
                groups.append(marginal.groups[-1])
        return groups

    @pytest.mark.parametrize(
        "parameters", [{"protect": ["s"], "handle_unknown": "error"}, {}], ids=["protect", "whole"]
    )
    def test_the_dtype_of_a_declared_column_decides_nothing(self, parameters):
        domain = {"pub": ["p", "q"], "s": LABELS}
        first, first_file, _ = released(self.table(LABELS[:-1]), domain, **parameters)
        second, second_file, _ = released(self.table(LABELS), domain, **parameters)
        assert self.groups(first)
        assert first_file == second_file
        for marginal, other in zip(first.marginals_, second.marginals_, strict=True):
            assert np.array_equal(marginal.counts, other.counts)
        assert first.noise_scale_ == second.noise_scale_

    def test_an_order_is_declared(self):
        domain = {"pub": ["p", "q"], "s": Categories(LABELS, ordered=True)}
        files = []
        for categories in (LABELS[:-1], LABELS):
            synthesizer, file, _ = released(self.table(categories), domain)
            groups = self.groups(synthesizer)
            assert groups
            assert all((np.diff(values) >= 0).all() for values in groups)
            files.append(file)
        assert files[0] == files[1]
        # A dtype that is itself the declaration declares its order, which the fitted domain and its file keep.
        by_dtype = DPMarginalSynthesizer(0.1, delta=1e-6, domain={"pub": ["p", "q"]}, random_state=0, max_iter=20)
        by_dtype.fit(self.table(LABELS))
        assert by_dtype.domain_ == Domain(domain)
        file = io.BytesIO()
        by_dtype.save(file)
        assert DPMarginalSynthesizer.load(io.BytesIO(file.getvalue())).domain_["s"].ordered
        assert self.groups(by_dtype)[0].tolist() == groups[0].tolist()
