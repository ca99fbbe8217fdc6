"""The certified accountant: what mechanisms lose, and how much they lose together."""

from skdp.privacy.accounting._losses import MOST_LOSSES as MOST_LOSSES
from skdp.privacy.accounting._losses import GaussianLoss, LaplaceLoss, PureLoss
from skdp.privacy.accounting._losses import Loss as Loss
from skdp.privacy.accounting._losses import StatedLoss as StatedLoss
from skdp.privacy.accounting._losses import check_losses as check_losses
from skdp.privacy.accounting._losses import doubled as doubled
from skdp.privacy.accounting._losses import exponential_loss as exponential_loss
from skdp.privacy.accounting._losses import gaussian_loss as gaussian_loss
from skdp.privacy.accounting._losses import laplace_loss as laplace_loss
from skdp.privacy.accounting._losses import merged as merged
from skdp.privacy.accounting._losses import pure_epsilon as pure_epsilon
from skdp.privacy.accounting._losses import pure_mu as pure_mu
from skdp.privacy.accounting._losses import pure_rho as pure_rho
from skdp.privacy.accounting._losses import read_loss as read_loss
from skdp.privacy.accounting._losses import total_epsilon as total_epsilon
from skdp.privacy.accounting._total import joint_failure as joint_failure
from skdp.privacy.accounting._total import smallest_epsilon as smallest_epsilon

__all__ = ["GaussianLoss", "LaplaceLoss", "PureLoss"]
