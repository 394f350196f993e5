"""Counts constructions that make prose hard to read, and fails where a folder has more than its limit.

The rules are those of docs/style.md. Text is taken from comments, string literals, test names and constants of the
sources, from Markdown, and from the descriptions in JSON schemas. Code spans, quotations and questions do not count.

    python tests/prose/lint.py              # compare each folder with limits.toml
    python tests/prose/lint.py --show docs  # list the hits of one folder or file
    python tests/prose/lint.py --update     # lower the limits to the present counts; a limit is never raised
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
LIMITS = Path(__file__).with_name("limits.toml")
EXCEPTIONS = Path(__file__).with_name("exceptions.toml")
MAX_EXCEPTIONS = 40
MAX_TEST_NAME = 50

RULES = {
    "free relative clause as a subject": re.compile(
        r"(?:^|(?<=[.;:!?] )|(?<=, and ))(?:Who|What|Whoever|Whatever|Whose|who|what|whoever|whatever)\b"
    ),
    "free relative clause as an object": re.compile(
        r"\b(?:of|for|to|by|with|in|on|from|than|as|that|and|beside|behind|before)"
        r" (?:what|who|whom|whoever|whatever|whose)\b"
    ),
    "person for a program": re.compile(r"\b(?:nobody|somebody|everybody|anybody|whoever)\b", re.IGNORECASE),
    "archaism": re.compile(
        r"\b(?:anew|in vain|for ever|beside(?! the)|hence|thereby|of its own|comes? of|came of|word of|leave to"
        r"|is to be had)\b"
    ),
    "vague quantity": re.compile(r"\bso (?:much|many|long|often|far|large)\b(?! (?:that|as))"),
    "speech of data": re.compile(r"\b(?:tells?|told|is said|was said|says so|said so|a word)\b"),
}
CONSTANT = re.compile(
    r"^[ \t]*(?:pub(?:\([^)]*\))? )?(?:const|static) "
    r"(LONGEST|MOST|PATIENCE|AT_ONCE|EVERY|ROOM|OFTEN|SHORT|GLANCE|COMPANY)\b",
    re.MULTILINE,
)
SKIPPED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|\[[^\]]*\]\([^)]*\)|<[^>]*>")
QUESTION = re.compile(r"[^.!?:;]*\?")

RUST_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\bb?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\\n])'",
    re.DOTALL,
)
RUST_TEST = re.compile(r"#\[(?:tokio::)?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)")
PYTHON_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """A stretch of prose: a paragraph of comments, a literal or a name."""

    line: int
    text: str


@dataclass(frozen=True)
class Hit:
    """One breach of a rule."""

    path: str
    line: int
    rule: str
    excerpt: str


def paragraphs(lines: list[tuple[int, str]]) -> Iterator[Piece]:
    """Joins comments of successive lines; an empty comment ends a paragraph."""
    for _, group in groupby(enumerate(lines), lambda item: item[1][0] - item[0]):
        run: list[tuple[int, str]] = []
        for _, (line, text) in group:
            if text:
                run.append((line, text))
            elif run:
                yield Piece(run[0][0], " ".join(part for _, part in run))
                run = []
        if run:
            yield Piece(run[0][0], " ".join(part for _, part in run))


def has_words(text: str) -> bool:
    """Whether a literal is prose rather than a key, a path or a format."""
    return len(re.findall(r"[A-Za-z]{2,}", text)) > 1 and " " in text.strip()


def from_c_like(source: str) -> Iterator[Piece]:
    """Comments, literals and test names of Rust or C."""
    comments: list[tuple[int, str]] = []
    for match in RUST_TOKEN.finditer(source):
        token, line = match.group(), source.count("\n", 0, match.start()) + 1
        if token.startswith("//"):
            comments.append((line, re.sub(r"^//[/!]?\s?", "", token).strip()))
        elif token.startswith("/*"):
            body = re.sub(r"^\s*\*\s?", "", token[2:-2], flags=re.MULTILINE)
            comments += [(line + at, text.strip()) for at, text in enumerate(body.split("\n"))]
        elif not token.startswith("'"):
            text = re.sub(r"\\\n\s*|\s+", " ", token.lstrip("br#").strip('"#'))
            if has_words(text):
                yield Piece(line, text)
    yield from paragraphs(comments)
    for match in RUST_TEST.finditer(source):
        yield Piece(source.count("\n", 0, match.start(1)) + 1, match.group(1).replace("_", " "))


def from_python(source: str) -> Iterator[Piece]:
    """Docstrings, comments, literals and test names of Python."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and has_words(node.value):
            for part in re.split(r"\n\s*\n", node.value):
                yield Piece(node.lineno, " ".join(part.split()))
    comments = [
        (token.start[0], token.string.lstrip("# ").strip())
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from paragraphs(comments)
    for match in PYTHON_TEST.finditer(source):
        name = match.group(1).removeprefix("test_").replace("_", " ")
        yield Piece(source.count("\n", 0, match.start(1)) + 1, name)


def from_markdown(source: str) -> Iterator[Piece]:
    """Paragraphs of Markdown without code and tables."""
    blank = re.sub(
        r"```.*?```|^\|[^\n]*$", lambda m: "\n" * m.group().count("\n"), source, flags=re.DOTALL | re.MULTILINE
    )
    line = 1
    for part in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) ))", blank):
        if part.strip():
            yield Piece(line, " ".join(part.replace("#", " ").lstrip("-*> ").split()))
        line += part.count("\n")


