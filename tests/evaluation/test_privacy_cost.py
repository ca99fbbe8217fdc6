"""`privacy_cost` is what the ledger is charged, and reads no value."""

import warnings
from functools import partial
from threading import Thread

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skdp import (
    Domain,
    DPGroupBy,
    DPHistogram,
    DPKBinsDiscretizer,
    DPLogisticRegression,
    DPMarginalSynthesizer,
    DPMean,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPQuantileBinarizer,
    DPSimpleImputer,
    DPStandardScaler,
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    HeavyHitters,
    Interval,
    LocalHashingEncoder,
    NumericPerturber,
    OnFitOnly,
    PosteriorFeatures,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    SyntheticResampler,
    UnaryEncodingTransformer,
    privacy_cost,
)
from tests.conftest import each, often

N = 300
DOMAIN = Domain({"sex": ["F", "M"], "job": ["clerk", "cook", "nurse", None]})
BOUNDS = {"age": (17, 90), "hours": (0.0, 99.5)}
TEXT, NUMBERS = ["sex", "job"], ["age", "hours"]
BINNED = {"sex": ["F", "M"], "age": Interval(0, 100, bins=10)}
RATES = {"epsilon": 0.3}


def table():
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "sex": random.choice(["F", "M"], N),
            "job": random.choice(["clerk", "cook", "nurse"], N),
            "age": random.integers(17, 90, N),
            "hours": random.random(N) * 60,
        }
    )


def model():
    return LogisticRegression()


def numbers(step, *after):
    """A step on the numbers only, then others."""
    chosen = ColumnTransformer([("numbers", step, NUMBERS)])
    return make_pipeline(chosen, *after)


def text(step, *after):
    return make_pipeline(ColumnTransformer([("text", step, TEXT)]), *after)


def response(ledger, **more):
    return RandomizedResponseEncoder(**({"epsilon": 1.0, "categories": DOMAIN, "ledger": ledger} | more))


def scaler(ledger, **more):
    return DPStandardScaler(**({"epsilon": 0.1, "bounds": BOUNDS, "ledger": ledger} | more))


def synthesizer(ledger, **more):
    domain = {"sex": ["F", "M"], "job": ["clerk", "cook", "nurse"], "target": [0, 1]}
    return DPMarginalSynthesizer(
        **({"epsilon": 1.0, "domain": domain, "marginals": "independent", "ledger": ledger} | more)
    )


def one_hot():
    return OneHotEncoder(handle_unknown="ignore")


