"""Pictures of the start page, and of the README: run as a script to write that one."""

from pathlib import Path

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import CountEstimateDisplay

README_PICTURE = Path(__file__).parent.parent / "_static" / "counts.svg"


def counts() -> None:
    """Draw the counts of the example that the README begins with."""
    adult = load_adult()
    people = adult.data[["marital-status"]]
    encoder = RandomizedResponseEncoder(
        epsilon=1.0,
        categories=adult.domain.select(people.columns),
        random_state=0,
    )
    reports = encoder.fit_transform(people)
    estimates = encoder.estimate_counts(reports)
    CountEstimateDisplay.from_estimates(
        estimates, true_counts=people.value_counts()
    )


if __name__ == "__main__":
    from style import draw

    in_light_colours, _ = draw(counts)
    # A reader of the README may have a dark page: the picture brings its background.
    white = b'<rect width="100%" height="100%" fill="#ffffff"/>'
    head, rest = in_light_colours.split(b"<defs>", 1)
    README_PICTURE.write_bytes(head + white + b"<defs>" + rest)
