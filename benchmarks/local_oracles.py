"""How fast frequency oracles privatise and estimate, beside the peers' protocols and NumPy's floats.

Run ``make bench``, or ``python benchmarks/local_oracles.py`` wherever skdp is installed; peers that are missing are
left out. All run in one process, and the rivals of an oracle take turns; what counts are the ratios.
"""

from __future__ import annotations

import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np
from _timing import best_of, verdict, write_results

from skdp.oracles import (
    FrequencyOracle,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from skdp.randomness import SecureSource

EPSILON = 1.0
# Records, values, turns.
SIZES = (
    (45_222, 4, 15),
    (32_561, 14, 15),
    (200_000, 100, 7),
    (1_000_000, 1_024, 5),
)
# skdp and NumPy repeat small calls up to so many records, or so many cells when privatising: about as long as a turn of
# a peer, and long enough not to measure how cold the caches are that the peers leave.
TURN, CELL_TURN = 1_000_000, 16_000_000
BATCH = 100_000  # bits are made for so many records at a time: 1,000,000 × 1,024 would be 1 GB
FAST_FUNCTIONS = 1_000  # of pure-ldp's fast local hashing

COLUMNS = (
    "oracle",
    "what",
    "records",
    "report, ns a record",
    "a cell",
    "× skdp",
    "estimate, ns a record",
    "a cell",
    "× skdp",
    "targets met?",
)
PRIVATISE, ESTIMATE = 40, 1  # how many times faster than every peer
CELLS = ("SUE", "OUE", "SS")  # their reports have a cell for each value
MOST_REPORT = {"GRR": 8, "OLH": 30, "HR": 40}  # ns a record
MOST_CELL = {"SUE": 1.2, "OUE": 1.2, "SS": 15}  # ns a cell
MOST_ESTIMATE_CELL = {"OLH": 3}
FLOATS = 4  # unary encoding against drawing as many floats

ORACLES: dict[str, Callable[[int], FrequencyOracle]] = {
    "GRR": lambda k: RandomizedResponse(k, EPSILON),
    "SUE": lambda k: UnaryEncoding(k, EPSILON, variant="symmetric"),
    "OUE": lambda k: UnaryEncoding(k, EPSILON),
    "OLH": lambda k: LocalHashing(k, EPSILON),
    "SS": lambda k: SubsetSelection(k, EPSILON),
    "HR": lambda k: HadamardResponse(k, EPSILON),
}


@dataclass
class Peer:
    """A peer's protocol: one record at a time."""

    client: Callable[[Any], Any]
    server: Callable[[list[Any]], Any] | None = None  # None: it has no estimator
    # A server whose time is mostly the same for any number of reports is timed on so many, repeated from the sample.
    most_reports: int = 0
    encode: Callable[[int], Any] = int  # done beforehand, outside the time

    def report(self, records: list[Any]) -> list[Any]:
        """Privatise records, one by one."""
        return [self.client(record) for record in records]


@dataclass
class Targets:
    """The least favourable measurement of each target."""

    worst: dict[str, tuple[float, float, str]] = field(default_factory=dict)

    def at_most(self, name: str, value: float, limit: float, where: str) -> bool:
        """Note a measurement that should not exceed a limit, and say whether it does not."""
        return self._note(f"{name} ≤ {limit:g}", value, value / limit, where)

    def at_least(self, name: str, value: float, limit: float, where: str) -> bool:
        """Note a measurement that should reach a limit, and say whether it does."""
        return self._note(f"{name} ≥ {limit:g}", value, limit / value, where)

    def _note(self, name: str, value: float, excess: float, where: str) -> bool:
        if name not in self.worst or excess > self.worst[name][1]:
            self.worst[name] = value, excess, where
        return excess <= 1

    def rows(self) -> list[list[str]]:
        """Return the rows of their table."""
        return [
            [name, number(value), where, "met" if excess <= 1 else "**not met**"]
            for name, (value, excess, where) in sorted(self.worst.items())
        ]


def number(value: float) -> str:
    """Write a time or a ratio with about three digits."""
    return (
        f"{value:,.0f}"
        if value >= 100
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
    )


def of_pure_ldp(oracle: str, k: int) -> Iterator[tuple[str, Peer]]:
    from pure_ldp.frequency_oracles import (
        direct_encoding,
        hadamard_response,
        local_hashing,
        unary_encoding,
    )

    def served(fresh: Callable[[], Any], reports: list[Any]) -> Any:
        server = fresh()
        server.aggregate_all(reports)
        return server.estimate_all(range(k), suppress_warnings=True)

    def emptied(server: Any) -> Any:
        server.reset()
        return server

    def peer(client: Any, server: Any, most_reports: int = 0) -> Peer:
        return Peer(
            client.privatise, partial(served, partial(emptied, server)), most_reports
        )

    own = {"index_mapper": int}
    if oracle == "GRR":
        pair = (
            make(EPSILON, k, **own)
            for make in (direct_encoding.DEClient, direct_encoding.DEServer)
        )
        yield "DE", peer(*pair, most_reports=sys.maxsize)
    elif oracle in ("SUE", "OUE"):
        makers = unary_encoding.UEClient, unary_encoding.UEServer
        yield (
            oracle,
            peer(
                *(make(EPSILON, k, use_oue=oracle == "OUE", **own) for make in makers)
            ),
        )
    elif oracle == "OLH":
        makers = local_hashing.LHClient, local_hashing.LHServer
        yield "OLH", peer(*(make(EPSILON, k, use_olh=True, **own) for make in makers))
        client = local_hashing.FastLHClient(
            EPSILON, k, FAST_FUNCTIONS, use_olh=True, **own
        )
        server = local_hashing.FastLHServer(
            EPSILON, k, FAST_FUNCTIONS, use_olh=True, **own
        )
        # Its reset keeps the old reports.
        fresh = partial(
            local_hashing.FastLHServer, EPSILON, k, FAST_FUNCTIONS, use_olh=True, **own
        )
        fresh = partial(fresh, hash_matrix=server.hash_matrix)
        yield (
            f"FastLH, {FAST_FUNCTIONS:,}",
            Peer(client.privatise, partial(served, fresh), sys.maxsize),
        )
    elif oracle == "HR":
        server = hadamard_response.HadamardResponseServer(EPSILON, k, **own)
        client = hadamard_response.HadamardResponseClient(
            EPSILON, k, server.get_hash_funcs(), **own
        )
        yield "HR", peer(client, server, most_reports=sys.maxsize)


def of_multi_freq_ldpy(oracle: str, k: int) -> Iterator[tuple[str, Peer]]:
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    if oracle == "GRR":
        server = partial(GRR.GRR_Aggregator_MI, k=k, epsilon=EPSILON)
        yield (
            "GRR",
            Peer(lambda code: GRR.GRR_Client(code, k, EPSILON), server, sys.maxsize),
        )
    elif oracle in ("SUE", "OUE"):
        optimal = oracle == "OUE"
        server = partial(UE.UE_Aggregator_MI, epsilon=EPSILON, optimal=optimal)
        yield oracle, Peer(lambda code: UE.UE_Client(code, k, EPSILON, optimal), server)
    elif oracle == "OLH":
        server = partial(LH.LH_Aggregator_MI, k=k, epsilon=EPSILON)
        yield "OLH", Peer(lambda code: LH.LH_Client(code, k, EPSILON), server)
    elif oracle == "SS":
        server = partial(SS.SS_Aggregator_MI, k=k, epsilon=EPSILON)
        yield (
            "SS (its order tells)",
            Peer(lambda code: SS.SS_Client(code, k, EPSILON), server),
        )


def of_opendp(oracle: str, k: int) -> Iterator[tuple[str, Peer]]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    if oracle == "GRR":
        truth = math.exp(EPSILON) / (math.exp(EPSILON) + k - 1)
        yield (
            "randomized_response",
            Peer(dp.m.make_randomized_response(list(range(k)), truth)),
        )
    elif oracle == "SUE":
        flips = 2 / (math.exp(EPSILON / 2) + 1)
        domain = dp.bitvector_domain(max_weight=1)
        client = dp.m.make_randomized_response_bitvec(
            domain, dp.discrete_distance(), flips
        )
        server = partial(dp.m.debias_randomized_response_bitvec, f=flips)
        yield (
            "…_bitvec",
            Peer(
                client,
                server,
                encode=lambda code: np.packbits(
                    np.arange(k) == code, bitorder="little"
                ).tobytes(),
            ),
        )


def of_diffprivlib(oracle: str, k: int) -> Iterator[tuple[str, Peer]]:
    # Its models (0.6.6) import what scikit-learn 1.9 no longer has; its mechanisms do not need them.
    sys.modules.setdefault("diffprivlib.models", types.ModuleType("diffprivlib.models"))
    from diffprivlib.mechanisms import ExponentialCategorical

    if oracle == "GRR":
        utilities = [
            (str(x), str(y), float(x != y)) for x in range(k) for y in range(x, k)
        ]
        mechanism = ExponentialCategorical(epsilon=EPSILON, utility_list=utilities)
        yield "ExponentialCategorical", Peer(mechanism.randomise, encode=str)


LIBRARIES = {
    "pure-ldp": of_pure_ldp,
    "multi-freq-ldpy": of_multi_freq_ldpy,
    "opendp": of_opendp,
    "diffprivlib": of_diffprivlib,
}


def again(times: int, call: Callable[[], object]) -> Callable[[], object]:
    """Return a call that makes another one so many times."""

    def calls() -> None:
        for _ in range(times):
            call()

    return calls


def peers(oracle: str, k: int) -> dict[str, Peer]:
    """Return the peers of an oracle that are installed."""
    found = {}
    for library, protocols in LIBRARIES.items():
        try:
            for name, peer in protocols(oracle, k):
                found[f"{library}: {name}"] = peer
        except ImportError as reason:
            print(f"{library} is left out: {reason}", file=sys.stderr)
    return found


def compare(name: str, n: int, k: int, turns: int, targets: Targets) -> list[list[str]]:
    """Time an oracle and its peers, and return the rows of the table."""
    rng, where = np.random.default_rng(0), f"n = {n:,}, k = {k:,}"
    if name in CELLS and n * k > 1 << 28:
        n = BATCH
    codes = rng.integers(k, size=n).astype(np.min_scalar_type(k - 1))
    oracle, rivals = ORACLES[name](k), peers(name, k)
    few = codes[: max(200, min(2_000, 100_000 // k))].tolist()

    own, floats = "**skdp**", "NumPy: rng.random(n·k)"
    calls, times = max(1, TURN // n, CELL_TURN // (n * k)), max(1, TURN // n)
    clients = {own: again(calls, lambda: oracle.report(codes, SecureSource()))}
    if name in CELLS:
        clients[floats] = again(calls, lambda: rng.random(n * k))
    timed = dict.fromkeys(clients, (calls * n, times * n))
    sizes = dict.fromkeys(clients, (n, n))
    reports = oracle.report(codes, SecureSource())
    servers = {own: again(times, lambda: oracle.estimate(oracle.tally(reports), n))}
    for rival, peer in rivals.items():
        records = [peer.encode(code) for code in few]
        answers = peer.report(records)  # also compiles what is compiled on first use
        repeated = list(
            islice(cycle(answers), max(len(few), min(n, peer.most_reports)))
        )
        clients[rival] = partial(peer.report, records)
        if peer.server is not None:
            servers[rival] = partial(peer.server, repeated)
        timed[rival] = sizes[rival] = len(few), len(repeated)

    privatise = {
        each: time * 1e9 / timed[each][0]
        for each, time in best_of(clients, turns).items()
    }
    estimate = {
        each: time * 1e9 / timed[each][1]
        for each, time in best_of(servers, turns).items()
    }

    rows = []
    for each in clients:
        ratios = (
            privatise[each] / privatise[own],
            estimate.get(each, math.nan) / estimate[own],
        )
        if each == own:
            met = own_targets(name, k, privatise[own], estimate[own], where, targets)
        elif each == floats:
            wanted = "SUE, OUE: times rng.random(n·k)"
            met = (
                [targets.at_least(wanted, ratios[0], FLOATS, f"{name}, {where}")]
                if name != "SS"
                else []
            )
        else:
            met = [
                targets.at_least(
                    f"{name}: times the peer, privatising",
                    ratios[0],
                    PRIVATISE,
                    f"{where}, {each}",
                )
            ]
            if each in estimate:
                met += [
                    targets.at_least(
                        f"{name}: times the peer, estimating",
                        ratios[1],
                        ESTIMATE,
                        f"{where}, {each}",
                    )
                ]
        row = [
            name,
            each,
            " / ".join(f"{size:,}" for size in dict.fromkeys(sizes[each])),
        ]
        for times, ratio in zip((privatise, estimate), ratios, strict=True):
            row += (
                [number(times[each]), number(times[each] / k), number(ratio)]
                if each in times
                else ["–", "–", "–"]
            )
        rows.append([*row, verdict(all(met)) if met else "–"])
    return rows


def own_targets(
    name: str, k: int, report: float, estimate: float, where: str, targets: Targets
) -> list[bool]:
    """Compare an oracle's own times with what is wanted."""
    met = []
    if name in MOST_REPORT:
        met.append(
            targets.at_most(
                f"{name}: report, ns a record", report, MOST_REPORT[name], where
            )
        )
    if name in MOST_CELL:
        met.append(
            targets.at_most(
                f"{name}: report, ns a cell", report / k, MOST_CELL[name], where
            )
        )
    if name in MOST_ESTIMATE_CELL:
        limit = MOST_ESTIMATE_CELL[name]
        met.append(
            targets.at_most(
                f"{name}: estimate, ns a record and value", estimate / k, limit, where
            )
        )
    return met


def growth(targets: Targets) -> list[list[str]]:
    """Show that Hadamard response estimates in O(n + k log k): the time of a step stays about the same."""
    n, rows, steps = 1_000_000, [], []
    for k in (1_000, 10_000, 100_000, 1_000_000):
        oracle = HadamardResponse(k, EPSILON)
        reports = oracle.report(
            np.random.default_rng(0).integers(k, size=n).astype(np.uint32),
            SecureSource(),
        )
        call = partial(
            lambda oracle, reports: oracle.estimate(oracle.tally(reports), n),
            oracle,
            reports,
        )
        seconds = best_of({"estimate": call}, 5)["estimate"]
        steps.append(seconds * 1e9 / (n + k * math.log2(k)))
        rows.append(
            [
                f"{k:,}",
                number(seconds * 1e3),
                number(steps[-1]),
                number(seconds * 1e12 / (n * k)),
            ]
        )
    name = (
        "HR: growth of the time of a step of n + k log2 k, from k = 1,000 to 1,000,000,"
    )
    targets.at_most(name, max(steps) / steps[0], 4, f"n = {n:,}")
    return rows


def main() -> None:
    warnings.simplefilter("ignore")  # the peers' own, on small samples
    targets, tables = Targets(), {}
    for n, k, turns in SIZES:
        rows = [row for name in ORACLES for row in compare(name, n, k, turns, targets)]
        tables[f"n = {n:,}, k = {k:,}"] = (COLUMNS, rows)
    columns = ("k", "estimate, ms", "ns for each of n + k log2 k", "ps for each of n k")
    tables["Hadamard response over many values, n = 1,000,000"] = (
        columns,
        growth(targets),
    )
    tables["Targets"] = (
        ("target", "least favourable", "where", "met?"),
        targets.rows(),
    )
    write_results(
        "local_oracles",
        "Frequency oracles: privatising and estimating",
        ("skdp", "numpy", "pure-ldp", "multi-freq-ldpy", "opendp", "diffprivlib"),
        f"ε = {EPSILON:g}; skdp with secure coins, on codes of the smallest dtype; the best of several turns, all in "
        "one process. A cell is a pair of a record and a value. Peers take one record at a time: they are timed on the "
        "number of records in the third column; where it has two, the second is for estimating: the reports, repeated, "
        "so that a server's fixed cost is spread over as many as skdp's. skdp and NumPy make "
        f"{BATCH:,} records at a time where all cells would be 1 GB. opendp's and diffprivlib's randomised response "
        f"have no estimator. Peers should be {PRIVATISE} times slower at privatising, and not faster at estimating.",
        tables,
    )


if __name__ == "__main__":
    main()