# Each takes a ledger; then the columns that it is fitted on, all by default.
PIPELINES = {
    "response": (lambda ledger: response(ledger), TEXT),
    "response, joint": (lambda ledger: response(ledger, strategy="joint"), TEXT),
    "response, sample": (lambda ledger: response(ledger, strategy="sample"), TEXT),
    "response, list": (lambda ledger: response(ledger, categories=[["F", "M"], ["clerk", "cook", "nurse"]]), TEXT),
    "unary": (lambda ledger: UnaryEncodingTransformer(2.0, categories=DOMAIN, ledger=ledger), TEXT),
    "unary, p and q": (
        lambda ledger: UnaryEncodingTransformer(None, p=0.5, q=0.2, categories=DOMAIN, ledger=ledger),
        TEXT,
    ),
    "hashing": (lambda ledger: LocalHashingEncoder(0.7, categories=DOMAIN, ledger=ledger), TEXT),
    "hadamard": (lambda ledger: HadamardResponseEncoder(0.7, categories=DOMAIN, ledger=ledger), TEXT),
    "subset": (lambda ledger: SubsetSelectionEncoder(0.7, categories=DOMAIN, ledger=ledger), TEXT),
    "auto": (lambda ledger: FrequencyOracleEncoder(0.7, categories=DOMAIN, ledger=ledger), TEXT),
    "numbers": (lambda ledger: NumericPerturber(1.5, bounds=BOUNDS, ledger=ledger), NUMBERS),
    "laplace": (lambda ledger: NumericPerturber(1.5, mechanism="laplace", bounds=BOUNDS, ledger=ledger), NUMBERS),
    "rappor": (lambda ledger: RapporEncoder(2.0, ledger=ledger), ["job"]),
    "rappor, permanent": (
        lambda ledger: RapporEncoder(
            None, f=0.5, p=0.5, q=0.75, secret_key=b"k" * 32, constant_values=True, ledger=ledger
        ),
        ["job"],
    ),
    "memo": (lambda ledger: response(ledger, memoize=True, secret_key=b"k" * 32), TEXT),
    "response and model": (lambda ledger: make_pipeline(response(ledger), one_hot(), model()), TEXT),
    "on fit only": (lambda ledger: make_pipeline(OnFitOnly(response(ledger)), one_hot(), model()), TEXT),
    "posterior": (lambda ledger: make_pipeline(PosteriorFeatures(response(ledger)), model()), TEXT),
    "after an imputer": (
        lambda ledger: make_pipeline(
            SimpleImputer(strategy="most_frequent").set_output(transform="pandas"), response(ledger), one_hot(), model()
        ),
        TEXT,
    ),
    "by columns": (
        lambda ledger: make_pipeline(
            ColumnTransformer(
                [
                    ("text", make_pipeline(response(ledger), one_hot()), TEXT),
                    ("numbers", NumericPerturber(0.5, bounds=BOUNDS, ledger=ledger), NUMBERS),
                ]
            ),
            model(),
        ),
        None,
    ),
    "by dtype": (
        lambda ledger: make_pipeline(
            ColumnTransformer(
                [("numbers", scaler(ledger), make_column_selector(dtype_include="number"))], remainder="drop"
            ),
            model(),
        ),
        None,
    ),
    "by place": (
        lambda ledger: make_pipeline(
            ColumnTransformer(
                [
                    ("text", response(ledger), slice(0, 2)),
                    ("numbers", scaler(ledger), [False, False, True, True]),
                ]
            ).set_output(transform="pandas"),
        ),
        None,
    ),
    "union": (
        lambda ledger: FeatureUnion([("a", scaler(ledger)), ("b", DPMinMaxScaler(bounds=BOUNDS, ledger=ledger))]),
        NUMBERS,
    ),
    "scaler": (lambda ledger: numbers(scaler(ledger), model()), None),
    "two scalers": (lambda ledger: numbers(scaler(ledger), DPMean(0.4, bounds=(-5, 5), ledger=ledger)), None),
    "range": (
        lambda ledger: DPMinMaxScaler(0.3, bounds=BOUNDS, quantile_range=(0.1, 0.9), ledger=ledger),
        NUMBERS,
    ),
    "public range": (lambda ledger: DPMinMaxScaler(0.3, bounds=BOUNDS, ledger=ledger), NUMBERS),
    "bins": (lambda ledger: numbers(DPKBinsDiscretizer(0.3, bounds=BOUNDS, n_bins=4, ledger=ledger), model()), None),
    "binarizer": (lambda ledger: numbers(DPQuantileBinarizer(0.3, bounds=BOUNDS, ledger=ledger), model()), None),
    "imputer": (
        lambda ledger: text(
            DPSimpleImputer(0.3, strategy="most_frequent", categories=DOMAIN, ledger=ledger), one_hot(), model()
        ),
        None,
    ),
    "histogram": (lambda ledger: DPHistogram(0.3, domain=BINNED, ledger=ledger), ["sex", "age"]),
    "search": (
        lambda ledger: GridSearchCV(
            numbers(scaler(ledger), model()), {"logisticregression__C": [0.1, 1.0]}, cv=3, error_score="raise"
        ),
        None,
    ),
    "search for epsilon": (
        lambda ledger: GridSearchCV(
            make_pipeline(scaler(ledger), model()), {"dpstandardscaler__epsilon": [0.1, 0.7]}, cv=4, n_jobs=None
        ),
        NUMBERS,
    ),
    "random search": (
        lambda ledger: RandomizedSearchCV(
            make_pipeline(response(ledger), one_hot(), model()),
            {"logisticregression__C": [0.1, 1.0, 10.0]},
            n_iter=2,
            cv=3,
            random_state=0,
        ),
        TEXT,
    ),
    "vote": (
        lambda ledger: VotingClassifier(
            [("a", numbers(scaler(ledger), model())), ("b", text(response(ledger), one_hot(), model()))]
        ),
        None,
    ),
    "stack": (
        lambda ledger: StackingClassifier(
            [("a", numbers(scaler(ledger), model())), ("b", DecisionTreeClassifier())], cv=3
        ),
        NUMBERS,
    ),
    "target": (
        lambda ledger: TransformedTargetRegressor(
            make_pipeline(scaler(ledger), LinearRegression()),
            transformer=DPStandardScaler(0.2, bounds=(-9, 9), ledger=ledger),
        ),
        NUMBERS,
    ),
    "synthesizer": (lambda ledger: synthesizer(ledger), TEXT),
    "resampler": (lambda ledger: SyntheticResampler(synthesizer(ledger)), TEXT),
    "no skdp": (
        lambda ledger: make_pipeline(StandardScaler(), SelectKBest(k=1), PCA(1), KBinsDiscretizer(3), model()),
        NUMBERS,
    ),
    "steps between": (
        lambda ledger: make_pipeline(
            "passthrough",
            FunctionTransformer(),
            OrdinalEncoder().set_output(transform="pandas"),
            DPHistogram(0.3, domain={"sex": range(2), "job": range(3)}, ledger=ledger),
        ),
        TEXT,
    ),
}


