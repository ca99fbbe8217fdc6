"""Group fairness for groups that are known from privatised reports only."""

from skdp.metrics.private_groups._data_unfairness import (
    data_unfairness as data_unfairness,
)
from skdp.metrics.private_groups._debiased_fairness import (
    debiased_fairness as debiased_fairness,
)
from skdp.metrics.private_groups._debiased_fairness import (
    indicator_variances as indicator_variances,
)
from skdp.metrics.private_groups._debiased_fairness import oracle_of as oracle_of
from skdp.metrics.private_groups._debiased_fairness import (
    parity_half_width as parity_half_width,
)
from skdp.metrics.private_groups._mitigation import private_parity as private_parity
from skdp.metrics.private_groups._mitigation import (
    private_reweighing as private_reweighing,
)
from skdp.metrics.private_groups._mitigation import (
    private_threshold_optimizer as private_threshold_optimizer,
)
from skdp.metrics.private_groups._reports import (
    joint_distribution as joint_distribution,
)
from skdp.metrics.private_groups._reports import posterior_groups as posterior_groups
