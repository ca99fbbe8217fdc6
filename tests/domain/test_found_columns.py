"""Columns of found domains keep their release in domains, estimators, files and statements."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import Domain, Interval, PrivacyGuarantee, privacy_statement
from skdp.domain import drop_bins
from tests.conftest import diagonal, often

N = 400
PEOPLE = pd.DataFrame({"job": ["clerk", "nurse"] * (N // 2), "age": [20, 40, 60, 30] * (N // 4)})
LABELS = np.array([0, 1, 1, 0] * (N // 4))
BOUNDS = {"low": 16, "high": 80}


def find(columns, epsilon):
    """Return a domain of a release; releases with one epsilon have equal guarantees."""
    guarantee = PrivacyGuarantee(epsilon, delta=1e-7, relation="add_remove", trust="central", scope=("job", "age"))
    return Domain(columns).with_guarantee(guarantee)


def found_twice():
    values = {"job": ["clerk", "nurse"], "age": Interval(**BOUNDS, bins=8)}
    return find(values, 0.25), find(values, 0.25)


def count_found(*estimators):
    """Return the epsilons of the releases that a statement lists for domains."""
    statement = privacy_statement(list(estimators))
    return [step.guarantee.epsilon for step in statement.steps if step.step == "domain"]


# Domains.


def test_domain_is_a_mapping_of_column_names():
    domain = Domain({"age": Interval(16, 80), "job": ["clerk", "nurse"]})
    assert list(domain) == ["age", "job"]
    assert len(domain) == 2
    assert "age" in domain
    assert "sex" not in domain
    assert domain.get("sex") is None
    assert dict(domain) == {"age": domain["age"], "job": domain["job"]}
    assert PEOPLE[list(domain)].columns.tolist() == ["age", "job"]
    assert [name for name, _ in domain.items()] == ["age", "job"]
    assert Domain(dict(domain)) == domain
    assert domain != dict(domain)
    assert {domain: 1}[Domain(domain)] == 1
    assert bool(Domain({}))
    for copied in (copy.copy(domain), copy.deepcopy(domain), pickle.loads(pickle.dumps(domain))):
        assert copied == domain
        assert hash(copied) == hash(domain)


def test_union_of_domains_keeps_constraints_and_releases():
    first = Domain({"a": Interval(0, 9), "b": Interval(0, 9)}, constraints=["a <= b"], derived={"c": "a + b"})
    second = Domain({"b": Interval(0, 90), "d": ["x"]}, constraints=["b > 1"])
    joined = first | second
    assert list(joined) == ["a", "b", "d"]
    assert joined["b"] == second["b"]
    assert joined.constraints == ("a <= b", "b > 1")
    assert joined.derived == {"c": "a + b"}
    assert list(first | {"d": ["x"]}) == ["a", "b", "d"]
    assert list({"d": ["x"]} | first) == ["d", "a", "b"]
    assert ({"d": ["x"]} | first).constraints == ("a <= b",)
    with pytest.raises(TypeError):
        first | ["d"]
    one, other = found_twice()
    assert (one | other.select(["age"])).releases == (*one.releases, *other.releases)
    assert (one | other).releases == other.releases
    assert ({"sex": ["f"]} | one).releases == one.releases


def test_domain_of_found_columns_has_each_release_once():
    one, other = found_twice()
    mixed = Domain({"job": one["job"], "age": other["age"], "work": one["job"], "sex": ["f", "m"]})
    assert mixed.releases == (*one.releases, *other.releases)
    assert mixed.guarantee.epsilon == 0.5
    assert mixed.guarantee.delta == 2e-7
    assert mixed.select(["age"]).releases == other.releases
    assert mixed.select(["sex"]).guarantee is None
    assert mixed.with_guarantee(None).guarantee is None
    assert mixed.with_guarantee(None)["job"].releases == ()
    assert one["job"].releases == one.releases
    assert mixed == mixed.with_guarantee(None)
    assert mixed["age"] == Interval(**BOUNDS, bins=8)
    facts = Domain(mixed, constraints=["age > 16"])
    assert facts.releases == mixed.releases
    assert Domain(find({}, 1.0), derived={}).guarantee.epsilon == 1.0


def test_toml_keeps_the_release_of_each_column():
    one, other = found_twice()
    mixed = Domain({"job": one["job"], "age": other["age"], "sex": ["f", "m"]})
    read = Domain.from_toml(mixed.to_toml())
    assert read == mixed
    assert read.releases == mixed.releases
    assert [read[name].releases for name in read] == [one.releases, other.releases, ()]
    assert read.to_toml() == mixed.to_toml()
    assert Domain.from_toml(one.to_toml())["age"].releases == one.releases


def test_interval_without_its_bins_keeps_the_release():
    one, _ = found_twice()
    assert drop_bins(one["age"]).releases == one.releases


def test_toml_keeps_all_releases_of_a_column():
    one, other = found_twice()
    declared = {"bounds": one.select(["age"]), "categories": other.select(["job"])}
    model = skdp.DPAdditiveClassifier(100.0, delta=1e-6, classes=[0, 1], **declared).fit(PEOPLE, LABELS)
    found = model.domain_["age"].releases
    assert len(found) == 2
    assert Domain.from_toml(model.domain_.to_toml())["age"].releases == found


@pytest.mark.parametrize("columns", ["'job'", "['name']", "[['job']]", "1"])
def test_toml_release_of_an_unknown_column_is_an_error(columns):
    text = found_twice()[0].to_toml() + f"columns = {columns}\n"
    with pytest.raises(ValueError, match="`columns` of `guarantee` must be a list of columns of the domain"):
        Domain.from_toml(text)


# Estimators: each gets the column "job" of one release and "age" of another.

ESTIMATORS = {
    "randomized response": lambda d: skdp.RandomizedResponseEncoder(1.0, categories=d),
    "wrapped": lambda d: skdp.OnFitOnly(skdp.RandomizedResponseEncoder(1.0, categories=d)),
    "unary": lambda d: skdp.UnaryEncodingTransformer(1.0, categories=d),
    "subsets": lambda d: skdp.SubsetSelectionEncoder(1.0, categories=d),
    "hashing": lambda d: skdp.LocalHashingEncoder(1.0, categories=d),
    "oracle": lambda d: skdp.FrequencyOracleEncoder(1.0, categories=d),
    "table": lambda d: skdp.LocalTableEncoder(1.0, categories={"job": d["job"]}, bounds={"age": d["age"]}),
    "histogram": lambda d: skdp.DPHistogram(1.0, domain=d),
    "naive Bayes": lambda d: skdp.DPCategoricalNB(1.0, categories=d, classes=[0, 1]),
    "one-hot": lambda d: skdp.DPOneHotEncoder(categories=d),
    "imputer": lambda d: skdp.DPSimpleImputer(1.0, strategy="most_frequent", categories=d),
    "additive": lambda d: skdp.DPAdditiveClassifier(
        1.0, delta=1e-6, categories={"job": d["job"]}, bounds={"age": d["age"]}, classes=[0, 1]
    ),
    "synthesizer": lambda d: skdp.DPMarginalSynthesizer(1.0, domain=d),
    "Gaussian synthesizer": lambda d: skdp.DPMarginalSynthesizer(1.0, delta=1e-6, domain=d),
    "columns": lambda d: skdp.DPColumnSynthesizer(["job", "age"], epsilon=1.0, domain=d),
}
# Estimators that read, state or keep the domain in other ways.
OF_EACH_PATH = {"randomized response", "wrapped", "table", "histogram", "one-hot", "additive", "synthesizer", "columns"}
FORMS = {
    "dict": lambda job, age: {"job": job, "age": age},
    "Domain": lambda job, age: Domain({"job": job, "age": age}),
    "wide Domain": lambda job, age: Domain({"job": job, "age": age, "sex": ["f", "m"]}),
}


def fit(estimator):
    if isinstance(estimator, skdp.DPColumnSynthesizer):
        return estimator.fit(PEOPLE.assign(town="a"))
    needs_labels = hasattr(estimator, "predict")
    return estimator.fit(PEOPLE, LABELS) if needs_labels else estimator.fit(PEOPLE)


@pytest.mark.parametrize(("name", "form"), diagonal(often(ESTIMATORS, OF_EACH_PATH), often(FORMS, {"wide Domain"})))
def test_statement_counts_each_release_of_the_columns_once(name, form, tmp_path):
    one, other = found_twice()
    estimator = ESTIMATORS[name](FORMS[form](one["job"], other["age"]))
    assert count_found(estimator) == [0.25, 0.25]  # the plan
    fitted = fit(estimator)
    assert count_found(fitted) == [0.25, 0.25]
    skdp.save(fitted, tmp_path / "model")
    copies = [skdp.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted)), clone(fitted)]
    if hasattr(fitted, "to_json"):
        read = type(fitted).from_json(fitted.to_json())
        assert read.to_json() == fitted.to_json()
        copies.append(read)
    for copied in copies:
        assert count_found(copied) == [0.25, 0.25]
        assert count_found(fitted, copied) == [0.25, 0.25]
    # The values of the fitted domain are found, too.
    if hasattr(fitted, "domain_"):
        assert {*fitted.domain_.releases} == {*one.releases, *other.releases}
    assert count_found(fitted, skdp.RandomizedResponseEncoder(1.0, categories=[one["job"]])) == [0.25, 0.25]


@pytest.mark.parametrize(
    "make",
    [
        lambda age: skdp.DPMean(1.0, bounds={"age": age}),
        lambda age: skdp.DPStandardScaler(1.0, bounds={"age": age}),
        lambda age: skdp.DPMinMaxScaler(1.0, bounds={"age": age}),
        lambda age: skdp.NumericPerturber(1.0, bounds={"age": age}),
        lambda age: skdp.NumericPerturber(1.0, bounds=Domain({"age": age})),
        lambda age: skdp.RandomizedResponseEncoder(1.0, categories=[age]),
        lambda age: skdp.DPHistogram(1.0, domain=age),
    ],
)
def test_bounds_and_lists_of_found_columns_keep_the_release(make):
    one, _ = found_twice()
    estimator = make(one["age"]).fit(PEOPLE[["age"]])
    assert count_found(estimator) == [0.25]
    if hasattr(estimator, "to_json"):
        assert count_found(estimator, type(estimator).from_json(estimator.to_json())) == [0.25]


@pytest.mark.parametrize(
    "make",
    [
        lambda domain: skdp.DPLogisticRegression(100.0, bounds=domain, classes=[0, 1]),
        lambda domain: skdp.DPAdditiveClassifier(100.0, delta=1e-6, bounds=domain, classes=[0, 1]),
        lambda domain: skdp.DPAdditiveClassifier(100.0, delta=1e-6, categories=domain, classes=[0, 1]),
    ],
)
def test_domain_of_classifiers_may_have_further_columns(make):
    one, _ = found_twice()
    assert count_found(make(one | {"sex": ["f", "m"]}).fit(PEOPLE[["age"]], LABELS)) == [0.25]


@pytest.mark.parametrize(
    "make", [lambda: iter(["f", "m"]), lambda: (letter for letter in "fm"), lambda: map(str, "fm")]
)
def test_iterator_as_values_is_an_error_that_names_list(make):
    table = pd.DataFrame({"sex": ["f", "m"] * 20})
    for estimator in (
        skdp.RandomizedResponseEncoder(1.0, categories={"sex": make()}),
        skdp.DPHistogram(1.0, domain={"sex": make()}),
        skdp.DPMarginalSynthesizer(1.0, domain={"sex": make()}),
    ):
        with pytest.raises(TypeError, match=r"column 'sex' must be a list of values, .*Use list\("):
            estimator.fit(table)


def test_error_of_a_single_declared_value_does_not_mention_the_data():
    table = pd.DataFrame({"region": ["south"] * 50})
    with pytest.raises(ValueError, match=r"Column 'region' must have at least 2 categories, got 1[.]"):
        skdp.RandomizedResponseEncoder(1.0, categories={"region": ["south"]}).fit(table)
