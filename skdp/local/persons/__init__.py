"""Tables with several rows a person."""

from skdp.local.persons._per_person import PerPerson

__all__ = ["PerPerson"]
