"""Parse modules and functions from script text."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heddle.graph.types import VDevice
from heddle.ir.attrs import attrs_of
from heddle.ir.codes import I0601
from heddle.ir.dialect import DIALECTS, Dialect, ScriptContext
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.ir.script_parser import ModuleAlias, ScriptParser, decorator_of, nested_too_deeply, parse_python
from heddle.relax import metadata
from heddle.relax import script as relax_words
from heddle.support.span import Source, at
from heddle.tir import script as tir_words


class _ModuleWords:
    """The namespace `I`, for a text whose imports are not executed."""

    __name__ = "I"
    is_script_namespace = True

    @staticmethod
    def module_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
        return attrs

    @staticmethod
    def module_function_names(names: dict[str, str]) -> dict[str, str]:
        return names

    @staticmethod
    def module_global_infos(infos: dict[str, Any]) -> dict[str, Any]:
        return infos

    vdevice = VDevice


DEFAULT_NAMES: dict[str, Any] = {
    "T": tir_words,
    "R": relax_words,
    "I": _ModuleWords,
    metadata.NAME: metadata.NoMetadata(),
}


def parse(
    text: str,
    extra: Mapping[str, Any] | None = None,
    constants: Sequence[Any] | None = None,
    folder: Path | None = None,
) -> Any:
    """Parse a text to an IRModule or function. Nothing in the text is executed.

    `extra` are additional names that the text may use. `constants` are the tensors for `metadata[k]` if the
    text does not define them. `folder` is the folder of its weights file.

    Raises: ParseError with the span.
    """
    source = Source("<script>", text)
    return parse_source(source, {**DEFAULT_NAMES, **(extra or {})}, constants, folder)


from_source = parse


def parse_source(
    source: Source,
    names: Mapping[str, Any],
    constants: Sequence[Any] | None = None,
    folder: Path | None = None,
) -> Any:
    """Parse a text to an IRModule or function. The text is one class, or functions; several functions give an
    IRModule.

    `names` are the names that the text may use; `constants` and `folder` are as in `parse`.

    Raises: ParseError with the span.
    """
    tree = parse_python(source)
    try:
        return _read(source, tree, names, constants, folder)
    except RecursionError as error:
        raise nested_too_deeply(source) from error


def _read(
    source: Source,
    tree: ast.Module,
    names: Mapping[str, Any],
    constants: Sequence[Any] | None,
    folder: Path | None,
) -> Any:
    reader = ScriptParser(source, names)
    if constants is None:
        constants = _metadata(reader, tree, folder)
    found = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    if not found:
        reader.error(tree, I0601, "expected a decorated function or module class")
    for node in found[1:]:
        if isinstance(node, ast.ClassDef) or isinstance(found[0], ast.ClassDef):
            what = "one module class, or functions"
            reader.error(node, I0601, f"{node.name!r} is one too many: a text is {what}", "make it two texts")
    if isinstance(found[0], ast.ClassDef):
        return _module(source, names, found[0], constants)
    nodes = [node for node in found if isinstance(node, ast.FunctionDef)]
    _refuse_twins(reader, nodes)
    functions = {node.name: _function(source, names, node, constants) for node in nodes}
    if len(functions) == 1:
        return next(iter(functions.values()))
    known_as = {name: func.attrs.get("global_symbol") or name for name, func in functions.items()}
    return IRModule(Map({GlobalVar(known_as[name]): func for name, func in functions.items()}))


def _refuse_twins(reader: ScriptParser, nodes: Sequence[ast.FunctionDef]) -> None:
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            reader.error(node, I0601, f"there are two functions {node.name!r}")
        seen.add(node.name)


def _metadata(reader: ScriptParser, tree: ast.Module, folder: Path | None) -> Sequence[Any] | None:
    """Return the constants of the statement `metadata = ...`; None if there is none."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != metadata.NAME:
            continue
        value = node.value
        if isinstance(value, ast.Call) and getattr(value.func, "attr", "") == metadata.FILE_WORD:
            with at(reader.span(value)):
                return metadata.read_weights(folder, *(reader.eval(arg) for arg in value.args))
        found: Sequence[Any] = reader.eval(value)
        return found
    return None


def _function(
    source: Source, names: Mapping[str, Any], node: ast.FunctionDef, constants: Sequence[Any] | None
) -> Any:
    context = ScriptContext(source, names, constants=constants)
    return _dialect(source, names, node).read(context).parse(node)


def _dialect(source: Source, names: Mapping[str, Any], node: ast.FunctionDef) -> Dialect:
    """Return the dialect of a function, from the last part of its decorator's name: `T.prim_func` or
    `R.function`."""
    decorator, _ = decorator_of(node)
    word = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    known = [dialect for _, dialect in DIALECTS.items()]
    found = [dialect for dialect in known if dialect.script_word == word]
    if found:
        return found[0]
    ScriptParser(source, names).error(
        node,
        I0601,
        f"function {node.name!r} has no dialect",
        f"decorate it with {' or '.join(sorted(dialect.decorator for dialect in known))}",
    )


def _module(
    source: Source, names: Mapping[str, Any], node: ast.ClassDef, constants: Sequence[Any] | None
) -> IRModule:
    """Parse the signatures of all functions, then their bodies, so that functions may refer to each other."""
    attrs, infos, others = _module_words(source, names, node)
    nodes = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    _refuse_twins(ScriptParser(source, names), nodes)
    dialects = {item.name: _dialect(source, names, item) for item in nodes}
    variables: dict[str, GlobalVar] = {}
    alias = ModuleAlias(variables)
    context = ScriptContext(source, names, {node.name: alias, "cls": alias}, constants, infos)
    for item in nodes:
        signature = dialects[item.name].read(context).signature(item)
        variables[item.name] = GlobalVar(others.get(item.name, item.name), signature)
    made = {item.name: dialects[item.name].read(context).parse(item) for item in nodes}
    return IRModule(
        Map({GlobalVar(others.get(name, name)): func for name, func in made.items()}),
        attrs_of(attrs),
        Map(infos),
    )


def _module_words(
    source: Source, names: Mapping[str, Any], node: ast.ClassDef
) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    reader = ScriptParser(source, names)
    attrs: dict[str, Any] = {}
    infos: dict[str, Any] = {}
    others: dict[str, str] = {}
    for item in node.body:
        if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Call)):
            continue
        word = item.value.func
        if isinstance(word, ast.Attribute) and word.attr == "module_attrs":
            attrs.update(reader.eval(item.value.args[0]))
        elif isinstance(word, ast.Attribute) and word.attr == "module_function_names":
            others.update(reader.eval(item.value.args[0]))
        elif isinstance(word, ast.Attribute) and word.attr == "module_global_infos":
            infos.update({key: tuple(value) for key, value in reader.eval(item.value.args[0]).items()})
    return attrs, infos, others
