"""Columns whose values were read from the data: no route states that they are protected."""

import contextlib
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdp
from skdp import Domain
from skdp.engines import privatize_file, tally_files
from skdp.local import ReportTransformer
from skdp.privacy import PrivacyGuarantee, PrivacyLeakWarning, PrivacyLedger, privacy_statement
from tests import estimators

# The class of one record of the column "name" is Smith. The dtype declares the values of "sex".
SEXES = pd.Series(["f", "m"] * 20, dtype=pd.CategoricalDtype(["f", "m"], ordered=True))
PEOPLE = pd.DataFrame({"name": ["Jones"] * 39 + ["Smith"], "sex": SEXES})

# Transformers that read undeclared categories from the data.
READERS = {
    "FrequencyOracleEncoder",
    "LocalHashingEncoder",
    "LocalTableEncoder",
    "OnFitOnly",
    "PerHalf",
    "PosteriorFeatures",
    "RandomizedResponseEncoder",
    "SubsetSelectionEncoder",
    "UnaryEncodingTransformer",
}
CLASSES = {type(estimator).__name__: estimator for estimator, _ in estimators.SUBJECTS}


def undeclare(estimator, **params):
    """Return a clone in which no parameter declares categories, with parameters of it or its part."""
    estimator = clone(estimator)
    names = estimator.get_params()
    reads = None if type(estimator).__name__.startswith("DP") else "auto"
    wanted = {"categories": reads, "classes": None, "delta": 1e-6, "memoize": False, "instantaneous_epsilon": None}
    wanted |= params
    found = {name: wanted[x] for name in names if (x := name.rpartition("__")[-1]) in wanted}
    return estimator.set_params(**found)


def fit_people(estimator):
    """Fit an estimator to the people, or a classifier to numbers with their names as labels."""
    if is_classifier(estimator):
        return estimator.fit(estimators.NUMBERS, PEOPLE["name"])
    return estimators.fit(estimator, PEOPLE)


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def state_reports(fitted, folder):
    """Return the transformers that a reader of the protocol, of reports and of tallies has, by route."""
    if not isinstance(fitted, ReportTransformer):
        return {}
    reports, files = fitted.transform(PEOPLE), [folder / "memory.parquet", folder / "file.parquet"]
    reports.to_parquet(files[0])
    PEOPLE.to_csv(folder / "people.csv", index=False)
    privatize_file(folder / "people.csv", files[1], fitted)
    tally_files(files, destination=folder / "tally.json")
    routes = {"JSON": type(fitted).from_json(fitted.to_json()), "reports": skdp.read_protocol(reports)}
    routes |= {file.name: skdp.read_protocol(file) for file in [*files, folder / "tally.json"]}
    return routes | {"JSON of JSON": type(fitted).from_json(routes["tally.json"].to_json())}


def state_compositions(estimator):
    """Return fitted compositions of scikit-learn with the estimator, by route."""
    columns = ColumnTransformer([("x", estimator, ["name", "sex"])])
    code = OneHotEncoder(handle_unknown="ignore")
    models = {
        "alone": estimator,
        "Pipeline": Pipeline([("x", estimator)]),
        "ColumnTransformer": columns,
        "search": GridSearchCV(make_pipeline(estimator, code, LogisticRegression()), {}, cv=2, error_score="raise"),
    }
    X = pd.concat([PEOPLE, PEOPLE], ignore_index=True)
    return {name: clone(model).fit(X, np.arange(80) % 2) for name, model in models.items()}


def check_unprotected(statement):
    assert "name" in statement.unprotected_columns
    assert "Unprotected columns: " in str(statement)
    assert "Unprotected columns: " in statement.to_html()
    for guarantee in (statement.total, statement.total_if_fixed, *(step.guarantee for step in statement.steps)):
        assert guarantee is None or "name" not in guarantee.scope


