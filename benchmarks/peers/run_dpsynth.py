"""Draw synthetic rows of codes with AIM or MST of Google's dpsynth, on its estimation in double precision."""

import json
import os
import sys

os.environ["JAX_ENABLE_X64"] = "1"

import numpy as np
import pandas as pd
from dpsynth import CategoricalAttribute, TabularSynthesizer, discrete_mechanisms


def main(source: str, target: str, options: dict) -> None:
    """Fit the codes of a table, and draw as many rows."""
    given = np.load(source)
    rows = pd.DataFrame(given["codes"]).add_prefix("c")
    sizes = zip(rows, given["sizes"].tolist(), strict=True)
    domains = {name: CategoricalAttribute(list(range(size))) for name, size in sizes}
    make = getattr(discrete_mechanisms, f"{options['name']}Config")
    synthesizer = TabularSynthesizer(domains=domains, discrete_mechanism=make())
    release = synthesizer.calibrate(epsilon=options["epsilon"], delta=options["delta"])
    result = release(np.random.default_rng(options["seed"]), rows)
    np.savez(target, codes=result.synthetic_data[list(rows)].to_numpy(int))


main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
