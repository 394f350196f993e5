"""Proves the theorems of test programs by symbolic execution of their machine code with angr.

    python tests/proofs/prove.py [PROGRAM...] [--only WORD] [--seconds N]

A theorem is a compiled function `…::NAME::theorem(&[u8; 64])` (`crates/proof/src/lib.rs`). It is executed with 64
undetermined bytes, and all paths are followed to their end. A theorem is proved if every path returns. It is refuted if
a path can reach a panic; the input of this path is printed. In all other cases it is not proved: for example after an
instruction without a model, an address with too many values, an unknown function, or a solver without an answer.
Theorems in a module `false_theorems` must be refuted: they show that the method finds counterexamples.

"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import angr
import claripy
from angr.concretization_strategies import SimConcretizationStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.connection import Connection

INPUT_BYTES = 64
INPUT_AT = 0x1000_0000
HEAP_AT = 0x2000_0000
HEAP_GAP = 64
"""Unused bytes between two allocations."""
RETURN_AT = 0x6000_0000
MAX_VALUES = 1024
"""Most values of an undetermined address or length."""


# Functions that run only on the way to a panic. A v0 name contains each identifier behind its length.
_PANIC = re.compile(
    r"4core9panicking|3std9panicking|5alloc5alloc18handle_alloc_error|7raw_vec12handle_error|17capacity_overflow"
    r"|_fail(?![a-z])|_failed(?![a-z])|rust_begin_unwind|rust_panic"
)
_FALSE = "false_theorems::"
_CRATE_HASH = re.compile(r"(?<=[A-Za-z])Cs[0-9A-Za-z]*_")
_LENGTH = re.compile(r"\d{1,3}")
# Behind the last identifier: a hash in the older scheme, and a suffix of LLVM.
_END = re.compile(r"(?:17h[0-9a-f]{16}E)?(?:\.llvm\.\d+)?")
_DIRECT = {"Ijk_Boring", "Ijk_Call", "Ijk_Ret"}


class NotProvedError(Exception):
    """The method has reached a limit, without a counterexample."""


class RefutedError(Exception):
    """A path reaches a panic."""


@dataclass
class Proof:
    """The work that a proof took."""

    paths: int = 0
    blocks: int = 0


def theorem_of(mangled: str) -> str | None:
    """The path of a theorem from the mangled name of its function; `None` for other functions.

    In both schemes of mangling, the decimal length of an identifier precedes it. The newer one, whose names begin with
    `_R`, puts a hash in front of the crate.

    """
    name = _CRATE_HASH.sub("", mangled)
    found: list[str] = []
    at = 0
    while match := _LENGTH.search(name, at):
        start = match.end() + (name[match.end() : match.end() + 1] == "_")
        at = start + int(match.group())
        found.append(name[start:at])
        if found[-1] == "theorem" and _END.fullmatch(name[at:]):
            return "::".join(found[:-1])
    return None


class AllValues(SimConcretizationStrategy):  # type: ignore[misc]
    """Resolves an undetermined address to all its values, or gives up."""

    def _concretize(self, memory: Any, addr: Any, **kwargs: Any) -> list[int]:
        del kwargs
        return values_of(memory.state, addr)


def values_of(state: Any, term: Any) -> list[int]:
    """All values that a term can have in a state."""
    values = state.solver.eval_upto(term, MAX_VALUES + 1)
    if len(values) > MAX_VALUES:
        raise NotProvedError(f"an address or length has more than {MAX_VALUES} values")
    return list(values)


class Copy(angr.SimProcedure):  # type: ignore[misc]
    """`memcpy` and `memmove`."""

    def run(self, target: Any, source: Any, length: Any) -> Any:
        count = determined(self.state, length)
        if count:
            self.state.memory.store(target, self.state.memory.load(source, count))
        return target


class Fill(angr.SimProcedure):  # type: ignore[misc]
    """`memset`."""

    def run(self, target: Any, byte: Any, length: Any) -> Any:
        count = determined(self.state, length)
        if count:
            self.state.memory.store(target, claripy.Concat(*[byte[7:0]] * count))
        return target


class Compare(angr.SimProcedure):  # type: ignore[misc]
    """`memcmp` and `bcmp`."""

    def run(self, one: Any, other: Any, length: Any) -> Any:
        result = claripy.BVV(0, 32)
        for at in reversed(range(determined(self.state, length))):
            a, b = self.state.memory.load(one + at, 1), self.state.memory.load(other + at, 1)
            result = claripy.If(a == b, result, claripy.If(a < b, claripy.BVV(-1, 32), claripy.BVV(1, 32)))
        return result


class Allocate(angr.SimProcedure):  # type: ignore[misc]
    """`malloc`: addresses in rising order, without reuse."""

    def run(self, length: Any) -> int:
        return allocate(self.state, determined(self.state, length))


class AllocateZeroed(angr.SimProcedure):  # type: ignore[misc]
    """`calloc`."""

    def run(self, count: Any, length: Any) -> int:
        total = determined(self.state, count) * determined(self.state, length)
        address = allocate(self.state, total)
        if total:
            self.state.memory.store(address, claripy.BVV(0, 8 * total))
        return address


class Reallocate(angr.SimProcedure):  # type: ignore[misc]
    """`realloc`."""

    def run(self, old: Any, length: Any) -> int:
        before, total = determined(self.state, old), determined(self.state, length)
        address = allocate(self.state, total)
        kept = min(self.state.globals["allocated"][before], total)
        if kept:
            self.state.memory.store(address, self.state.memory.load(before, kept))
        return address


class Free(angr.SimProcedure):  # type: ignore[misc]
    """`free`: addresses are not reused, so nothing is to be done."""

    def run(self, address: Any) -> None:
        del address


# Functions of the C library with a model, and the registers with their lengths.
_MODELS: dict[str, tuple[type[angr.SimProcedure], tuple[str, ...]]] = {
    "memcpy": (Copy, ("rdx",)),
    "memmove": (Copy, ("rdx",)),
    "memset": (Fill, ("rdx",)),
    "memcmp": (Compare, ("rdx",)),
    "bcmp": (Compare, ("rdx",)),
    "malloc": (Allocate, ("rdi",)),
    "calloc": (AllocateZeroed, ("rdi", "rsi")),
    "realloc": (Reallocate, ("rdi", "rsi")),
    "free": (Free, ()),
}


def determined(state: Any, term: Any) -> int:
    """The only value of a term; `Search.split` has made it the only one."""
    values = state.solver.eval_upto(term, 2)
    if len(values) != 1:
        raise NotProvedError("a length is not determined")
    return int(values[0])


def allocate(state: Any, length: int) -> int:
    """Reserves memory with undetermined contents."""
    address = int(state.globals["heap"])
    state.globals["heap"] = (address + length + HEAP_GAP + 15) & ~15
    state.globals["allocated"] = {**state.globals["allocated"], address: length}
    return address


class Program:
    """A test program with its theorems."""

    def __init__(self, path: Path) -> None:
        self.project = angr.Project(str(path), auto_load_libs=False, use_sim_procedures=False)
        self.theorems: dict[str, int] = {}
        self.panics: set[int] = set()
        for symbol in self.project.loader.main_object.symbols:
            if symbol.is_function and not symbol.is_import:
                if name := theorem_of(symbol.name):
                    self.theorems[name] = symbol.rebased_addr
                elif _PANIC.search(symbol.name):
                    self.panics.add(symbol.rebased_addr)
        self.lengths: dict[int, tuple[str, ...]] = {}
        for name, (model, registers) in _MODELS.items():
            address = self.project.hook_symbol(name, model(), replace=True)
            if address is not None:
                self.lengths[address] = registers

    def start(self, address: int) -> Any:
        """The state at the entry of a theorem."""
        options = {
            angr.options.SYMBOL_FILL_UNCONSTRAINED_MEMORY,
            angr.options.SYMBOL_FILL_UNCONSTRAINED_REGISTERS,
        }
        state = self.project.factory.call_state(address, INPUT_AT, ret_addr=RETURN_AT, add_options=options)
        state.memory.read_strategies = [AllValues()]
        state.memory.write_strategies = [AllValues()]
        state.globals["heap"] = HEAP_AT
        state.globals["allocated"] = {}
        state.globals["input"] = claripy.BVS("input", 8 * INPUT_BYTES)
        state.memory.store(INPUT_AT, state.globals["input"])
        return state

    def prove(self, name: str) -> Proof:
        """Follows all paths of a theorem, depth first.

        Raises:
            RefutedError: a path reaches a panic.
            NotProvedError: a path cannot be followed.

        """
        proof, states = Proof(), [self.start(self.theorems[name])]
        while states:
            state = states.pop()
            if state.addr == RETURN_AT:
                proof.paths += 1
            else:
                proof.blocks += 1
                states += self.successors(state)
        return proof

    def successors(self, state: Any) -> list[Any]:
        """The states that can follow a state."""
        if state.addr in self.panics:
            raise RefutedError(self.counterexample(state))
        if state.addr in self.lengths:
            parts = split(state, self.lengths[state.addr])
            if len(parts) > 1:
                return parts
        elif self.project.is_hooked(state.addr):
            raise NotProvedError(f"the function {self.project.hooked_by(state.addr).display_name} has no model")
        found = self.project.factory.successors(state)
        if found.unconstrained_successors:
            raise NotProvedError(f"a jump at {state.addr:#x} has too many targets")
        for successor in found.flat_successors:
            if successor.history.jumpkind not in _DIRECT:
                raise NotProvedError(f"{successor.history.jumpkind} at {state.addr:#x}")
        # Without an answer of the solver, angr drops the state before a computed jump. This asks again, and then fails.
        if any(dropped.solver.satisfiable() for dropped in found.unsat_successors):
            raise NotProvedError(f"a jump at {state.addr:#x} has targets without a state")
        return list(found.flat_successors)

    def counterexample(self, state: Any) -> str:
        """The panic of a state, and an input that leads to it."""
        value = state.solver.eval(state.globals["input"], cast_to=bytes)
        symbol = self.project.loader.find_symbol(state.addr)
        return f"{symbol.name if symbol else hex(state.addr)} with input {value.hex()}"


def split(state: Any, registers: tuple[str, ...]) -> list[Any]:
    """One state for each combination of values of the registers."""
    states = [state]
    for register in registers:
        term = getattr(state.regs, register)
        if not term.symbolic:
            continue
        parts = []
        for part in states:
            for value in values_of(part, term):
                parts.append(part.copy())
                parts[-1].add_constraints(term == value)
                setattr(parts[-1].regs, register, value)
        states = parts
    return states


def report(program: Program, name: str, seconds: int, results: Connection[Any, Any]) -> None:
    """Proves a theorem within a limit of processor time, and sends outcome and details. The system ends the process
    after that time: the solver does not always respect a limit.

    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        proof = program.prove(name)
        outcome = "proved" if proof.paths else "not proved"
        detail = f"{proof.paths} paths, {proof.blocks} blocks"
    except RefutedError as error:
        outcome, detail = "refuted", str(error)
    except Exception as error:  # A limit of angr or of the solver limits the proof.
        outcome, detail = "not proved", f"{type(error).__name__}: {error}"
    used = resource.getrusage(resource.RUSAGE_SELF)
    results.send((outcome, f"{used.ru_utime + used.ru_stime:6.1f} s  {detail}"))


