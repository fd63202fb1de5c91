"""Waits, bare, until the job first steps an optimizer; then wakes who waits for it. Loads nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

OPTIMIZERS = "torch.optim.optimizer"
Stepped = Callable[..., None]
"""Called with the optimizer, and the arguments of its step."""


def ignore(_optimizer: object, _args: object = None, _kwargs: object = None) -> None:
    """Called for optimizer steps that nobody waits for."""


class Hooks:
    """Calls `before` and `after` around every optimizer step of the process, from the first one on.

    They are registered once with torch's global hooks and stay there, since torch must not be told to forget a hook
    while it calls it; `use` puts others in their place, which it may be told at any time.
    """

    def __init__(self, before: Stepped, after: Stepped) -> None:
        self._handles: list[Any] = []
        self.use(before, after)

    def use(self, before: Stepped, after: Stepped) -> None:
        """Call these from now on."""
        for hook in (before, after):
            # A compiler of optimizer steps must call them and not look inside: what `torch.compiler.disable` sets,
            # without its import.
            vars(getattr(hook, "__func__", hook))["_torchdynamo_disable"] = True
        self._before, self._after = before, after
        for handle, hook in zip(self._handles, (before, after), strict=False):
            hooks = handle.hooks_dict_ref()
            if hooks is not None and handle.id in hooks:
                hooks[handle.id] = hook

    def arm(self) -> None:
        """Register now when torch's optimizers are loaded, else as soon as the job loads them."""
        module = sys.modules.get(OPTIMIZERS)
        if module is not None and hasattr(module, "register_optimizer_step_post_hook"):
            self.register(module)
        else:
            sys.meta_path.insert(0, _Finder(self))

    def register(self, module: ModuleType) -> None:
        """Register with torch's global optimizer hooks (public since torch 2.2)."""
        self._handles = [
            module.register_optimizer_step_pre_hook(self._before),
            module.register_optimizer_step_post_hook(self._after),
        ]


class _Finder:
    """Stands in front of the importers until one module is loaded. No base class: that of importlib costs 20 ms."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def find_spec(self, name: str, path: Any = None, _target: object = None) -> ModuleSpec | None:
        """Nothing for all modules but one, whose loader is told to call back."""
        if name != OPTIMIZERS:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._hooks)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads by the loader that it stands for, then registers the hooks."""

    def __init__(self, loader: Any, hooks: Hooks) -> None:
        self._loader = loader
        self._hooks = hooks

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does, and hand the module back to it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if hasattr(module, "register_optimizer_step_post_hook"):
            self._hooks.register(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
