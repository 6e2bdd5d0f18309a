"""The relay dialect: functional programs with lets, closures, data types, matching, references and
polymorphism."""

from heddle.ir.expr import Call, Constant, Expr, GlobalVar, If, Tuple, TupleGetItem
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall, TypeData, TypeKind
from heddle.ir.types import TupleType, Type, TypeVar
from heddle.relay.builders import (
    Function,
    FuncType,
    TensorType,
    TupleWrapper,
    Var,
    bind,
    const,
    scalar_type,
    var,
)
from heddle.relay.executor import bind_params_by_name, create_executor
from heddle.relay.functor import ExprFunctor, ExprMutator, ExprVisitor, TypeFunctor, TypeMutator, TypeVisitor
from heddle.relay.nodes import AnyDim as Any
from heddle.relay.nodes import (
    Clause,
    IncompleteType,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
    TypeRelation,
)
from heddle.relay.scope_builder import ScopeBuilder
from heddle.relay.text import astext, fromtext, parse, parse_expr

__all__ = [
    "Any",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "If",
    "IncompleteType",
    "Let",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "ScopeBuilder",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeFunctor",
    "TypeKind",
    "TypeMutator",
    "TypeRelation",
    "TypeVar",
    "TypeVisitor",
    "Var",
    "astext",
    "bind",
    "bind_params_by_name",
    "const",
    "create_executor",
    "fromtext",
    "parse",
    "parse_expr",
    "scalar_type",
    "var",
]
