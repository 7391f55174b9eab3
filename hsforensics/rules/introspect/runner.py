"""The child process of the sandbox: runs vetted setters on stub objects. Standard library only, JSON in, JSON out.

Started as ``python -I -S -B runner.py``; never imported by the package.
"""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any


class _Config:
    """A model's config: the number of layers, and itself for every nested part."""

    def __init__(self, layers: int) -> None:
        self.num_hidden_layers = layers

    @property
    def text_config(self) -> _Config:
        """The config itself."""
        return self

    llm_config = thinker_config = language_config = text_config


class _Group:
    """A pipeline group of one rank; also its own holder."""

    is_last_rank = is_first_rank = True
    world_size = 1

    @property
    def pp_group(self) -> _Group:
        """The group itself."""
        return self


class _Layer:
    """A decoder layer: takes flags."""

    def __init__(self, number: int) -> None:
        self.layer_id = number
        self.mlp_ar_fusable = False


class _Stub:
    """An object of a class of the program: its setters run, what lies in its attributes is a stub again."""

    def __init__(self, world: _World, key: str) -> None:
        object.__setattr__(self, "__world__", world)
        object.__setattr__(self, "__key__", key)
        world.objects.append(self)

    def __getattr__(self, name: str) -> Any:
        world = object.__getattribute__(self, "__world__")
        made = world.attribute(self, object.__getattribute__(self, "__key__"), name)
        object.__setattr__(self, name, made)
        return made


class _World:
    """One run: a program, the number of layers, and every stub that came to be."""

    def __init__(self, program: dict[str, Any], layers: int, allowed: Sequence[str]) -> None:
        self.program, self.config = program, _Config(layers)
        self.objects: list[_Stub] = []
        self.layers = [_Layer(number) for number in range(layers)]
        group = _Group()
        names = {"get_pp_group": lambda: group, "get_parallel": lambda: group, "logger": _Silent()}
        safe: dict[str, Any] = {name: getattr(builtins, name) for name in allowed}
        safe.update(getattr=_getattr, hasattr=_hasattr, setattr=_setattr)
        self.globals: dict[str, Any] = {"__builtins__": safe, **names}
        self.fixed = {
            "config": self.config, "layers": self.layers, "pp_group": group, "start_layer": 0, "end_layer": layers,
            "carries_bank_slices": False,
        }  # fmt: skip

    def attribute(self, owner: _Stub, key: str, name: str) -> Any:
        """What lies in an attribute of a stub: a hook, a property's value, a model inside, or a fixed value."""
        known = self.program.get(key) or {"methods": {}, "properties": {}, "refused": {}, "attributes": {}}
        if name in known["refused"]:
            raise PermissionError(name + ": " + known["refused"][name])
        if name in known["methods"]:
            function = self.function(name, known["methods"][name])
            return lambda *arguments, **words: function(owner, *arguments, **words)
        if name in known["properties"]:
            return self.function(name, known["properties"][name])(owner)
        if name in known["attributes"]:
            return _Stub(self, known["attributes"][name])
        if name in self.fixed:
            return self.fixed[name]
        if name in ("model", "language_model", "llm") and key in self.program:
            return _Stub(self, "?")
        if key == "?":
            raise LookupError("the class of the model inside is not known, and its " + name + " is needed")
        raise AttributeError(name)

    def function(self, name: str, source: str) -> Callable[..., Any]:
        """A vetted function, made from its text."""
        space = dict(self.globals)
        exec(compile(source, "<setter>", "exec"), space)  # noqa: S102 (vetted; in a process of its own, with limits)
        made: Callable[..., Any] = space[name]
        return made

    def result(self) -> dict[str, Any]:
        """Every list of layers that a stub holds, and every layer with a flag."""
        lists: dict[str, list[int]] = {}
        for stub in self.objects:
            for name, value in list(vars(stub).items()):
                if name.endswith("layers_to_capture") and isinstance(value, (list, tuple, set)):
                    lists[object.__getattribute__(stub, "__key__")] = [int(item) for item in value]
        flags = [layer.layer_id for layer in self.layers if getattr(layer, "_is_layer_to_capture", False)]
        return {"lists": lists, "flags": flags}


class _Silent:
    """A logger that says nothing."""

    def info(self, *_words: object) -> None:
        """Say nothing."""

    warning = debug = error = warning_once = info


def _ours(owner: object, name: object) -> None:
    """Dynamic access is for our own objects only, and never to private names."""
    if not isinstance(owner, (_Stub, _Layer, _Config, _Group)) or not isinstance(name, str) or name.startswith("__"):
        raise PermissionError("private name, or no object of the model")


def _getattr(owner: object, name: str, *default: object) -> Any:
    _ours(owner, name)
    return getattr(owner, name, *default)


def _hasattr(owner: object, name: str) -> bool:
    _ours(owner, name)
    return hasattr(owner, name)


def _setattr(owner: object, name: str, value: object) -> None:
    _ours(owner, name)
    if not isinstance(owner, (_Stub, _Layer)):
        raise PermissionError("only stubs take attributes")
    setattr(owner, name, value)


def run_case(program: dict[str, Any], case: dict[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    """Run one hook once and say what it left behind."""
    world = _World(program, case["layers"], allowed)
    arguments = [] if case["ids"] is None else [case["ids"]]
    try:
        getattr(_Stub(world, case["root"]), case["hook"])(*arguments)
    except MemoryError:  # no setter; the other cases would only do it again
        raise
    except Exception as error:  # noqa: BLE001 (whatever it raises is the answer)
        return {"error": type(error).__name__, "text": str(error)[:200]}
    return world.result()


def _limit() -> None:
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def main() -> None:
    """Read a job from stdin, run its cases, write the results to stdout."""
    job = json.load(sys.stdin)
    _limit()
    done = [run_case(job["programs"][case["program"]], case, job["allowed"]) for case in job["cases"]]
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    main()