# Others of their kind are quicker.
LONG = ["random search", "vote", "range", "response, list", "hadamard", "subset", "after an imputer"]
LONG += ["search", "hashing", "unary, p and q", "laplace", "response, joint", "by dtype", "union", "bins", "stack"]


class Untouchable(pd.DataFrame):
    """A frame of which nothing but names and dtypes can be read."""

    def _refuse(self, *args, **kwargs):
        raise AssertionError("a value was read")

    iloc = loc = values = property(_refuse)
    __getitem__ = __iter__ = __array__ = to_numpy = items = copy = head = _refuse
    itertuples = iterrows = to_dict = reindex = __len__ = _refuse

    @property
    def shape(self):
        raise AssertionError("the number of rows was read")


def untouchable(frame):
    made = Untouchable(frame)
    with pytest.raises(AssertionError):
        made["sex"]
    return made


def prepared(name, ledger):
    make, columns = PIPELINES[name]
    return make(ledger), table() if columns is None else table()[columns]


def ledger_for(name):
    # A ledger for add/remove, which is that of its first charge, has no place for charges of the local model.
    return PrivacyLedger(epsilon=1000.0, delta=0.1, relation="replace" if name == "vote" else None)


def target(X):
    return (np.arange(len(X)) % 7 < 3).astype(int)


def record_ids(name, X):
    return {"record_id": np.arange(len(X))} if name in ("memo", "rappor, permanent") else {}


def test_there_are_forty_pipelines():
    assert len(PIPELINES) >= 40


@pytest.mark.filterwarnings("ignore")  # statistics that noise hides, and searches that score few rows
@pytest.mark.parametrize("name", often(PIPELINES, PIPELINES.keys() - LONG))
def test_the_cost_is_what_the_ledger_is_charged(name):
    given = ledger_for(name)
    estimator, X = prepared(name, given)
    cost = privacy_cost(estimator, untouchable(X))
    assert given.spent == (0.0, 0.0)
    assert not hasattr(estimator, "n_features_in_")
    for call, total in cost.totals.items():
        ledger = ledger_for(name)
        fitted = prepared(name, ledger)[0]
        ids = record_ids(name, X)
        if call in ("transform", "predict"):
            fitted.fit(X, target(X))
            before = ledger.spent
            getattr(fitted, call)(X, **(ids if call == "transform" else {}))
            spent = [round(now - then, 9) for now, then in zip(ledger.spent, before, strict=True)]
        else:
            getattr(fitted, call)(X, target(X), **(ids if call == "fit_transform" else {}))
            spent = [round(now, 9) for now in ledger.spent]
        stated = (0.0, 0.0) if total is None else (total.epsilon, total.delta)
        assert spent == [round(number, 9) for number in stated], call
        listed = cost.charges[cost.charges["call"] == call]
        assert len(ledger.report()) == listed["times"].sum() or call in ("transform", "predict")
    assert any(cost.totals.values()) or name in ("no skdp", "public range")


