"""docs/onnx-support.md: the standard's operators, which of them are imported, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import TensorProto, defs

from heddle.frontend.onnx import ops as converters  # noqa: F401  (importing it registers them)
from heddle.frontend.onnx.proto import DTYPES
from heddle.frontend.onnx.registry import (
    MAX_OPSET,
    MICROSOFT,
    TEXT_OPERATORS,
    converter_versions,
    limits_of,
    reason_against,
    refused_operators,
)
from heddle.frontend.onnx.schemas import schemas_of

_TITLES = {
    "": "ai.onnx",
    "ai.onnx.ml": "ai.onnx.ml",
    "ai.onnx.preview.training": "ai.onnx.preview.training",
    MICROSOFT: "com.microsoft, ONNX Runtime's own",
}
_TAKEN = {name.lower() for name, number in TensorProto.DataType.items() if number in DTYPES}


def newest_schemas(domain: str) -> dict[str, Any]:
    """The newest specification of each operator that an importer of MAX_OPSET sees, by name."""
    found: dict[str, Any] = dict(schemas_of(domain))
    for schema in defs.get_all_schemas_with_history():
        if schema.domain != domain or schema.since_version > MAX_OPSET[domain]:
            continue
        old = found.get(schema.name)
        if old is None or old.since_version < schema.since_version:
            found[schema.name] = schema
    return dict(sorted(found.items()))


def support_lines() -> Iterator[str]:
    """The page's tables, a domain each."""
    for domain, title in _TITLES.items():
        yield from ("", f"## {title}, operator set {MAX_OPSET[domain]}", "")
        yield "| operator | newest | imported | element types not taken | missing |"
        yield "|---|---|---|---|---|"
        for name, schema in newest_schemas(domain).items():
            how, missing = _support(domain, name, schema)
            types = ", ".join(types_not_taken(domain, name, schema)) if how != "no" else ""
            yield f"| {name} | {schema.since_version} | {how} | {types} | {missing} |"
        for name in refused_operators(domain):
            if name not in newest_schemas(domain):
                reason, rewrite = reason_against(domain, name) or ("", "")
                yield f"| {name} | 1 | no |  | {reason}; {rewrite} |"


def _support(domain: str, name: str, schema: Any) -> tuple[str, str]:
    versions = [since for since in converter_versions(domain, name) if since <= MAX_OPSET[domain]]
    limits = "; ".join(limits_of(domain, name))
    if versions:
        return f"since {versions[0]}", limits
    if schema.has_function or schema.has_context_dependent_function:
        return "by its body", limits
    reason, rewrite = reason_against(domain, name) or ("no converter yet", "")
    return "no", f"{reason}; {rewrite}" if rewrite else reason


def types_not_taken(domain: str, name: str, schema: Any) -> list[str]:
    """Element types of inputs that the specification allows and the importer lacks."""
    allowed = {text for item in schema.inputs for text in item.types if text.startswith("tensor(")}
    names = sorted(text.removeprefix("tensor(").removesuffix(")") for text in allowed)
    has_text = (domain, name) in TEXT_OPERATORS
    return [name for name in names if name not in _TAKEN and not (name == "string" and has_text)]
