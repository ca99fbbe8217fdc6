"""Names of the fairness metrics, and rows of a real and a synthetic table."""

METRICS = [
    "statistical_parity_difference",
    "disparate_impact",
    "equal_opportunity_difference",
    "average_odds_difference",
]

REAL = {
    "sex": ["F", "M", "M", None, "F", "M", "F"],
    "age": [20, 30, None, 40, 40, 20, 50],
    "smokes": [True, False, True, False, False, True, True],
}
SYNTHETIC = {
    "sex": ["F", "F", "M", None, "X"],
    "age": [20, 60, None, None, 40],
    "smokes": [True, True, True, False, False],
}
