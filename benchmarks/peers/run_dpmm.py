"""Draw synthetic rows of codes with AIM or MST of dpmm, which follow private-pgm's code."""

import json
import sys

import numpy as np
import pandas as pd
from dpmm.pipelines.aim import AIMPipeline
from dpmm.pipelines.mst import MSTPipeline

PIPELINES = {"AIM": AIMPipeline, "MST": MSTPipeline}


def main(source: str, target: str, options: dict) -> None:
    """Fit the codes of a table, and draw as many rows."""
    given = np.load(source)
    rows = pd.DataFrame(given["codes"]).add_prefix("c")
    domain = dict(zip(rows, map(int, given["sizes"]), strict=True))
    seed = options.pop("seed")
    make = PIPELINES[options.pop("name")]
    pipeline = make(disable_processing=True, n_jobs=1, **options)
    pipeline.fit(rows, domain=domain, random_state=seed)
    drawn = pipeline.generate(len(rows), random_state=seed)
    np.savez(target, codes=drawn[list(rows)].to_numpy(int))


main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
