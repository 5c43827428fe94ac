"""Runs a function after a module has been imported, and provides modules that are not installed."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

_AFTER = {}
_PROVIDED = {}


def after(name, function):
    """Calls `function(module)` when the module has been imported, after the functions that were given before."""
    _AFTER.setdefault(name, []).append(function)


def provide(name, make):
    """Imports of `name` get `make(module)`, or, without `make`, a module that has everything and does nothing."""
    _PROVIDED[name] = make


def install():
    sys.meta_path.insert(0, _First())


class Anything(types.ModuleType):
    """Has every attribute; calling one gives another of its kind."""

    __path__ = []
    __version__ = "99.0"
    __all__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = Anything(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made

    def __call__(self, *args, **kwargs):
        # A decorator without arguments gives its function back.
        if len(args) == 1 and isinstance(args[0], types.FunctionType) and not kwargs:
            return args[0]
        return Anything("made")

    def __fspath__(self):
        return "."

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __iter__(self):
        return iter(())

    def __getitem__(self, _):
        return Anything("made")

    def __setitem__(self, *_):
        pass


class _Loader(importlib.abc.Loader):
    def __init__(self, make):
        self._make = make

    def create_module(self, spec):
        return Anything(spec.name) if self._make is None else types.ModuleType(spec.name)

    def exec_module(self, module):
        if self._make is not None:
            module.__path__ = []
            self._make(module)


def _provided(name):
    for known, make in _PROVIDED.items():
        if name == known or (make is None and name.startswith(known + ".")):
            return importlib.machinery.ModuleSpec(name, _Loader(make), is_package=True)
    return None


class _First(importlib.abc.MetaPathFinder):
    """Before all others: what is always replaced, and what is changed after its import."""

    def find_spec(self, name, path=None, target=None):
        spec = _provided(name)
        if spec is not None or name not in _AFTER:
            return spec
        functions = _AFTER.pop(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def then(module):
            execute(module)
            for function in functions:
                function(module)

        spec.loader.exec_module = then
        return spec