def attempt(program: Program, name: str, seconds: int) -> str:
    """Proves a theorem in its own process, prints a line, and returns the outcome."""
    context = multiprocessing.get_context("fork")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=report, args=(program, name, seconds, sender))
    process.start()
    sender.close()
    try:
        outcome, detail = results.recv()
    except EOFError:
        outcome, detail = "not proved", f"no result within {seconds} s of processor time"
    process.join()
    print(f"{outcome:10}  {name:100} {detail}", flush=True)
    return str(outcome)


def built_programs(messages: Iterable[str]) -> list[Path]:
    """The programs that Cargo has built, from its messages in JSON."""
    built = (json.loads(message) for message in messages)
    return [Path(message["executable"]) for message in built if message.get("executable")]


def main() -> int:
    """Proves the theorems and prints a line for each; 1 if an outcome is unexpected."""
    parser = argparse.ArgumentParser(description="Prove the theorems of test programs by symbolic execution.")
    parser.add_argument(
        "programs", nargs="*", type=Path, metavar="PROGRAM", help="default: those that Cargo's messages name"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="prove theorems whose name contains WORD")
    parser.add_argument("--count", type=int, metavar="N", help="fail unless the programs contain N theorems")
    parser.add_argument("--seconds", type=int, default=300, help="limit of processor time for each theorem")
    arguments = parser.parse_args()
    for name in ("angr", "cle", "pyvex", "claripy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    counts = {"proved": 0, "refuted": 0, "not proved": 0}
    unexpected = found = 0
    for path in arguments.programs or built_programs(sys.stdin):
        program = Program(path)
        found += len(program.theorems)
        for name in sorted(name for name in program.theorems if arguments.only in name):
            outcome = attempt(program, name, arguments.seconds)
            counts[outcome] += 1
            unexpected += outcome != ("refuted" if _FALSE in name else "proved")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + f"; {unexpected} unexpected")
    if arguments.count not in {None, found}:
        print(f"the sources have {arguments.count} theorems, but the programs {found}")
        return 1
    return 0 if sum(counts.values()) > unexpected == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