def from_hash_comments(source: str) -> Iterator[Piece]:
    """Comments of shell, make and TOML files, and the texts of TOML files."""
    comments = []
    for at, line in enumerate(source.split("\n"), 1):
        comment = re.search(r"(?:^|\s)#(?!!)\s?(.*)$", line)
        if comment and line[: comment.start()].count('"') % 2 == 0:
            comments.append((at, comment.group(1).strip()))
    yield from paragraphs(comments)
    for match in re.finditer(r'=\s*"((?:\\.|[^"\\\n])*)"', source):
        if has_words(match.group(1)):
            yield Piece(source.count("\n", 0, match.start()) + 1, match.group(1))


def from_schema(source: str) -> Iterator[Piece]:
    """The descriptions of a JSON schema."""

    def walk(value: object) -> Iterator[Piece]:
        if isinstance(value, dict):
            for key, part in value.items():
                if key == "description" and isinstance(part, str):
                    yield Piece(1, part)
                else:
                    yield from walk(part)
        elif isinstance(value, list):
            for part in value:
                yield from walk(part)

    yield from walk(json.loads(source))


READERS: dict[str, Callable[[str], Iterator[Piece]]] = {
    ".rs": from_c_like,
    ".c": from_c_like,
    ".h": from_c_like,
    ".py": from_python,
    ".md": from_markdown,
    ".toml": from_hash_comments,
    ".sh": from_hash_comments,
    "Makefile": from_hash_comments,
    ".schema.json": from_schema,
}


def reader_of(path: str) -> Callable[[str], Iterator[Piece]] | None:
    """The reader for a path; `None` for files without prose."""
    return next((reader for ending, reader in READERS.items() if path.endswith(ending)), None)


def prose(text: str) -> str:
    """The text without code spans, quotations, links' targets and questions."""
    return QUESTION.sub(" ", SKIPPED.sub(" ", text)).strip()


def hits_of(path: str, source: str) -> tuple[list[Hit], int]:
    """The hits of one file and the number of its words."""
    reader = reader_of(path)
    found, words = [], 0
    for piece in reader(source) if reader else ():
        text = prose(piece.text)
        words += len(text.split())
        for rule, pattern in RULES.items():
            for match in pattern.finditer(text):
                excerpt = text[max(match.start() - 30, 0) : match.end() + 50]
                found.append(Hit(path, piece.line, rule, excerpt))
    return found + hits_of_names(path, source), words


