"""Classes of a source tree as syntax: bases, methods and entry points across files, without importing one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from hsforensics.rules.introspect.sources import Sources

_ENTRY = "EntryClass"


@dataclass(frozen=True, eq=False)
class ClassInfo:
    """One class: its module, its syntax tree, and its own functions by name."""

    name: str
    module: str
    node: ast.ClassDef
    methods: dict[str, ast.FunctionDef]

    @property
    def key(self) -> str:
        """A name that no class of another file has."""
        return f"{self.module}:{self.name}"


@dataclass
class _Module:
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # local name -> (module, name there)
    entries: tuple[str, ...] = ()


class ClassIndex:
    """All classes of a source tree."""

    def __init__(self, sources: Sources) -> None:
        self._texts = sources.files
        self._modules: dict[str, _Module | None] = {}

    def entry_class(self, name: str) -> ClassInfo | None:
        """The class that the engine loads by this name, or ``None``; reads only files that contain the name."""
        return self.entry_classes(name).get(name)

    def entry_classes(self, mentioned: str = "") -> dict[str, ClassInfo]:
        """Classes that the engine loads by the name in a model's config: each module's ``EntryClass``.

        Args:
            mentioned: Look only into files that contain this text.
        """
        found: dict[str, ClassInfo] = {}
        for module, text in self._texts.items():
            here = self._module(module) if _ENTRY in text and mentioned in text else None
            for name in here.entries if here else ():
                info = self.resolve(module, name)
                if info is not None:
                    found.setdefault(info.name, info)
        return found

    def _module(self, name: str) -> _Module | None:
        """A module's classes, parsed on first use; ``None`` when it is not there or written for another Python."""
        if name not in self._modules:
            try:
                self._modules[name] = _read_module(name, ast.parse(self._texts[name]))
            except (KeyError, SyntaxError, ValueError, RecursionError):
                self._modules[name] = None
        return self._modules[name]

    def resolve(self, module: str, name: str) -> ClassInfo | None:
        """The class that a name means in a module, through imports."""
        for _ in range(10):  # imports of imports; a circle ends too
            here = self._module(module)
            if here is None:
                return None
            if name in here.classes:
                return here.classes[name]
            if name not in here.imports:
                return None
            module, name = here.imports[name]
        return None

    def named(self, module: str, expression: ast.expr) -> ClassInfo | None:
        """The class that an expression names: ``Name``, or ``module.Name`` of an imported module."""
        match expression:
            case ast.Name(id=name):
                return self.resolve(module, name)
            case ast.Attribute(value=ast.Name(id=holder), attr=name):
                here = self._module(module)
                source = here.imports.get(holder) if here else None
                return self.resolve(".".join(source), name) if source else None
        return None

    def lineage(self, info: ClassInfo) -> tuple[ClassInfo, ...]:
        """The class and its known bases, nearest first, each once: enough where nobody inherits in diamonds."""
        return tuple(dict.fromkeys(self._walk(info, 0)))

    def method(self, info: ClassInfo, name: str) -> tuple[ClassInfo, ast.FunctionDef] | None:
        """A method by name, own or inherited, with the class that defines it."""
        for owner in self.lineage(info):
            if name in owner.methods:
                return owner, owner.methods[name]
        return None

    def _walk(self, info: ClassInfo, depth: int) -> Iterator[ClassInfo]:
        yield info
        for base in info.node.bases if depth < 20 else ():
            found = self.named(info.module, base)
            if found is not None and found is not info:
                yield from self._walk(found, depth + 1)


def _read_module(name: str, tree: ast.Module) -> _Module:
    made = _Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            source = node.module if not node.level else _relative(name, node.level, node.module)
            made.imports.update({alias.asname or alias.name: (source, alias.name) for alias in node.names})
        elif isinstance(node, ast.ClassDef):
            methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
            made.classes.setdefault(node.name, ClassInfo(node.name, name, node, methods))
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == _ENTRY for t in node.targets):
            made.entries += tuple(part.id for part in ast.walk(node.value) if isinstance(part, ast.Name))
    return made


def _relative(module: str, level: int, name: str) -> str:
    return ".".join([*module.split(".")[:-level], name])
