"""The local transformers that are audited."""

from skdp.local import (
    FrequencyOracleEncoder,
    HeavyHitters,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    SetValuedEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)


def audited_transformers(epsilon=1.0, k=4):
    """List the local transformers of this library."""
    key = b"public: an audit hides nothing"
    column = {"column": list(range(k))}
    two = {"first": list(range(k)), "second": ["yes", "no", None]}
    numbers = {"number": (0.0, 1.0)}
    kinds = {
        "randomized response": (RandomizedResponseEncoder, {}),
        "randomized response, memoised": (
            RandomizedResponseEncoder,
            {"memoize": True, "secret_key": key},
        ),
        "unary encoding, optimized": (UnaryEncodingTransformer, {}),
        "unary encoding, symmetric": (
            UnaryEncodingTransformer,
            {"variant": "symmetric"},
        ),
        "subset selection": (SubsetSelectionEncoder, {}),
        "local hashing": (LocalHashingEncoder, {}),
        "binary local hashing": (LocalHashingEncoder, {"n_buckets": 2}),
        "best oracle": (FrequencyOracleEncoder, {}),
    }
    for title, (kind, parameters) in kinds.items():
        yield title, kind(epsilon, categories=column, **parameters)
    for strategy in ("split", "joint", "sample"):
        options = {"strategy": strategy, "categories": two}
        encoder = RandomizedResponseEncoder(epsilon, handle_unknown="uniform", **options)
        yield f"randomized response, two columns, {strategy}", encoder
    yield "set selection", SetValuedEncoder(epsilon, categories=column, max_size=2)
    mechanisms = {
        "optimal": "optimal",
        "square wave": "square_wave",
        "clamped Laplace": "laplace",
    }
    for title, mechanism in mechanisms.items():
        options = {"mechanism": mechanism, "bounds": numbers, "grid_size": 32}
        yield title, NumericPerturber(epsilon, **options)
    yield "table, margins", LocalTableEncoder(epsilon, categories=two, bounds=numbers, mechanism="laplace")
    options = {"categories": {name: list(range(k)) for name in "abc"}}
    options |= {"purpose": "pairs"}
    yield "table, pairs", LocalTableEncoder(epsilon, **options)
    options = {"n_bits": 8, "n_cohorts": 1}
    yield "RAPPOR, one report", RapporEncoder(epsilon, **options)
    yield "RAPPOR, repeated reports", RapporEncoder(epsilon, secret_key=key, **options)
    yield "heavy hitters", HeavyHitters(epsilon, max_length=4)