@pytest.mark.parametrize("name", CLASSES)
def test_values_that_are_read_from_the_data_are_unprotected_on_every_route(name, tmp_path):
    estimator = undeclare(CLASSES[name])
    with quiet() as caught:
        try:
            fitted = fit_people(clone(estimator))
        except (TypeError, ValueError):
            fitted = None
    leaks = [one for one in caught if issubclass(one.category, PrivacyLeakWarning)]
    assert (len(leaks) > 0) == (name in READERS)
    if not leaks:
        assert "Smith" not in getattr(fitted, "classes_", [])
        return
    guarantee = fitted.guarantee_
    assert guarantee.observed == ("name",)
    assert guarantee.scope == ("sex",)
    with quiet():
        routes = state_compositions(estimator) | state_reports(fitted, tmp_path)
        for path in (None, tmp_path / "ledger.sqlite"):
            ledger = PrivacyLedger(epsilon=20.0, path=path)
            undeclare(estimator, ledger=ledger).fit_transform(PEOPLE)
            stated = privacy_statement(ledger if path is None else PrivacyLedger(path=path))
            check_unprotected(stated)
            assert stated.total.epsilon >= guarantee.epsilon
            assert stated.total.observed == ("name",)
        for route in {"alone", "ColumnTransformer", "JSON of JSON"} & routes.keys():
            skdp.save(routes[route], tmp_path / "model.skops")
            routes[f"{route}, saved"] = skdp.load(tmp_path / "model.skops")
    for route, model in routes.items():
        check_unprotected(privacy_statement(model))
        check_unprotected(privacy_statement([model]))
        found = getattr(model, "guarantee_", guarantee)
        assert (found.observed, found.epsilon) == (guarantee.observed, guarantee.epsilon), route


def test_sum_with_observed_columns_protects_the_other_columns_of_replaced_records():
    reports = PrivacyGuarantee(1.0, scope=("name", "sex"), observed=("name",))
    mean = PrivacyGuarantee(0.5, relation="add_remove", trust="central", scope=("name", "age"))
    for total in (reports + mean, mean + reports, skdp.privacy.compose([mean, reports])):
        assert (total.epsilon, total.relation) == (2.0, "replace")  # added and removed: twice 0.5
        assert (set(total.scope), total.observed) == ({"sex", "age"}, ("name",))
        assert PrivacyGuarantee.from_json(total.to_json()) == total
    values = reports.to("replace_values", columns=["sex"])
    assert (values.scope, values.observed) == (("sex",), ("name",))
    both = reports + PrivacyGuarantee(1.0, relation="replace_values", scope=("sex", "name"))
    assert (both.scope, both.observed) == (("sex",), ("name",))
    with pytest.raises(ValueError, match="values of name were read from the data"):
        reports.to("replace_values", columns=["sex", "name"])
    with pytest.raises(ValueError, match="requires relation='replace'"):
        PrivacyGuarantee(1.0, relation="add_remove", observed=("name",))
    for wrong in ({"observed": "name"}, {"scope": "name"}):
        with pytest.raises(TypeError, match="must be a tuple of names"):
            PrivacyGuarantee(1.0, **wrong)


def test_guarantee_without_a_protected_column_states_no_odds():
    guarantee = PrivacyGuarantee(0.1, scope=("name",), observed=("name",))
    assert (guarantee.scope, guarantee.guess_probability) == ((), 1.0)
    assert guarantee.true_positive_rate([0.0, 0.5]).tolist() == [1.0, 1.0]
    for text in (str(guarantee), guarantee.in_odds(), guarantee._repr_html_()):
        assert "o column is protected" in text
        assert "50 times" not in text
    ledger = PrivacyLedger(epsilon=1.0)
    ledger.charge(guarantee, "reports")
    statement = privacy_statement(ledger)
    assert statement.total is None
    assert "of 100 guesses" not in str(statement)
    assert "Unprotected columns: name." in str(statement)


def test_ledger_of_columns_refuses_reports_whose_categories_were_read_from_them():
    ledger = PrivacyLedger(epsilon=1.0, relation="replace_values", columns=["name"])
    encoder = skdp.RandomizedResponseEncoder(0.5, ledger=ledger)
    with quiet(), pytest.raises(ValueError, match=r"values of name were read from the data .* Declare them"):
        encoder.fit_transform(PEOPLE)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize(
    "curator",
    [
        lambda read: skdp.DPHistogram(domain=read),
        lambda read: skdp.DPOneHotEncoder(categories=read),
        lambda read: skdp.DPMarginalSynthesizer(domain=read),
    ],
    ids=["histogram", "encoder", "synthesizer"],
)
def test_values_that_were_read_are_no_declaration_of_a_curator(curator):
    with quiet():
        read = skdp.RandomizedResponseEncoder().fit(PEOPLE).domain_
    ledger = PrivacyLedger(epsilon=9.0)
    with pytest.raises(ValueError, match="column 'name' must be declared, got values that an encoder has read"):
        curator(read).set_params(ledger=ledger).fit(PEOPLE)
    assert ledger.charges().empty


