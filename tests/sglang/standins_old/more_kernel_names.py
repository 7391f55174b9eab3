"""For SGLang before 0.5.16 on a CPU: every name that it imports from ``sgl_kernel`` and never calls there.

Import it before SGLang. Calling one of these names raises, so nothing can be computed by mistake.
"""

import importlib.abc
import importlib.machinery
import sys
import types

import sgl_kernel


class Absent:
    """A kernel, or a module of kernels, that is not here."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent()

    def __call__(self, *_args, **_kwargs):
        raise NotImplementedError("this kernel has no stand-in")


class _EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Any submodule of sgl_kernel that is not a file: a module whose every name is absent."""

    def find_spec(self, fullname, *_where):
        if fullname.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = Absent().__getattr__
        return module

    def exec_module(self, module):
        pass


sgl_kernel.__getattr__ = Absent().__getattr__
sys.meta_path.append(_EmptyModules())
