"""Expressions of Python as expressions of JavaScript, which call the functions of `src/explain/python.ts` as `$`."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sources import Target

_RESERVED = frozenset({
    "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
    "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements",
    "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public",
    "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while", "with",
    "yield",
})  # fmt: skip
_BUILTINS = frozenset({
    "abs", "all", "any", "bool", "dict", "enumerate", "filter", "float", "frozenset", "getattr", "hasattr", "int",
    "isinstance", "iter", "len", "list", "map", "max", "min", "next", "range", "repr", "reversed", "round", "set",
    "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip
_TYPES = frozenset({"bool", "dict", "float", "int", "list", "str", "tuple"})
_SPECIAL_CALLS = frozenset({"cast", "enumerate", "isinstance", "max", "min", "replace", "sorted", "zip"})
_NUMERIC = {ast.Div: "/", ast.Mod: "%", ast.Pow: "**"}
_GENERIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "both", ast.BitOr: "either"}
_ORDERS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}


class UnsupportedError(Exception):
    """Python that the translation does not know, with its line."""

    def __init__(self, node: ast.AST, what: str = "") -> None:
        self.line = getattr(node, "lineno", 0)
        super().__init__(what or f"{type(node).__name__} has no translation")


class Expressions:
    """Translates the expressions of one module.

    Args:
        resolve: Meaning of a name at the module's top level; `None` for one that it does not have.
        use: Takes a definition of the package that the text needs, and returns its name in the text.
        is_class: Whether a definition is a class.

    """

    def __init__(
        self,
        resolve: Callable[[str], Target | None],
        use: Callable[[Target], str],
        is_class: Callable[[Target], bool],
    ) -> None:
        self._resolve = resolve
        self._use = use
        self._is_class = is_class
        self._scopes: list[set[str]] = []

    def within(self, names: set[str]) -> _Scope:
        """A context in which names are local."""
        return _Scope(self._scopes, names)

    def value(self, node: ast.expr) -> str:
        """The text of an expression."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnsupportedError(node)
        return str(method(node))

    def condition(self, node: ast.expr) -> str:
        """The text of an expression of which only the truth matters."""
        match node:
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return f"({sign.join(map(self.condition, values))})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!{self.condition(operand)}"
            case ast.Compare():
                return self.value(node)
        return f"$.truth({self.value(node)})"

    def target(self, node: ast.expr) -> str:
        """The text of a target of an assignment to names."""
        match node:
            case ast.Name(id=name):
                return local(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return f"[{', '.join(map(self.target, parts))}]"
            case ast.Starred(value=value):
                return f"...{self.target(value)}"
        raise UnsupportedError(node)

    def _constant(self, node: ast.Constant) -> str:
        if node.value is None:
            return "null"
        if isinstance(node.value, bool | str):
            return json.dumps(node.value, ensure_ascii=False)
        if isinstance(node.value, int | float):
            return repr(node.value)
        raise UnsupportedError(node)

    def _name(self, node: ast.Name) -> str:
        if self._is_local(node.id):
            return local(node.id)
        target = self._resolve(node.id)
        if target is None:
            if node.id in _BUILTINS:
                return f"$.{node.id}"
            raise UnsupportedError(node, f"{node.id} is unknown")
        if target.kind == "definition":
            return self._use(target)
        return f"$.{target.name}"

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _module(self, node: ast.expr) -> Target | None:
        """The module that a name refers to; `None` for anything else."""
        if not isinstance(node, ast.Name) or self._is_local(node.id):
            return None
        target = self._resolve(node.id)
        return target if target is not None and target.kind == "module" else None

    def _attribute(self, node: ast.Attribute) -> str:
        module = self._module(node.value)
        if module is None:
            return f"$.get({self.value(node.value)}, {json.dumps(node.attr)})"
        return self._member(module, node.attr)

    def _member(self, module: Target, name: str) -> str:
        from sources import PACKAGE, Target

        if module.name or module.module.split(".")[0] != PACKAGE:
            return f"$.{module.module}.{name}"
        return self._use(Target("definition", module.module, name))

    def _call(self, node: ast.Call) -> str:
        match node.func:
            case ast.Name(id=name) if self._is_special(name):
                return self._special(name, node)
            case ast.Attribute(value=ast.Name(id="dict"), attr="fromkeys"):
                return f"$.fromkeys({', '.join(self._arguments(node.args))})"
            case ast.Attribute(value=value, attr=name) if self._module(value) is None:
                return self._method(node, self.value(value), name)
        function = named = self.value(node.func)
        if self._constructs(node.func):
            function = f"(...all) => new {named}(...all)" if node.keywords else f"new {named}"
        if not node.keywords:
            return f"{function}({', '.join(self._arguments(node.args))})"
        return f"$.named({named}, {function}, [{', '.join(self._arguments(node.args))}], {self._options(node)})"

    def _is_special(self, name: str) -> bool:
        target = self._resolve(name)
        is_own = self._is_local(name) or (target is not None and target.kind != "library")
        return name in _SPECIAL_CALLS and not is_own

    def _special(self, name: str, node: ast.Call) -> str:
        """A call of a function that needs more than its arguments in their order."""
        arguments = self._arguments(node.args)
        if name == "cast":
            return arguments[1]
        if name == "isinstance":
            return f"$.isinstance({arguments[0]}, {self._types(node.args[1])})"
        if name == "replace":
            return f"$.replace({arguments[0]}, {self._options(node)})"
        if name in ("zip", "enumerate"):
            # Lengths are equal wherever `strict` demands it.
            return f"$.{name}({', '.join(arguments)})"
        return f"$.{name}({', '.join([self._options(node), *arguments])})"

    def _constructs(self, function: ast.expr) -> bool:
        if not isinstance(function, ast.Name):
            return False
        if self._is_local(function.id):
            return function.id == "cls"
        target = self._resolve(function.id)
        return target is not None and target.kind == "definition" and self._is_class(target)

    def _method(self, node: ast.Call, receiver: str, name: str) -> str:
        arguments = f"[{', '.join(self._arguments(node.args))}]"
        options = f", {self._options(node)}" if node.keywords else ""
        return f"$.call({receiver}, {json.dumps(name)}, {arguments}{options})"

    def _arguments(self, nodes: Sequence[ast.expr]) -> list[str]:
        return [
            f"...$.iter({self.value(node.value)})" if isinstance(node, ast.Starred) else self.value(node)
            for node in nodes
        ]

    def _options(self, node: ast.Call) -> str:
        if any(each.arg is None for each in node.keywords):
            raise UnsupportedError(node, "** in a call has no translation")
        return f"{{ {', '.join(f'{each.arg}: {self.value(each.value)}' for each in node.keywords)} }}"

    def _types(self, node: ast.expr) -> str:
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return f"[...{self._types(left)}, ...{self._types(right)}]"
            case ast.Name(id=name) if name in _TYPES:
                return f'["{name}"]'
        raise UnsupportedError(node, "only built-in types can be tested")

    def _boolop(self, node: ast.BoolOp) -> str:
        name = "and" if isinstance(node.op, ast.And) else "or"
        first, *others = map(self.value, node.values)
        return f"$.{name}_({first}{''.join(f', () => {each}' for each in others)})"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        if isinstance(node.op, ast.USub):
            return f"-({self.value(node.operand)})"
        raise UnsupportedError(node)

    def _binop(self, node: ast.BinOp) -> str:
        left, right = self.value(node.left), self.value(node.right)
        if type(node.op) in _GENERIC:
            return f"$.{_GENERIC[type(node.op)]}({left}, {right})"
        if type(node.op) in _NUMERIC:
            return f"(({left}) {_NUMERIC[type(node.op)]} ({right}))"
        raise UnsupportedError(node)

    def _compare(self, node: ast.Compare) -> str:
        parts = [node.left, *node.comparators]
        tests = [self._test(op, parts[at], parts[at + 1]) for at, op in enumerate(node.ops)]
        return f"({' && '.join(tests)})"

    def _test(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> str:
        first, second = self.value(left), self.value(right)
        if isinstance(op, ast.Is | ast.IsNot):
            # A missing value is null or undefined.
            strict = "" if isinstance(right, ast.Constant) and right.value is None else "="
            return f"{first} {'=' if isinstance(op, ast.Is) else '!'}={strict} {second}"
        if isinstance(op, ast.Eq | ast.NotEq):
            return f"{'' if isinstance(op, ast.Eq) else '!'}$.eq({first}, {second})"
        if isinstance(op, ast.In | ast.NotIn):
            return f"{'' if isinstance(op, ast.In) else '!'}$.has({second}, {first})"
        return f"$.{_ORDERS[type(op)]}({first}, {second})"

    def _ifexp(self, node: ast.IfExp) -> str:
        return f"({self.condition(node.test)} ? {self.value(node.body)} : {self.value(node.orelse)})"

    def _namedexpr(self, node: ast.NamedExpr) -> str:
        return f"({self.target(node.target)} = {self.value(node.value)})"

    def _lambda(self, node: ast.Lambda) -> str:
        names = [each.arg for each in node.args.args]
        with self.within(set(names)):
            return f"(({', '.join(map(local, names))}) => {self.value(node.body)})"

    def _tuple(self, node: ast.Tuple | ast.List) -> str:
        return f"[{', '.join(self._arguments(node.elts))}]"

    _list = _tuple

    def _set(self, node: ast.Set) -> str:
        return f"$.set([{', '.join(self._arguments(node.elts))}])"

    def _dict(self, node: ast.Dict) -> str:
        entries = [
            f"...$.items({self.value(value)})" if key is None else f"[{self.value(key)}, {self.value(value)}]"
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return f"$.dict([{', '.join(entries)}])"

    def _subscript(self, node: ast.Subscript) -> str:
        value = self.value(node.value)
        if not isinstance(node.slice, ast.Slice):
            return f"$.at({value}, {self.value(node.slice)})"
        if node.slice.step is not None:
            raise UnsupportedError(node, "a slice with a step has no translation")
        ends = ["null" if end is None else self.value(end) for end in (node.slice.lower, node.slice.upper)]
        return f"$.slice({value}, {', '.join(ends)})"

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        return f"({' + '.join(map(self._part, node.values)) or json.dumps('')})"

    def _part(self, node: ast.expr) -> str:
        match node:
            case ast.Constant():
                return self.value(node)
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return f"$.str({self.value(value)})"
            case ast.FormattedValue(value=value, conversion=-1, format_spec=ast.JoinedStr() as spec):
                return f"$.format({self.value(value)}, {self._joinedstr(spec)})"
            case ast.FormattedValue(value=value, conversion=114, format_spec=None):
                return f"$.repr({self.value(value)})"
        raise UnsupportedError(node)

    def _generatorexp(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> str:
        return self._generator(node.generators, lambda: self.value(node.elt))

    def _listcomp(self, node: ast.ListComp) -> str:
        return f"[...{self._generatorexp(node)}]"

    def _setcomp(self, node: ast.SetComp) -> str:
        return f"$.set({self._generatorexp(node)})"

    def _dictcomp(self, node: ast.DictComp) -> str:
        entry = lambda: f"[{self.value(node.key)}, {self.value(node.value)}]"  # noqa: E731
        return f"$.dict({self._generator(node.generators, entry)})"

    def _generator(self, loops: Sequence[ast.comprehension], element: Callable[[], str]) -> str:
        # The first iterable is evaluated at once and outside, as in Python.
        first = self.value(loops[0].iter)
        with self.within({name for loop in loops for name in stored(loop.target)}):
            text = ""
            for number, loop in enumerate(loops):
                values = "first" if number == 0 else f"$.iter({self.value(loop.iter)})"
                text += f"for (const {self.target(loop.target)} of {values}) "
                text += "".join(f"if ({self.condition(test)}) " for test in loop.ifs)
            return f"(function* (first) {{ {text}yield {element()}; }})($.iter({first}))"

    def _yield(self, node: ast.Yield) -> str:
        return f"yield {self.value(node.value) if node.value else 'null'}"

    def _yieldfrom(self, node: ast.YieldFrom) -> str:
        return f"yield* $.iter({self.value(node.value)})"


class _Scope:
    """Names that are local within a `with` block."""

    def __init__(self, scopes: list[set[str]], names: set[str]) -> None:
        self._scopes = scopes
        self._names = names

    def __enter__(self) -> None:
        self._scopes.append(self._names)

    def __exit__(self, *_: object) -> None:
        self._scopes.pop()


def local(name: str) -> str:
    """A local name that JavaScript accepts."""
    return f"{name}_" if name in _RESERVED or name in ("first", "all") else name


def stored(node: ast.AST) -> set[str]:
    """Names that a target assigns to."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