@pytest.mark.parametrize("name", [name for name in CLASSES if "classes" in CLASSES[name].get_params()])
def test_values_that_were_read_are_no_declared_classes(name):
    with quiet():
        read = skdp.RandomizedResponseEncoder().fit(PEOPLE).domain_
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises(ValueError, match="`classes` of column 'name' must be declared, got values that an encoder has"):
        undeclare(CLASSES[name], classes=read["name"], ledger=ledger).fit(estimators.NUMBERS, PEOPLE["name"])
    assert ledger.charges().empty


def test_values_that_were_read_are_in_no_domain_file():
    with quiet():
        read = skdp.RandomizedResponseEncoder().fit(PEOPLE).domain_
    with pytest.raises(ValueError, match=r"Column 'name' must be declared, got values .* Declare them") as caught:
        read.to_toml()
    assert "Smith" not in str(caught.value)
    assert Domain.from_toml(read.select(["sex"]).to_toml()) == read.select(["sex"])


def test_records_of_earlier_versions_have_no_observed_columns():
    record = PrivacyGuarantee(1.0, scope=("sex",)).to_dict()
    del record["observed"]
    assert PrivacyGuarantee.from_json(json.dumps(record)) == PrivacyGuarantee(1.0, scope=("sex",))
    encoder = skdp.RandomizedResponseEncoder(categories={"sex": ["f", "m"]}).fit(PEOPLE[["sex"]])
    protocol = json.loads(encoder.to_json())
    del protocol["guarantee"]["observed"]
    assert ReportTransformer.from_json(json.dumps(protocol)).guarantee_ == encoder.guarantee_


def test_tally_of_several_protocols_has_the_observed_columns_of_all(tmp_path):
    files = [tmp_path / "names.parquet", tmp_path / "sexes.parquet"]
    text = PEOPLE.assign(sex=PEOPLE["sex"].astype(str))
    declared = PEOPLE.assign(name=PEOPLE["name"].astype(pd.CategoricalDtype(["Jones", "Smith"], ordered=True)))
    with quiet():
        for file, table in zip(files, (PEOPLE, declared.assign(sex=text["sex"])), strict=True):
            skdp.RandomizedResponseEncoder().fit_transform(table).to_parquet(file)
        tally_files(files, destination=tmp_path / "tally.json")
    read = skdp.read_protocol(tmp_path / "tally.json")
    assert (read.guarantee_.observed, read.guarantee_.scope) == (("name", "sex"), ())


def test_design_of_halves_states_a_column_whose_values_were_read(tmp_path):
    with quiet():
        halves = skdp.PerHalf(skdp.RandomizedResponseEncoder()).fit(PEOPLE)
    design = halves.design("name").with_cheaters("Jones")
    skdp.save(skdp.ReportLogisticRegression(target_design=design), tmp_path / "model.skops")
    for stated in (design, skdp.load(tmp_path / "model.skops").target_design):
        assert privacy_statement(stated).unprotected_columns == ["name"]
    assert privacy_statement(halves.design("sex")).unprotected_columns == []


def test_shuffled_reports_keep_the_observed_columns():
    with quiet():
        encoder = skdp.RandomizedResponseEncoder().fit(PEOPLE)
    assert skdp.privacy.shuffled_guarantee(encoder, n=1_000, delta=1e-6).observed == ("name",)


def test_numbers_without_bounds_are_unprotected():
    """Each number is a category, as in OneHotEncoder, and its report column has it in its name."""
    ages = PEOPLE.assign(age=np.arange(40.0))
    with pytest.warns(PrivacyLeakWarning, match=r"unprotected; declare .* an Interval of numbers"):
        encoder = skdp.LocalTableEncoder().fit(ages)
    assert privacy_statement(encoder).unprotected_columns == ["name", "age"]
    with quiet():
        assert skdp.LocalTableEncoder(bounds={"age": (0, 99)}).fit(ages).guarantee_.scope == ("sex", "age")
