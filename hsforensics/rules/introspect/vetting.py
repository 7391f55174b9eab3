"""Which foreign functions may run at all: short setters in a small part of Python, and nothing else.

A method that stores a list of layer ids needs no import, no private attribute and no call of anything but its own
model and a handful of pure builtins. Whatever goes beyond that is refused before it runs, so that the subprocess's
limits are the second fence and not the first.
"""

from __future__ import annotations

import ast

ALLOWED_BUILTINS = (
    "AttributeError", "IndexError", "KeyError", "NotImplementedError", "RuntimeError", "TypeError", "ValueError",
    "all", "any", "bool", "enumerate", "getattr", "hasattr", "int", "isinstance", "len", "list", "max", "min", "range",
    "reversed", "set", "setattr", "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip
"""Builtins that a setter may use; ``getattr``, ``hasattr`` and ``setattr`` are stand-ins that know no private names."""

_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If,
    ast.Expr, ast.Raise, ast.Assert, ast.Pass, ast.Continue, ast.Break, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp,
    ast.Dict, ast.Set, ast.List, ast.Tuple, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.comprehension, ast.Compare,
    ast.Call, ast.keyword, ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice,
    ast.Name, ast.Starred, ast.Load, ast.Store, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
_NEVER = (ast.Pow, ast.LShift, ast.MatMult)  # cheap ways to fill memory
_METHODS_NEVER = ("format", "format_map", "mro", "with_traceback")
_PREFIXES_NEVER = ("__", "gi_", "cr_", "ag_", "f_", "tb_", "co_")  # private names, and the ways from objects to frames
_LONGEST = 200  # syntax nodes; the longest real setter has about 120


def vet(function: ast.FunctionDef) -> str | None:
    """Why a function must not run, or ``None`` when it may."""
    nodes = list(ast.walk(function))
    if len(nodes) > _LONGEST * 2:
        return "it is too long for a setter"
    for node in nodes:
        if not isinstance(node, _NODES) or isinstance(node, _NEVER):
            return f"line {getattr(node, 'lineno', '?')} uses {type(node).__name__}"
        name = _name(node)
        if name is not None and (name.startswith(_PREFIXES_NEVER) or name in _METHODS_NEVER):
            return f"line {getattr(node, 'lineno', '?')} uses the name {name}"
    return None


def bare(function: ast.FunctionDef) -> str:
    """The function's text without decorators, annotations and docstring, none of which matter when it runs."""
    tree = ast.parse(ast.unparse(function)).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise TypeError("a function stays a function")
    tree.decorator_list, tree.returns = [], None
    for argument in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    if ast.get_docstring(tree) is not None and len(tree.body) > 1:
        tree.body = tree.body[1:]
    return ast.unparse(tree)


def _name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return name
        case ast.keyword(arg=name):
            return name
    return None