@pytest.mark.filterwarnings("ignore")
def test_totals_are_exactly_the_sums_of_the_ledger():
    ledger = PrivacyLedger(epsilon=10.0)
    search = GridSearchCV(make_pipeline(scaler(ledger), model()), {"logisticregression__C": [0.1, 1.0]}, cv=5)
    X = table()[NUMBERS]
    total = privacy_cost(search, X).totals["fit"]
    search.fit(X, target(X))
    assert total.epsilon == ledger.spent.epsilon == 1.1  # not 1.1000000000000003


def schemas():
    frame = table()
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "lazy polars": pl.LazyFrame({"sex": ["F"], "job": ["cook"], "age": [1], "hours": [0.5]}),
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "dtypes": {"sex": str, "job": "object", "age": "int16", "hours": float},
        "values": {"sex": ["F", "M"], "job": ["clerk"], "age": Interval(0, 100, bins=5), "hours": [1.0, 2.0]},
        "domain": Domain({"sex": ["F", "M"], "job": ["clerk"], "age": [20, 30], "hours": [1.0, 2.0]}),
    }


@pytest.mark.chosen("domain", "polars", "arrow")
@pytest.mark.parametrize("kind", schemas())
def test_any_schema(kind):
    estimator = make_pipeline(
        ColumnTransformer(
            [("text", make_pipeline(response(None), one_hot()), TEXT), ("numbers", scaler(None), NUMBERS)]
        ),
        model(),
    )
    cost = privacy_cost(estimator, schemas()[kind])
    assert {call: total.epsilon for call, total in cost.totals.items()} == {"fit": 1.2, "predict": 1.0}
    assert sorted(cost.statement.rows["column"].unique()) == ["age", "hours", "job", "sex"]
    assert cost.statement.ledgers == ()  # the meter is not one
    assert not any(step.charged for step in cost.statement.steps)


def test_an_array():
    cost = privacy_cost(DPMean(0.5, bounds=[(0, 1), (0, 5)]), np.full((3, 2), np.nan))
    assert cost.totals["fit"].epsilon == 0.5
    assert cost.totals["fit"].scope == ("x0", "x1")


@each(
    "by, keys, bounds",
    [
        ("sex", {"sex": ["F", "M"]}, (0, 1)),
        (["job", "sex"], [["smith"], ["F", "M"]], [(0, 1)]),
        (["job", "sex"], {"sex": ["F"], "job": ["smith"]}, {"age": (0, 1)}),
    ],
)
def test_declared_keys(by, keys, bounds):
    """By the columns that they are for, which are not those of the bounds."""
    groups = DPGroupBy(by, 0.5, keys=keys, bounds=bounds)
    schema = {"sex": str, "age": float, "job": float if by == "sex" else str}
    assert privacy_cost(groups, schema).totals["fit"].epsilon == 0.5


def test_a_lazy_table_is_not_evaluated():
    def read(batch):
        raise AssertionError("a value was read")

    lazy = pl.LazyFrame({"age": [1]}).map_batches(read, schema={"age": pl.Int64})
    assert privacy_cost(DPMean(0.5, bounds=(0, 1)), lazy).totals["fit"].epsilon == 0.5


def test_a_target_is_not_read():
    class Target(np.ndarray):
        def __array_finalize__(self, other):
            pass

        def __getitem__(self, item):
            raise AssertionError("a value was read")

    y = np.array(["low", "high"]).view(Target)
    assert privacy_cost(make_pipeline(scaler(None), model()), table()[NUMBERS], y).totals["fit"].epsilon == 0.1


