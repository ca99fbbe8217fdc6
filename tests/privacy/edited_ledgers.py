"""Edits of a stored ledger that make it invalid."""

import pytest

from skdp import PrivacyGuarantee, PrivacyLedger, privacy_statement

# Changes of a ledger with a budget of 3, relation "replace", and charges of 1 and 0.5.
EDITS = [
    *(f"UPDATE account SET {name} = '-5'" for name in ("epsilon", "delta", "rho", "mu_squared")),
    *(f"UPDATE account SET {name} = '0'" for name in ("epsilon", "delta", "rho", "mu_squared")),
    *(f"UPDATE account SET epsilon = '{value}'" for value in ("1", "14999999999999999/10000000000000000", "2", "inf")),
    *(f"UPDATE account SET epsilon = '{value}'" for value in ("nan", "much", "1/0")),
    "UPDATE account SET epsilon = NULL",
    "UPDATE account SET budget = replace(budget, '\"replace\"', 'null')",
    "UPDATE account SET budget = replace(budget, '\"replace\"', '\"add_remove\"')",
    "UPDATE account SET budget = replace(budget, '\"epsilon\": 3.0', '\"epsilon\": -3.0')",
    "UPDATE account SET budget = '[]'",
    "UPDATE account SET budget = 'null'",
    "DELETE FROM account",
    "INSERT INTO account SELECT * FROM account",
    "DELETE FROM charge",
    "DELETE FROM charge WHERE number = 1",
    "INSERT INTO charge (time, what, guarantee) SELECT time, what, guarantee FROM charge",
    "UPDATE charge SET guarantee = replace(guarantee, '\"epsilon\": 1.0', '\"epsilon\": 0.1')",
    "UPDATE charge SET guarantee = '{}'",
    "UPDATE charge SET guarantee = NULL",
]


def charged_ledger(path):
    ledger = PrivacyLedger(3.0, delta=1e-6, path=path)
    ledger.charge(PrivacyGuarantee(1.0), "first")
    ledger.charge(PrivacyGuarantee(0.5, delta=1e-9, rho=0.01), "second")
    return ledger


def check_damaged(ledger, path):
    """Check that a ledger cannot be opened, and that its charges are not stated."""
    with pytest.raises(ValueError, match=r"is not a valid ledger: .*Open another path, or restore a backup"):
        PrivacyLedger(path=path)
    with pytest.raises(ValueError, match="is not a valid ledger"):
        ledger.charges()
    with pytest.raises(ValueError, match="is not a valid ledger"):
        privacy_statement(ledger)
