"""From a model class to the little program that the sandbox runs: its setters, and which class lies in which attribute.

A wrapper's setter calls the setter of the model inside it, so the classes inside come along, found from the
assignments of ``__init__``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hsforensics.rules.introspect.classes import ClassIndex, ClassInfo
from hsforensics.rules.introspect.vetting import bare, vet

HOOK = re.compile(r"set_(eagle3|dflash|dspark)_layers_to_capture")
_INNER = ("model", "language_model", "llm", "text_model", "thinker")
_FLAG, _LIST = re.compile(r"\b_is_layer_to_capture\b"), re.compile(r"\.\w*layers_to_capture\b")

Program = dict[str, dict[str, object]]
"""Class key -> ``methods``, ``properties`` (name -> source), ``refused`` (name -> why), ``attributes`` (name -> key)
and ``captures_by``."""


def hooks_of(index: ClassIndex, info: ClassInfo) -> tuple[str, ...]:
    """Names of the hooks that a class has, own or inherited."""
    return tuple(sorted({name for owner in index.lineage(info) for name in owner.methods if HOOK.fullmatch(name)}))


def build_program(index: ClassIndex, root: ClassInfo) -> Program:
    """Everything that the root's hooks may call, class by class."""
    program: Program = {}
    waiting = [root]
    while waiting and len(program) < 20:
        info = waiting.pop()
        if info.key in program:
            continue
        inner = {name: found for name in _INNER if (found := inner_class(index, info, name)) is not None}
        program[info.key] = {
            **_functions(index, info),
            "attributes": {name: found.key for name, found in inner.items()},
            "captures_by": captures_by(index, info),
        }
        waiting.extend(inner.values())
    return program


def captures_by(index: ClassIndex, info: ClassInfo) -> list[str]:
    """How a model's forward pass knows where to capture: from a ``list``, from a ``flag`` of each layer, or both."""
    texts = [
        ast.unparse(node)
        for owner in index.lineage(info)
        for name, node in owner.methods.items()
        if not HOOK.fullmatch(name) and name != "__init__"
    ]
    ways = (("flag", _FLAG), ("list", _LIST))
    return [way for way, pattern in ways if any(pattern.search(text) for text in texts)]


def inner_class(index: ClassIndex, info: ClassInfo, attribute: str) -> ClassInfo | None:
    """The class of the object in ``self.ATTRIBUTE``, as far as assignments show it."""
    for owner in index.lineage(info):
        for method in owner.methods.values():
            for value in _assigned(method, attribute):
                found = _class_of(index, info, owner, method, value)
                if found is not None:
                    return found
    return None


def _functions(index: ClassIndex, info: ClassInfo) -> dict[str, object]:
    methods: dict[str, str] = {}
    properties: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name in (*hooks_of(index, info), *_INNER):
        found = index.method(info, name)
        if found is None:
            continue
        reason = vet_bare(found[1])
        if reason:
            refused[name] = reason
        else:
            (methods if HOOK.fullmatch(name) else properties)[name] = bare(found[1])
    return {"methods": methods, "properties": properties, "refused": refused}


def vet_bare(function: ast.FunctionDef) -> str | None:
    """``vet`` of what will really run: the function without its annotations and decorators."""
    tree = ast.parse(bare(function)).body[0]
    return vet(tree) if isinstance(tree, ast.FunctionDef) else "it is no plain function"


def _assigned(method: ast.FunctionDef, attribute: str) -> Iterator[ast.expr]:
    for node in ast.walk(method):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == attribute and _is_self(target.value):
                    yield node.value


def _class_of(
    index: ClassIndex, root: ClassInfo, owner: ClassInfo, method: ast.FunctionDef, value: ast.expr
) -> ClassInfo | None:
    """The class that an expression makes an object of: ``Name(...)``, ``parameter(...)``, or ``self.make(...)``."""
    for call in (node for node in ast.walk(value) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name):
            default = _defaults(method).get(call.func.id)
            passed = _passed_class(index, root, owner) if default is not None else None
            found = passed or index.named(owner.module, default or call.func)
        elif isinstance(call.func, ast.Attribute) and _is_self(call.func.value):
            name = call.func.attr
            found = _returned_class(index, root, name) or _class_attribute(index, root, name)
        else:
            found = index.named(owner.module, call.func)
        if found is not None:
            return found
    return None


def _returned_class(index: ClassIndex, root: ClassInfo, name: str) -> ClassInfo | None:
    made = index.method(root, name)
    if made is None:
        return None
    owner, method = made
    for node in ast.walk(method):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            return index.resolve(owner.module, node.value.func.id)
    return None


def _class_attribute(index: ClassIndex, root: ClassInfo, name: str) -> ClassInfo | None:
    """The class in a class attribute: ``body_cls = module.Name``."""
    for owner in index.lineage(root):
        for node in owner.node.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return index.named(owner.module, value)
    return None


def _passed_class(index: ClassIndex, root: ClassInfo, owner: ClassInfo) -> ClassInfo | None:
    """The class that a more derived ``__init__`` hands to ``super().__init__``: the most derived one wins."""
    for derived in index.lineage(root):
        if derived is owner:
            return None
        init = derived.methods.get("__init__")
        for name in _super_arguments(init) if init else ():
            found = index.named(derived.module, _defaults(init).get(name.id, name))
            if found is not None:
                return found
    return None


def _super_arguments(init: ast.FunctionDef) -> Iterator[ast.Name]:
    for node in ast.walk(init):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")):
                values = (*node.args, *(word.value for word in node.keywords))
                yield from (value for value in values if isinstance(value, ast.Name))


def _defaults(function: ast.FunctionDef | None) -> dict[str, ast.expr]:
    """Parameters with a default -> that default."""
    if function is None:
        return {}
    arguments = function.args
    plain = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = [
        *zip(plain, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {argument.arg: default for argument, default in pairs if default is not None}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
