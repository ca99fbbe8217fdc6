"""Usage, help and names of the options of all commands."""

import ast
import inspect
import io
import re
import sys
from pathlib import Path

import pytest

import skdp
from skdp import Domain, Interval
from tests.cli.commands import call, refuse

# In the order of work.
COMMANDS = ["draft-domain", "privatize", "tally", "estimate", "synthesize", "table", "statement", "report"]


def read_help(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        call(*words, "--help")
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_command_without_arguments_prints_help_and_an_example(capsys):
    assert call() == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^    ([a-z-]+)\s", printed, re.MULTILINE) == COMMANDS
    assert "\n  skdp privatize people.csv reports.csv \\\n      --domain people.toml --epsilon 1\n" in printed
    assert read_help(capsys) == printed


@pytest.mark.parametrize("width", [64, 100])
def test_help_fits_the_terminal(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for words in [[], *([command] for command in COMMANDS)]:
        assert [line for line in read_help(capsys, *words).splitlines() if len(line) > width] == []


@pytest.mark.parametrize("command", ["privatize", "synthesize", "table"])
def test_usage_shows_required_options_without_brackets(capsys, command):
    usage = " ".join(read_help(capsys, command).partition("\n\n")[0].split())
    domain = "[--domain FILE] [--keys {auto}]" if command == "table" else "--domain FILE"
    assert f"[--delimiter C] {domain} --epsilon EPSILON [--ledger" in usage
    assert (" skdp synthesize OUT --load MODEL [--rows N]" in usage) == (command == "synthesize")
    guess = f"OUT skdp {command} DATA OUT {'' if command == 'table' else '--domain FILE '}--guess GUESS [options]"
    assert (guess in usage) == (command != "privatize")
    assert ("OUT skdp privatize DATA OUT --load PROTOCOL [options]" in usage) == (command == "privatize")
    error = refuse(capsys, command, "in.csv", "out.csv")
    missing = "" if command == "table" else "--domain, "
    assert f"the following arguments are required: {missing}--epsilon; see" in error
    error = refuse(capsys, command, "--domain", "d.toml", "--epsilon", 1)
    assert "the following arguments are required: DATA, OUT; see" in error


def test_option_has_one_meaning_in_all_commands(capsys):
    described = {}
    for command in COMMANDS:
        for option, value in re.findall(r"^  (--[a-z-]+)(?: ([A-Z]\S*|\{))?", read_help(capsys, command), re.MULTILINE):
            described.setdefault(option, {})[command] = bool(value)
    assert "--person" in described
    assert {option for option, values in described.items() if len(set(values.values())) > 1} == set()
    assert described.keys().isdisjoint({"--key", "--record-id", "--person-column"})


@pytest.mark.parametrize("is_terminal", [True, False])
def test_errors_are_wrapped_on_a_terminal_only(tmp_path, monkeypatch, is_terminal):
    class Screen(io.StringIO):
        def isatty(self):
            return is_terminal

    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "people.csv").write_text("sex\nf\nm\n")
    (tmp_path / "domain.toml").write_text('[columns.age]\nvalues = ["young", "old"]\n')
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(SystemExit):
        call("privatize", "people.csv", "out.csv", "--domain", "domain.toml", "--epsilon", 1)
    lines = screen.getvalue().splitlines()
    assert " ".join(lines).endswith("people.csv must have the columns ['age'], which its header lacks.")
    assert (max(map(len, lines)) <= 60) == is_terminal
    assert (len(lines) == 1) != is_terminal


def test_errors_of_options_are_one_line(capsys):
    """A missing option printed eleven lines of usage."""
    for words, message in (
        (["table"], "skdp table: error: the following arguments are required: DATA, OUT, --epsilon; see"),
        (["table", "a.csv", "b.csv", "--bogus"], "skdp table: error: the following arguments are required"),
        (["report", "--bogus"], "skdp report: error: unrecognized arguments: --bogus; see skdp report --help"),
        (["publish"], "skdp: error: argument COMMAND: invalid choice: 'publish'"),
    ):
        shown = refuse(capsys, *words)
        assert shown.startswith(message)
        assert shown.count("\n") == 1
        assert shown.endswith(" --help\n")


@pytest.mark.parametrize("command", ["draft-domain", "privatize", "synthesize", "table", "estimate"])
def test_help_names_the_addresses_of_tables(capsys, command):
    assert " URL" in " ".join(read_help(capsys, command).split())


def test_help_of_report_states_its_epsilons(capsys):
    assert "(default: 0.1 0.3 0.5 1.0 2.0 5.0)" in " ".join(read_help(capsys, "report").split())


UNDECLARED = {
    "(whole numbers). In its entry of the domain file, set real = true, or decimals, such as decimals = 2": "1.5,a",
    "a value outside the declared ": "7,a",
    "are not declared. Declare them by missing = true in its entry of the domain file": ",a",
    "['a', 'b']. Declare all values that can occur": "1,c",
}


@pytest.mark.parametrize("problem", UNDECLARED)
@pytest.mark.parametrize(
    ("command", "choice"), [("synthesize", "ignore"), ("table", "ignore"), ("privatize", "uniform")]
)
def test_remedies_of_undeclared_values_are_entries_of_the_domain_file_and_options(
    tmp_path, capsys, command, choice, problem
):
    """A fraction was outside the bounds, and remedies were code of Python."""
    (tmp_path / "people.csv").write_text(f"age,town\n1,b\n{UNDECLARED[problem]}\n")
    domain = Domain({"age": Interval(0, 5), "town": ["a", "b"]})
    (tmp_path / "domain.toml").write_text(domain.to_toml())
    words = [command, tmp_path / "people.csv", tmp_path / "out.csv", "--domain", tmp_path / "domain.toml"]
    options = ["--by", "age", "town"] if command == "table" else []
    shown = refuse(capsys, *words, "--epsilon", 1, *options)
    assert problem in shown
    assert f"--handle-unknown {choice}, which" in shown
    assert not re.search(r"=True|=None|Interval|handle_unknown|\{", shown)


def test_messages_mark_the_parameters_for_which_commands_have_options():
    """A reworded message was not translated: regular expressions named its words."""
    options = (
        r"bins|columns|domain|handle_unknown|keys|marginals|n_samples|person|postprocess|statistics|strategy|target"
    )
    declared = "|".join(inspect.signature(Interval).parameters)
    unmarked = re.compile(rf"(?<![`\w(.])(?<!, )(?:{options}|{declared})=[\w{{']")
    found = []
    for path in Path(skdp.__file__).parent.rglob("*.py"):
        if path.parent.name in ("metrics", "survey", "testing", "ledger"):
            continue  # of Python only
        errors = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise)]
        texts = [node for error in errors for node in ast.walk(error) if isinstance(node, ast.Constant | ast.JoinedStr)]
        found += [(path.name, text) for text in map(ast.unparse, texts) if unmarked.search(text)]
    assert found == []
