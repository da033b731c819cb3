"""Find the regular expressions of the code base, and make texts that are slow to search with them.

The source is read, not imported: the agent's modules import packages that are not installed here.
"""

import ast
import html
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "webprofile", "accounts", "workers", "tasks", "profiles")
ENGINES = ("re", "re2")
#: methods of a compiled pattern, as one that stands for those which work in the same way
METHODS = {
    "search": "search",
    "match": "match",
    "fullmatch": "fullmatch",
    "findall": "findall",
    "finditer": "findall",
    "sub": "findall",
    "subn": "findall",
    "split": "findall",
}
#: classes and functions of libraries that search with a pattern: the engine and how they search
LIBRARIES = {
    "RegexValidator": ("re", "search"),
    "RegexField": ("re", "search"),
    "re_path": ("re", "search"),
}
#: a pattern as a keyword: pydantic's engine, `Option` of our own protocol, the schema of the API
KEYWORDS = {
    "Field": ("pydantic", "search"),
    "StringConstraints": ("pydantic", "search"),
    "Option": ("re", "fullmatch"),
    "OpenApiParameter": ("re", "search"),
}
#: in each file with a pattern; to parse the others takes seconds
_HINT = re.compile(rf"\b(?:{'|'.join([*ENGINES, *LIBRARIES])}|pattern|regex|lookup_value_regex)\b")
#: in HTML
_ATTRIBUTE = re.compile(r"""\spattern\s*=\s*(["'])(.*?)\1""", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """A regular expression in the source.

    place: file and line
    engine: `re`, `re2`, or `pydantic`
    """

    place: str
    engine: str
    pattern: str | bytes
    flags: int
    methods: frozenset[str]


class Unknown(Exception):
    """A pattern whose value the source alone does not give."""


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "tests" not in path.parts and path.name != "conftest.py":
                yield path


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


class _Names(dict[str, Any]):
    """Values of the names of a module, evaluated from its source when they are needed."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__()
        self._tree = tree

    def __missing__(self, name: str) -> Any:
        for node in self._tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                    return self.setdefault(name, self.value(node.value))
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr()) if target == name:
                    return self.setdefault(name, self.value(node.value))
                case ast.Import(names=aliases):
                    for alias in aliases:
                        if (alias.asname or alias.name) == name:
                            return importlib.import_module(alias.name)
                case ast.ImportFrom(module=str(module), names=aliases):
                    for alias in aliases:
                        if (alias.asname or alias.name) == name:
                            return self.setdefault(name, _imported(module, alias.name))
        raise KeyError(name)

    def value(self, node: ast.expr) -> Any:
        """Evaluate an expression of the module."""
        code = compile(ast.Expression(node), "pattern", "eval")
        return eval(code, {}, self)


def _imported(module: str, name: str) -> Any:
    path = ROOT / module.replace(".", "/")
    for source in (path.with_suffix(".py"), path / "__init__.py"):
        if module.split(".")[0] in PACKAGES and source.is_file():
            return _Names(_tree(source))[name]
    return getattr(importlib.import_module(module), name)


def find_patterns(examples: Mapping[tuple[str, str], Iterable[str]]) -> list[Found]:
    """Return all regular expressions in the source.

    examples: for patterns that are computed from values: (file, variable) -> patterns

    Raises Unknown if a pattern is computed and has no example.
    """
    found = list[Found]()
    for path in sources():
        if _HINT.search(_text(path)):
            found += patterns_in(str(path.relative_to(ROOT)), _text(path), examples)
    return found


def patterns_in(
    file: str, source: str, examples: Mapping[tuple[str, str], Iterable[str]]
) -> Iterator[Found]:
    """Yield the regular expressions of a file; as `find_patterns`."""
    tree = ast.parse(source)
    names = _Names(tree)
    for node, pattern, engine, methods in _uses(file, tree):
        place = f"{file}:{node.lineno}"
        flags = 0
        for argument in [*node.args[1:], *(k.value for k in node.keywords)]:
            if re.fullmatch(r"re\.[A-Z]+( \| re\.[A-Z]+)*", ast.unparse(argument)):
                flags = int(names.value(argument))
        try:
            patterns = [names.value(pattern)]
        except NameError as error:
            if (file, error.name) not in examples:
                raise Unknown(f"{place}: {ast.unparse(pattern)}") from error
            patterns = list(examples[file, error.name])
        for text in filter(None, patterns):
            yield Found(place, engine, text, flags, methods)


def patterns_of_fields(template: str) -> list[str]:
    """Return the patterns of the fields in a template, as browsers search with them."""
    return [f"^(?:{html.unescape(match[2])})$" for match in _ATTRIBUTE.finditer(template)]


def _keyword(node: ast.Call, name: str) -> ast.expr:
    return next(keyword.value for keyword in node.keywords if keyword.arg == name)


def _uses(file: str, tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr, str, frozenset[str]]]:
    """Yield (call, pattern, engine, methods) of the calls that take a pattern."""
    named = _compiled_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module in ENGINES:
                raise Unknown(f"{file}: import {module}, not names of it")
            case ast.Call(func=ast.Attribute(value=ast.Name(id=engine), attr=name)) if (
                engine in ENGINES and (name == "compile" or name in METHODS)
            ):
                used = {name} if name in METHODS else _methods_of(file, tree, named.get(id(node)))
                yield node, node.args[0], engine, frozenset(METHODS[method] for method in used)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name in LIBRARIES and node.args:
                    engine, method = LIBRARIES[name]
                    yield node, node.args[0], engine, frozenset({method})
                elif any(keyword.arg == "pattern" for keyword in node.keywords):
                    engine, method = KEYWORDS[name]
                    yield node, _keyword(node, "pattern"), engine, frozenset({method})
            case ast.Dict() | ast.ClassDef():
                for value in _values(node):
                    call = ast.copy_location(ast.Call(value, [value], []), value)
                    yield call, value, "re", frozenset({"search"})


def _values(node: ast.Dict | ast.ClassDef) -> Iterator[ast.expr]:
    """Yield the patterns of a dictionary or a class by their names."""
    if isinstance(node, ast.Dict):
        # attributes of a widget, the schema of the API
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "pattern":
                yield value
        return
    for line in node.body:
        match line:
            # converters of Django's addresses, and the API's parts of addresses
            case ast.Assign(targets=[ast.Name(id="regex" | "lookup_value_regex")], value=value):
                yield value


def _compiled_names(tree: ast.Module) -> dict[int, str]:
    """Return the names of the module's compiled patterns, by the ids of the calls."""
    names = dict[int, str]()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                names[id(call)] = name
    return names


def _methods_of(file: str, tree: ast.Module, name: str | None) -> Iterable[str]:
    """Return the methods of a compiled pattern that are used; all if it is passed on."""
    if name is None:
        return METHODS
    trees = [tree]
    if not name.startswith("_"):
        trees += [_tree(path) for path in sources() if name in _text(path)]
    used = set[str]()
    for node in (node for each in trees for node in ast.walk(each)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and child.id == name and _is_read(child):
                if not isinstance(node, ast.Attribute):
                    return METHODS
                used.add(node.attr)
    return used & METHODS.keys() or METHODS


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


# -- texts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A text of any length: `start`, many times `unit`, and `end`."""

    start: str
    unit: str
    end: str

    def __str__(self) -> str:
        return f"{self.start!r} + {self.unit!r} * n + {self.end!r}"

    def of_size(self, size: int) -> str:
        count = max(1, (size - len(self.start) - len(self.end)) // len(self.unit))
        return self.start + self.unit * count + self.end


#: what no pattern expects
_END = "\0"
#: what held a server once, and single characters
_ALWAYS = (
    Text("", 'input "" is {', ""),
    Text('"', '\\"', ""),
    *(Text("", unit, _END) for unit in "\n aA0\\\"'([{<-./_:"),
)
_CATEGORIES = {
    op.CATEGORY_DIGIT: "0",
    op.CATEGORY_NOT_DIGIT: "a",
    op.CATEGORY_SPACE: " \n",
    op.CATEGORY_NOT_SPACE: "a",
    op.CATEGORY_WORD: "a0",
    op.CATEGORY_NOT_WORD: "-",
}
_REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}


def slow_texts(pattern: str | bytes, flags: int = 0) -> list[Text]:
    """Return texts that a backtracking engine may need long for, made from the pattern's parts.

    They repeat what the pattern repeats, after what precedes it there, and what begins a match
    without completing it.
    """
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = _parser.parse(text, flags & re.VERBOSE)
    texts = dict.fromkeys(_ALWAYS)
    units = dict[str, None]()
    for prefix, bodies in _repeats(list(tree), ""):
        for body in filter(None, bodies):
            units[body] = None
            texts[Text(prefix, body, _END)] = None
            units[prefix + body] = None
    for times in (0, 1):
        for beginning in _beginnings(list(tree), times):
            units |= {beginning: None, beginning[:-1]: None}
    for unit in filter(None, units):
        texts[Text("", unit, _END)] = None
    return list(texts)


def _chars(items: list[Any]) -> str:
    """Return some characters of a class."""
    if items and items[0][0] is op.NEGATE:
        taken = _chars(items[1:])
        return "".join(char for char in "x !0\n" if char not in taken)[:2] or "\u20ac"
    chars = ""
    for kind, value in items:
        if kind is op.LITERAL:
            chars += chr(value)
        elif kind is op.RANGE:
            chars += chr(value[0])
        elif kind is op.CATEGORY:
            chars += _CATEGORIES[value]
    return chars


def _sample(items: Iterable[Any], times: int, choice: int = 0) -> str:
    """Return a text that the items match, with each repeat done `times` times if it may be.

    choice: which character of a class and which alternative
    """
    text = ""
    for kind, value in items:
        if kind is op.LITERAL:
            text += chr(value)
        elif kind is op.NOT_LITERAL:
            text += "x" if chr(value) != "x" else "y"
        elif kind is op.ANY:
            text += "x"
        elif kind is op.IN:
            chars = _chars(value)
            text += chars[choice % len(chars)]
        elif kind is op.BRANCH:
            text += _sample(value[1][choice % len(value[1])], times, choice)
        elif kind is op.SUBPATTERN:
            text += _sample(value[-1], times, choice)
        elif kind is op.ATOMIC_GROUP:
            text += _sample(value, times, choice)
        elif kind in _REPEATS:
            low, high, body = value
            text += _sample(body, times, choice) * min(max(low, times), int(high), 50)
    return text


def _repeats(items: list[Any], prefix: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (a text that leads to a repeat, texts that its body matches), of nested ones, too."""
    for index, (kind, value) in enumerate(items):
        before = prefix + _sample(items[:index], 1)
        if kind in _REPEATS:
            if value[1] > 1:
                yield before, [_sample(value[2], 1, choice) for choice in range(3)]
            yield from _repeats(list(value[2]), before)
        elif kind is op.SUBPATTERN:
            yield from _repeats(list(value[-1]), before)
        elif kind is op.ATOMIC_GROUP:
            yield from _repeats(list(value), before)
        elif kind is op.BRANCH:
            for option in value[1]:
                yield from _repeats(list(option), before)


def _beginnings(items: list[Any], times: int) -> Iterator[str]:
    """Yield texts that match the first items, up to each item that is not a literal."""
    if len(items) == 1 and items[0][0] is op.BRANCH:
        for option in items[0][1][1]:
            yield from _beginnings(list(option), times)
        return
    for index, (kind, value) in enumerate(items):
        if kind is not op.LITERAL:
            yield _sample(items[:index], times)
            if kind is op.SUBPATTERN:
                before = _sample(items[:index], times)
                yield from (before + inner for inner in _beginnings(list(value[-1]), times))
    yield _sample(items, times)