def test_a_target_of_declared_values():
    domain = {"sex": ["F", "M"], "target": ["low", "high"]}
    resampler = SyntheticResampler(DPMarginalSynthesizer(domain=domain, marginals="independent"))
    for y in (None, ["low", "high"], pd.Series(["?"], name="target")):
        assert privacy_cost(resampler, {"sex": str}, y).totals["fit_resample"].epsilon == 1.0
    with pytest.raises(ValueError, match="fit_resample refuses rows that are made up"):
        privacy_cost(resampler, {"sex": str}, pd.Series(["?"], name="income"))


def test_a_target_keeps_its_name():
    domain = {"sex": ["F", "M"], "smokes": [False, True]}
    resampler = SyntheticResampler(DPMarginalSynthesizer(domain=domain, marginals="independent"))
    smokes = pd.Series([True], name="smokes")
    assert privacy_cost(resampler, {"sex": str}, smokes).totals["fit_resample"].epsilon == 1.0


def test_categories_that_would_be_read_from_the_data_are_stated():
    cost = privacy_cost(RandomizedResponseEncoder(1.0), table()[TEXT])
    assert cost.totals["fit_transform"].epsilon == 1.0
    assert cost.statement.total is None
    assert cost.statement.rows["protection"].str.contains("categories read from the data").any()


def test_a_ledger_of_a_fitted_part_is_not_charged():
    ledger = PrivacyLedger(epsilon=5.0)
    X = table()[TEXT]
    fitted = response(ledger).fit(X)
    cost = privacy_cost(make_pipeline(FrozenEstimator(fitted), one_hot(), model()), X)
    assert ledger.spent == (0.0, 0.0)
    assert cost.totals["predict"].epsilon == 1.0


class Holder:
    """Keeps an object out of the sight of `vars`."""

    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


def spend_a_mean(X, held=None, ledger=None):
    DPMean(2.0, bounds=(0, 1), ledger=ledger if held is None else held.held).fit(X)
    return X


@pytest.mark.parametrize("place", ["grid", "partial", "slots", "method", "closure"])
def test_no_ledger_is_charged_wherever_it_is(place):
    """Nor is its charge left out, also where `get_params` does not lead to it."""
    ledger = PrivacyLedger(epsilon=100.0)
    fitted = NumericPerturber(2.0, bounds=BOUNDS, ledger=ledger).fit(table()[NUMBERS])
    pipeline = Pipeline([("s", "passthrough"), ("m", model())])
    step = DPStandardScaler(2.0, bounds=BOUNDS, ledger=ledger)
    estimator = {
        "grid": lambda: GridSearchCV(pipeline, [{"m__C": [1.0]}, {"s": [step]}], cv=3, refit=False),
        "partial": lambda: FunctionTransformer(partial(spend_a_mean, ledger=ledger)),
        "slots": lambda: FunctionTransformer(spend_a_mean, kw_args={"held": Holder(ledger)}),
        "method": lambda: FunctionTransformer(fitted.transform),
        "closure": lambda: FunctionTransformer(lambda X: spend_a_mean(X, ledger=ledger)),
    }[place]()
    call = "fit" if place == "grid" else "transform"
    assert privacy_cost(estimator, table()[NUMBERS]).totals[call].epsilon == (6.0 if place == "grid" else 2.0)
    assert ledger.spent == (0.0, 0.0)


def test_a_release_elsewhere_is_charged_meanwhile():
    ledger = PrivacyLedger(epsilon=100.0)

    def release(X):
        thread = Thread(target=lambda: spend_a_mean(np.zeros((3, 1)), ledger=ledger))
        thread.start()
        thread.join()
        return X

    privacy_cost(FunctionTransformer(release), table()[NUMBERS])
    assert ledger.spent.epsilon >= 2.0
    spend_a_mean(np.zeros((3, 1)), ledger=ledger)
    assert ledger.report().iloc[-1]["epsilon"] == 2.0


