"""Public objects have complete docstrings in the format of numpydoc."""

import importlib
import inspect
import pydoc

import pytest
from numpydoc.validate import ERROR_MSGS, validate

from tests.packages import INTERNAL, ROOMS

# All checks except the sections that some methods do not have: extended summary, See Also, Examples.
CHECKS = {*ERROR_MSGS} - {"ES01", "SA01", "EX01"}


def function_of(member):
    """Return the function behind a property, a class method, a decorated function, or one under `available_if`."""
    value = member.fget if isinstance(member, property) else getattr(member, "__func__", getattr(member, "fn", member))
    return inspect.unwrap(value) if callable(value) else value


def key_of(thing):
    return thing.__module__, thing.__qualname__


def public_objects():
    """Yield the function and the full name of each public class, function, method and property."""
    for room in ROOMS:
        for name in getattr(room, "__all__", ()):
            thing = getattr(room, name)
            path = f"{room.__name__}.{name}"
            if inspect.isfunction(inspect.unwrap(thing)):  # also a cached function
                yield inspect.unwrap(thing), path
            if inspect.isclass(thing):
                yield thing, path
                for member in dir(thing):
                    value = function_of(inspect.getattr_static(thing, member))
                    if member[0] != "_" and inspect.isfunction(value):
                        yield value, f"{path}.{member}"


OBJECTS = {key_of(thing): path for thing, path in reversed(list(public_objects()))}
OURS = {key: path for key, path in OBJECTS.items() if key[0].partition(".")[0] == "skdp"}


def inherits_docstring(cls, name):
    """Return True if `help` shows the docstring of an overridden method of skdp with the same parameters."""
    own, *others = [function_of(vars(base)[name]) for base in cls.__mro__ if name in vars(base)]
    shown = next((other for other in others if other.__doc__), None)
    if own.__doc__ or shown is None or key_of(shown) not in OURS:
        return False
    return [*inspect.signature(own).parameters] == [*inspect.signature(shown).parameters]


def owner_of(path):
    """Return the class and the name of a method, or None."""
    room, _, name = path.rpartition(".")
    owner = pydoc.locate(room)
    return (owner, name) if inspect.isclass(owner) else None


INHERITED = {path for path in OURS.values() if (found := owner_of(path)) and inherits_docstring(*found)}


def test_public_docstrings_pass_numpydoc(monkeypatch):
    # A comment in the code must not switch a check off; searching for such comments takes a quarter of the time.
    monkeypatch.setattr("numpydoc.validate.extract_ignore_validation_comments", lambda file: {})
    for path in sorted({*OURS.values()} - INHERITED):
        protocol = path == "skdp.randomness.ByteSource"  # a protocol has no constructor
        checks = CHECKS - {"PR01"} if protocol else CHECKS
        assert not [f"{path}: {code}: {text}" for code, text in validate(path)["errors"] if code in checks]


@pytest.mark.parametrize("name", sorted(INTERNAL))
def test_internal_packages_state_that_they_are_internal(name):
    assert "\n\nInternal: import nothing from here outside of skdp." in importlib.import_module(name).__doc__
