"""Functions, classes and constants of Python as text of JavaScript."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from expressions import Expressions, UnsupportedError, local, stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OWN_SCOPE = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.ClassDef)


class Statements:
    """Translates the definitions of one module.

    Args:
        expressions: Translates the expressions of the module.

    """

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._value = expressions.value

    def definition(self, name: str, node: ast.stmt) -> str:
        """The text of a definition at the top level under another name."""
        match node:
            case ast.FunctionDef():
                return self._function(name, node)
            case ast.ClassDef():
                return self._class(name, node)
            case ast.Assign(value=value):
                return f"const {name} = {self._value(value)};\n"
            case ast.AnnAssign(value=ast.expr() as value):
                return f"const {name} = {self._value(value)};\n"
        raise UnsupportedError(node)

    def _function(self, name: str, node: ast.FunctionDef) -> str:
        text = f"function{self._star(node)} {name}({self._parameters(node)}) {{\n{self._body(node)}}}\n"
        for each in map(_decorator, node.decorator_list):
            if each not in ("lru_cache", "cache"):
                raise UnsupportedError(node, f"the decorator {each} has no translation")
            text = f"const {name} = $.memo({text.rstrip()});\n"
        return text + f"{name}.names = {_names(_arguments(node))};\n"

    def _star(self, node: ast.FunctionDef) -> str:
        yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _own(node.body))
        return "*" if yields else ""

    def _parameters(self, node: ast.FunctionDef, skip: int = 0) -> str:
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
            raise UnsupportedError(node, "only parameters with names have a translation")
        defaults: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
        defaults += arguments.defaults
        defaults += arguments.kw_defaults
        both = zip([*arguments.args, *arguments.kwonlyargs], defaults, strict=True)
        return ", ".join(
            local(each.arg) if default is None else f"{local(each.arg)} = {self._value(default)}"
            for each, default in list(both)[skip:]
        )

    def _body(self, node: ast.FunctionDef, bound: str = "") -> str:
        """The statements of a function; in a method, `bound` is the name of its first parameter."""
        parameters = set(_arguments(node)) | ({bound} if bound else set())
        assigned = _assigned(node.body) - parameters
        with self._expressions.within(parameters | assigned):
            text = f"const {bound} = this;\n" if bound else ""
            text += f"let {', '.join(sorted(map(local, assigned)))};\n" if assigned else ""
            return text + self._block(node.body)

    def _block(self, statements: Sequence[ast.stmt]) -> str:
        return "".join(map(self._statement, statements))

    def _statement(self, node: ast.stmt) -> str:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None or isinstance(node, ast.FunctionDef | ast.ClassDef):
            raise UnsupportedError(node)
        return str(method(node))

    def _pass(self, _: ast.stmt) -> str:
        return ""

    _import = _importfrom = _pass

    def _expr(self, node: ast.Expr) -> str:
        return "" if isinstance(node.value, ast.Constant) else f"{self._value(node.value)};\n"

    def _return(self, node: ast.Return) -> str:
        return f"return {self._value(node.value) if node.value else 'null'};\n"

    def _continue(self, _: ast.Continue) -> str:
        return "continue;\n"

    def _break(self, _: ast.Break) -> str:
        return "break;\n"

    def _raise(self, node: ast.Raise) -> str:
        if not isinstance(node.exc, ast.Call) or node.exc.keywords:
            raise UnsupportedError(node, "only a new error can be raised")
        arguments = ", ".join(map(self._value, node.exc.args))
        return f"throw new {self._value(node.exc.func)}({arguments});\n"

    def _if(self, node: ast.If) -> str:
        rest = f" else {{\n{self._block(node.orelse)}}}" if node.orelse else ""
        return f"if ({self._expressions.condition(node.test)}) {{\n{self._block(node.body)}}}{rest}\n"

    def _while(self, node: ast.While) -> str:
        if node.orelse:
            raise UnsupportedError(node, "a loop with else has no translation")
        return f"while ({self._expressions.condition(node.test)}) {{\n{self._block(node.body)}}}\n"

    def _for(self, node: ast.For) -> str:
        if node.orelse:
            raise UnsupportedError(node, "a loop with else has no translation")
        head = f"{self._expressions.target(node.target)} of $.iter({self._value(node.iter)})"
        return f"for ({head}) {{\n{self._block(node.body)}}}\n"

    def _assign(self, node: ast.Assign) -> str:
        return self._assignment(node.targets, self._value(node.value))

    def _annassign(self, node: ast.AnnAssign) -> str:
        return self._assignment([node.target], self._value(node.value)) if node.value else ""

    def _augassign(self, node: ast.AugAssign) -> str:
        changed = ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node)
        return self._assignment([node.target], self._value(changed))

    def _with(self, node: ast.With) -> str:
        match node.items:
            case [ast.withitem(context_expr=context, optional_vars=ast.Name(id=name))]:
                opened = f"{local(name)} = {self._value(context)};\n"
                return f"{opened}try {{\n{self._block(node.body)}}} finally {{ {local(name)}.close(); }}\n"
        raise UnsupportedError(node)

    def _try(self, node: ast.Try) -> str:
        match node.handlers:
            case [ast.ExceptHandler(type=ast.expr() as kind, name=None, body=body)] if not node.orelse + node.finalbody:
                rest = f"if (!(error instanceof {self._value(kind)})) throw error;\n{self._block(body)}"
                return f"try {{\n{self._block(node.body)}}} catch (error) {{\n{rest}}}\n"
        raise UnsupportedError(node)

    def _assignment(self, targets: Sequence[ast.expr], value: str) -> str:
        for target in reversed(targets):
            value = self._assigned_to(target, value)
        return f"{value};\n"

    def _assigned_to(self, target: ast.expr, value: str) -> str:
        match target:
            case ast.Subscript(value=container, slice=key):
                return f"$.put({self._value(container)}, {self._value(key)}, {value})"
            case ast.Attribute(value=owner, attr=name):
                return f"{self._value(owner)}.{name} = {value}"
            case ast.Tuple():
                return f"{self._expressions.target(target)} = [...$.iter({value})]"
        return f"{self._expressions.target(target)} = {value}"

    def _class(self, name: str, node: ast.ClassDef) -> str:
        if node.bases:
            raise UnsupportedError(node, "a class with a base has no translation")
        decorators = list(map(_decorator, node.decorator_list))
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        text = self._record(fields) if "dataclass" in decorators else ""
        text += "".join(map(self._method, methods))
        init = next((each for each in methods if each.name == "__init__"), None)
        names = _arguments(init)[1:] if init else list(map(_name, fields))
        return f"class {name} {{\n{text}}}\n{name}.names = {_names(names)};\n{self._names_of(name, methods)}"

    def _names_of(self, name: str, methods: Sequence[ast.FunctionDef]) -> str:
        """The parameters of methods, for calls with names."""
        text = ""
        for each in methods:
            decorators = set(map(_decorator, each.decorator_list))
            if each.name != "__init__" and not decorators & {"property", "cached_property"}:
                owner = name if "classmethod" in decorators else f"{name}.prototype"
                text += f"{owner}.{each.name}.names = {_names(_arguments(each)[1:])};\n"
        return text

    def _record(self, fields: Sequence[ast.AnnAssign]) -> str:
        """The constructor of a data class."""
        parameters, body = [], ""
        for each in fields:
            name = _name(each)
            default = _default(each.value)
            parameters.append(local(name) if default is None else f"{local(name)} = {self._value(default)}")
            body += f"this.{name} = {local(name)};\n"
        return f"constructor({', '.join(parameters)}) {{\n{body}}}\n"

    def _method(self, node: ast.FunctionDef) -> str:
        decorators = list(map(_decorator, node.decorator_list))
        parameters = self._parameters(node, 1)
        bound = node.args.args[0].arg
        body = self._body(node, bound)
        if node.name == "__init__":
            return f"constructor({parameters}) {{\n{body}}}\n"
        match decorators:
            case []:
                return f"{self._star(node)}{node.name}({parameters}) {{\n{body}}}\n"
            case ["property"]:
                return f"get {node.name}() {{\n{body}}}\n"
            case ["cached_property"]:
                return f'get {node.name}() {{ return $.once(this, "{node.name}", () => {{\n{body}}}); }}\n'
            case ["classmethod"]:
                return f"static {node.name}({parameters}) {{\n{body}}}\n"
        raise UnsupportedError(node, f"the decorators {decorators} have no translation")


def _name(field: ast.AnnAssign) -> str:
    if not isinstance(field.target, ast.Name):
        raise UnsupportedError(field)
    return field.target.id


def _default(node: ast.expr | None) -> ast.expr | None:
    """The default of a field, also that of `field(default=…)` and `field(default_factory=…)`."""
    match node:
        case ast.Call(func=ast.Name(id="field"), keywords=[ast.keyword(arg="default", value=value)]):
            return value
        case ast.Call(func=ast.Name(id="field"), keywords=[ast.keyword(arg="default_factory", value=value)]):
            return ast.copy_location(ast.Call(value, [], []), node)
    return node


def _decorator(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return name
    raise UnsupportedError(node)


def _arguments(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def _names(names: Sequence[str]) -> str:
    return str(list(names)).replace("'", '"')


def _loaded(target: ast.expr) -> ast.expr:
    """A target of an assignment as a value."""
    return ast.parse(ast.unparse(target), mode="eval").body


def _own(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All parts of statements, except the inner parts of functions and comprehensions."""
    for each in statements:
        yield each
        if not isinstance(each, _OWN_SCOPE):
            yield from _own(list(ast.iter_child_nodes(each)))


def _assigned(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that a function assigns to."""
    return {name for each in _own(statements) if isinstance(each, ast.Name) for name in stored(each)} | {
        each.target.id
        for statement in statements
        for each in ast.walk(statement)
        if isinstance(each, ast.NamedExpr) and isinstance(each.target, ast.Name)
    }