def test_parts_without_a_ledger_are_counted():
    X = table()[TEXT]
    frozen = FrozenEstimator(response(None).fit(X))
    assert privacy_cost(frozen, X).totals["transform"].epsilon == 1.0
    pipeline = Pipeline([("s", "passthrough"), ("m", model())])
    search = GridSearchCV(pipeline, {"s": [scaler(None), StandardScaler()]}, cv=3, refit=False)
    assert privacy_cost(search, table()[NUMBERS]).charges["times"].tolist() == [3]


@pytest.mark.filterwarnings("ignore:the noise drowns")
@pytest.mark.parametrize("n_classes", often([2, 3, 20], [2, 3]))
def test_a_fit_for_each_class(n_classes):
    ledger = PrivacyLedger(epsilon=100.0)
    estimator = OneVsRestClassifier(make_pipeline(scaler(ledger), model()))
    X, y = table()[NUMBERS], np.arange(N) % n_classes
    total = privacy_cost(estimator, X, list(range(n_classes))).totals["fit"]
    estimator.fit(X, y)
    assert total.epsilon == ledger.spent.epsilon


@pytest.mark.parametrize(
    "y",
    [
        np.array([3, 5]),
        pd.Series([3, 5]),
        pd.Series(["SECRET", "b"], dtype="category"),
        pl.Series([3, 5]),
        pl.Series(["SECRET", "b"]),
        pa.array([1.5, 2.5]),
        pa.chunked_array([["SECRET", "b"]]),
    ],
    ids=str,
)
def test_a_target_of_a_dtype_has_two_classes(y):
    estimator = OneVsRestClassifier(make_pipeline(scaler(None), model()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert privacy_cost(estimator, table()[NUMBERS], y).totals["fit"].epsilon == 0.1
    assert len(caught) == (getattr(y, "dtype", None) != "category")  # which lists its classes


def test_the_cost_of_classes_that_are_not_listed_warns():
    for estimator in (OneVsRestClassifier, OneVsOneClassifier):
        inner = estimator(make_pipeline(scaler(None, bounds=(0, 100)), model()))
        made = make_pipeline("passthrough", inner)
        with pytest.warns(UserWarning, match=f"fits of {estimator.__name__} follows .* list of the classes") as caught:
            privacy_cost(made, table()[NUMBERS])
        assert caught[0].filename == __file__
        privacy_cost(made, table()[NUMBERS], [0, 1, 2])
        privacy_cost(estimator(model()), table()[NUMBERS])  # which charges nothing


@pytest.mark.parametrize("y", [pd.DataFrame({"t": ["SECRET"]}), {"SECRET"}, object()])
def test_errors_show_no_value_of_a_target(y):
    with pytest.raises(TypeError, match="y must be a list of the possible values, or a column, got") as caught:
        privacy_cost(scaler(None), table()[NUMBERS], y)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(TypeError, match="column 'age' must be a dtype") as caught:
        privacy_cost(scaler(None), {"age": y})
    assert "SECRET" not in str(caught.value)


def test_the_generator_of_numpy_is_left_as_it_was():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    privacy_cost(make_pipeline(scaler(None), RandomForestClassifier(2)), table()[NUMBERS])
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_file_ledger_is_not_charged(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=5.0)
    assert privacy_cost(scaler(ledger), table()[NUMBERS]).totals["fit"].epsilon == 0.1
    assert ledger.report().empty


def test_the_relation_of_the_ledger_is_used():
    ledger = PrivacyLedger(epsilon=5.0, relation="replace")
    total = privacy_cost(scaler(ledger), table()[NUMBERS]).totals["fit"]
    assert (total.epsilon, total.relation) == (0.2, "replace")


def test_local_and_central_charges_add_in_one_relation():
    steps = [("numbers", scaler(None), NUMBERS), ("text", response(None), TEXT)]
    total = privacy_cost(ColumnTransformer(steps), table()).totals["fit_transform"]
    assert (total.epsilon, total.relation, total.trust) == (1.2, "replace", "central")


def test_a_search_with_processes_and_a_cache_stays_in_this_process(tmp_path):
    pipeline = Pipeline([("scaler", scaler(None)), ("model", model())], memory=str(tmp_path / "cache"))
    search = GridSearchCV(pipeline, {"model__C": [0.1, 1.0]}, cv=2, n_jobs=2)
    assert privacy_cost(search, table()[NUMBERS]).charges["times"].tolist() == [5]
    assert not (tmp_path / "cache").exists()


def test_record_ids_are_routed():
    encoder = response(None, memoize=True, secret_key=b"k" * 32)
    with sklearn.config_context(enable_metadata_routing=True):
        encoder.set_transform_request(record_id=True)
        cost = privacy_cost(make_pipeline(encoder, one_hot(), model()), table()[TEXT])
    assert {call: total.epsilon for call, total in cost.totals.items()} == {"fit": 1.0, "predict": 1.0}


def test_heavy_hitters():
    assert privacy_cost(HeavyHitters(1.5), {"word": str}).totals["report"].epsilon == 1.5


def test_wrong_input():
    with pytest.raises(TypeError, match="estimator must be an estimator, got type"):
        privacy_cost(DPMean, table())
    with pytest.raises(TypeError, match="X must be a table, a Domain or"):
        privacy_cost(DPMean(), 3)
    with pytest.raises(ValueError, match="X declares no columns"):
        privacy_cost(DPMean(), {})
    with pytest.raises(TypeError, match="column 'age' must be a dtype, or a list"):
        privacy_cost(DPMean(bounds=(0, 1)), {"age": "years"})
    with pytest.raises(ValueError, match=r"fit refuses rows that are made up .*bounds must be declared"):
        privacy_cost(DPMean(), table()[NUMBERS])
    # 240 rows are too few for any value.
    found = DPOneHotEncoder(0.01, delta=1e-6, categories="private", handle_unknown="error")
    with pytest.raises(ValueError, match=r"handle_unknown='ignore'.*\. Declare the values of the columns in X"):
        privacy_cost(found, {"word": str})


def test_the_result_is_shown():
    cost = privacy_cost(make_pipeline(response(None), one_hot(), model()), table()[TEXT])
    assert str(cost).splitlines() == [
        "fit: epsilon = 1, local model, replacing one record's values of: sex, job",
        "predict: epsilon = 1, local model, replacing one record's values of: sex, job",
    ]
    html = cost._repr_html_()
    assert "<code>fit</code>" in html
    assert "RandomizedResponseEncoder" in html
    assert "nothing" in str(privacy_cost(DPMinMaxScaler(bounds=BOUNDS), table()[NUMBERS]))


def test_no_target_is_made_up_where_none_is_needed():
    schema = {"a": ["x", "y"], "b": ["u", "v", "w"]}
    cost = privacy_cost(DPMarginalSynthesizer(1.0, domain=schema), schema)
    assert cost.charges["columns"].tolist() == ["a, b"] * len(cost.charges)
    with_target = privacy_cost(DPMarginalSynthesizer(1.0, domain=schema | {"target": [0, 1]}), schema, y=[0, 1])
    assert "a, b, target" in with_target.charges["columns"].tolist()


def test_columns_are_those_of_the_table_wherever_a_step_stands():
    encoder = ColumnTransformer(
        [
            ("age", DPStandardScaler(0.5, bounds=(0, 100)), ["age"]),
            ("hours", DPStandardScaler(0.5, bounds=(0, 99)), ["hours"]),
            ("job", DPOneHotEncoder(categories={"job": ["cook", "nurse"]}), ["job"]),
        ]
    )
    model = DPLogisticRegression(1.0, delta=1e-6, bounds=(-5, 5), classes=[0, 1])
    cost = privacy_cost(make_pipeline(encoder, model), {"age": float, "job": ["cook", "nurse"], "hours": float}, [0, 1])
    assert cost.charges["columns"].tolist() == ["age", "hours", "age, job, hours, target"]
    assert cost.totals["fit"].scope == ("age", "hours", "job", "target")
    second = ColumnTransformer([("second", "passthrough", [1])])
    made = privacy_cost(make_pipeline(second, model), np.ones((3, 3)), [0, 1])
    assert made.totals["fit"].scope == ("x1", "target")