def hits_of_names(path: str, source: str) -> list[Hit]:
    """Test names that are too long, and constants that name no quantity."""

    def hits(pattern: re.Pattern[str], rule: str, longest: int) -> list[Hit]:
        return [
            Hit(path, source.count("\n", 0, match.start(1)) + 1, rule, match.group(1))
            for match in pattern.finditer(source)
            if len(match.group(1).removeprefix("test_")) > longest
        ]

    if path.endswith(".rs"):
        return hits(RUST_TEST, "long test name", MAX_TEST_NAME) + hits(CONSTANT, "constant without noun and unit", 0)
    return hits(PYTHON_TEST, "long test name", MAX_TEST_NAME) if path.endswith(".py") else []


def folder_of(path: str) -> str:
    """The folder whose limit counts for a file: `crates/x`, `apps/x`, another top folder, or `.`."""
    parts = path.split("/")
    if len(parts) == 1:
        return "."
    return "/".join(parts[:2]) if parts[0] in {"crates", "apps"} else parts[0]


def exceptions() -> list[dict[str, str]]:
    """The accepted hits, each with file, excerpt and reason."""
    found: list[dict[str, str]] = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")).get("exception", [])
    if len(found) > MAX_EXCEPTIONS:
        raise SystemExit(f"{EXCEPTIONS.name}: {len(found)} exceptions; at most {MAX_EXCEPTIONS} are allowed")
    for entry in found:
        if not entry.get("reason"):
            raise SystemExit(f"{EXCEPTIONS.name}: the exception for {entry.get('file')} has no reason")
    return found


def scan(root: Path) -> tuple[list[Hit], Counter[str]]:
    """All hits in the files under version control, and the number of words of each folder."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout
    allowed = exceptions()
    hits: list[Hit] = []
    words: Counter[str] = Counter()
    for path in listed.splitlines():
        file = root / path
        if reader_of(path) is None or file.is_symlink() or not file.is_file():
            continue
        # The lint's own patterns and the page of rules contain the forbidden words.
        if path.startswith("tests/prose/") or path == "docs/style.md":
            continue
        found, count = hits_of(path, file.read_text(encoding="utf-8"))
        words[folder_of(path)] += count
        hits += [
            hit for hit in found
            if not any(entry["file"] == hit.path and entry["excerpt"] in hit.excerpt for entry in allowed)
        ]  # fmt: skip
    return hits, words


def compare(counts: Counter[str], limits: dict[str, int]) -> list[str]:
    """The folders that have more hits than their limit allows."""
    return [
        f"{folder}: {count} hits, at most {limits.get(folder, 0)} allowed;"
        f" list them: python tests/prose/lint.py --show {folder}"
        for folder, count in sorted(counts.items())
        if count > limits.get(folder, 0)
    ]


def update(counts: Counter[str], limits: dict[str, int], folders: list[str]) -> None:
    """Writes the present counts as limits where they are lower."""
    new = {folder: min(counts[folder], limits.get(folder, counts[folder])) for folder in folders}
    lines = ["# Hits of the prose lint that each folder may have. `--update` lowers a limit; nothing raises one."]
    lines += [f'"{folder}" = {count}' for folder, count in sorted(new.items())]
    LIMITS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Runs the lint; 1 if a folder has too many hits."""
    parser = argparse.ArgumentParser(description="Count constructions that make prose hard to read.")
    parser.add_argument("--show", metavar="PATH", help="list the hits of a folder or file")
    parser.add_argument("--update", action="store_true", help="lower the limits to the present counts")
    options = parser.parse_args()
    hits, words = scan(ROOT)
    if options.show:
        for hit in hits:
            if options.show in {hit.path, folder_of(hit.path)} or hit.path.startswith(options.show.rstrip("/") + "/"):
                print(f"{hit.path}:{hit.line}: {hit.rule}: {hit.excerpt}")
        return 0
    counts = Counter(folder_of(hit.path) for hit in hits)
    limits: dict[str, int] = tomllib.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}
    if options.update:
        update(counts, limits, sorted(words))
        return 0
    total = sum(words.values())
    print(f"prose: {len(hits)} hits in {total:,} words, {1000 * len(hits) / max(total, 1):.1f} per 1,000")
    complaints = compare(counts, limits)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
