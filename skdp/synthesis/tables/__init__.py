"""Conversion of tables to codes of a domain, and back."""

from skdp.synthesis.tables._cells import Shape as Shape
from skdp.synthesis.tables._cells import Steps as Steps
from skdp.synthesis.tables._cells import cut_domain as cut_domain
from skdp.synthesis.tables._cells import find_intervals as find_intervals
from skdp.synthesis.tables._cells import find_middles as find_middles
from skdp.synthesis.tables._cells import find_points as find_points
from skdp.synthesis.tables._cells import with_edges as with_edges
from skdp.synthesis.tables._records import CodedRecords as CodedRecords
from skdp.synthesis.tables._records import LargeRecords as LargeRecords
from skdp.synthesis.tables._records import Policy as Policy
from skdp.synthesis.tables._records import Records as Records
from skdp.synthesis.tables._records import check_computable as check_computable
from skdp.synthesis.tables._records import check_policy as check_policy
from skdp.synthesis.tables._records import check_replacements as check_replacements
from skdp.synthesis.tables._records import complete_domain as complete_domain
from skdp.synthesis.tables._records import declared_orders as declared_orders
from skdp.synthesis.tables._records import derived_from as derived_from
from skdp.synthesis.tables._records import (
    make_undeclared_error as make_undeclared_error,
)
from skdp.synthesis.tables._records import open_rows as open_rows
from skdp.synthesis.tables._records import read_codes as read_codes
from skdp.synthesis.tables._records import undeclared as undeclared
from skdp.synthesis.tables._records import with_target as with_target
from skdp.synthesis.tables._rows import MAX_ROUNDS as MAX_ROUNDS
from skdp.synthesis.tables._rows import DrawnRows as DrawnRows
from skdp.synthesis.tables._rows import assemble as assemble
from skdp.synthesis.tables._rows import check_decodable as check_decodable
from skdp.synthesis.tables._rows import check_n_samples as check_n_samples
from skdp.synthesis.tables._rows import compute_derived as compute_derived
from skdp.synthesis.tables._rows import draw_numbers as draw_numbers
from skdp.synthesis.tables._rows import draw_valid as draw_valid
from skdp.synthesis.tables._rows import find_broken as find_broken
from skdp.synthesis.tables._rows import learn_ranks as learn_ranks
from skdp.synthesis.tables._rows import make_frame as make_frame
from skdp.synthesis.tables._rows import make_generator as make_generator
from skdp.synthesis.tables._rows import make_template as make_template
from skdp.synthesis.tables._rows import write_rows as write_rows
