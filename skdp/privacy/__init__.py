"""Guarantees, their composition, ledgers and statements."""

from skdp.privacy._formats import check_choice as check_choice
from skdp.privacy._formats import check_delta as check_delta
from skdp.privacy._formats import check_epsilon as check_epsilon
from skdp.privacy._formats import format_html as format_html
from skdp.privacy.guarantees._accountant import smallest_epsilon as smallest_epsilon
from skdp.privacy.guarantees._budget import Mu, Rho
from skdp.privacy.guarantees._budget import PrivacyBudget as PrivacyBudget
from skdp.privacy.guarantees._budget import Split as Split
from skdp.privacy.guarantees._budget import parse_budget as parse_budget
from skdp.privacy.guarantees._conversions import (
    gaussian_delta,
    gaussian_epsilon,
    largest_mu,
    zcdp_epsilon,
)
from skdp.privacy.guarantees._guarantee import (
    PrivacyGuarantee,
    PrivacyLeakWarning,
    WeakGuaranteeWarning,
    compose,
)
from skdp.privacy.guarantees._guarantee import Relation as Relation
from skdp.privacy.guarantees._losses import GaussianLoss, PureLoss
from skdp.privacy.guarantees._losses import Loss as Loss
from skdp.privacy.guarantees._losses import StatedLoss as StatedLoss
from skdp.privacy.guarantees._losses import exponential_loss as exponential_loss
from skdp.privacy.guarantees._losses import gaussian_loss as gaussian_loss
from skdp.privacy.guarantees._losses import laplace_loss as laplace_loss
from skdp.privacy.guarantees._losses import pure_mu as pure_mu
from skdp.privacy.guarantees._shuffled import ReportPair as ReportPair
from skdp.privacy.guarantees._shuffled import local_epsilon, shuffled_guarantee
from skdp.privacy.ledger._book import BudgetExceeded
from skdp.privacy.ledger._division import divide_epsilon as divide_epsilon
from skdp.privacy.ledger._division import find_private_steps as find_private_steps
from skdp.privacy.ledger._ledger import PrivacyLedger
from skdp.privacy.ledger._server_book import is_database_text as is_database_text
from skdp.privacy.ledger._server_book import is_server_address as is_server_address
from skdp.privacy.ledger._server_book import strip_secrets as strip_secrets
from skdp.privacy.statement._result import PrivacyStatement
from skdp.privacy.statement._statement import privacy_statement
from skdp.privacy.statement._steps import list_releases as list_releases

__all__ = [
    "BudgetExceeded",
    "GaussianLoss",
    "Mu",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivacyStatement",
    "PureLoss",
    "Rho",
    "WeakGuaranteeWarning",
    "compose",
    "gaussian_delta",
    "gaussian_epsilon",
    "largest_mu",
    "local_epsilon",
    "privacy_statement",
    "shuffled_guarantee",
    "zcdp_epsilon",
]
