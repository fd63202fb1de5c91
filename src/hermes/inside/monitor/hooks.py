"""Hooks that wait for the first optimizer step of a job, and then start the monitor. Imports no other module."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Callable

from hermes.inside.error_guard import Border

OPTIMIZERS = "torch.optim.optimizer"
Stepped = Callable[..., None]
"""A function that is called with the optimizer and the arguments of the optimizer's step."""


def ignore(_optimizer: object, _args: object = None, _kwargs: object = None) -> None:
    """Do nothing: the hook for optimizer steps while nothing waits for them."""


class Hooks:
    """The hooks that call `before` and `after` around every optimizer step of the process, from the first step on.

    The hooks are registered once with torch's global hooks and stay there, because torch must not remove a hook while
    it calls the hook. `use` replaces `before` and `after` at any time.
    """

    def __init__(self, before: Stepped, after: Stepped, border: Border) -> None:
        self._handles: list[Any] = []
        self._border = border
        self.use(before, after)

    def use(self, before: Stepped, after: Stepped) -> None:
        """Call these functions before and after each optimizer step from now on."""
        before, after = self._border.entry(before), self._border.entry(after)
        for hook in (before, after):
            # A compiler of optimizer steps must call the hooks and not look inside: set what `torch.compiler.disable`
            # sets, without importing it.
            vars(hook)["_torchdynamo_disable"] = True
        self._before, self._after = before, after
        for handle, hook in zip(self._handles, (before, after)):
            hooks = handle.hooks_dict_ref()
            if hooks is not None and handle.id in hooks:
                hooks[handle.id] = hook

    def arm(self) -> None:
        """Register the hooks now if torch's optimizers are loaded, else as soon as the job loads them."""
        module = sys.modules.get(OPTIMIZERS)
        if module is not None and hasattr(module, "register_optimizer_step_post_hook"):
            self.register(module)
        else:
            sys.meta_path.insert(0, _Finder(self, self._border))

    def register(self, module: ModuleType) -> None:
        """Register the hooks with torch's global optimizer hooks (public since torch 2.2)."""
        self._handles = [
            module.register_optimizer_step_pre_hook(self._before),
            module.register_optimizer_step_post_hook(self._after),
        ]


class _Finder:
    """An import finder that acts until one module is loaded. No base class: that of importlib costs 20 ms."""

    def __init__(self, hooks: Hooks, border: Border) -> None:
        self._hooks = hooks
        self._border = border
        self.find_spec: Callable[..., Any] = border.entry(self._find)

    def _find(self, name: str, path: Any = None, _target: object = None) -> ModuleSpec | None:
        """None for every module but one; for that module, a spec whose loader calls back once."""
        if name != OPTIMIZERS:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = self._border.around(loader.exec_module, _loads, self._loaded)
        return spec

    def _loaded(self, loader: Any, args: Any, _kwargs: Any, _result: object, ended: bool) -> None:
        del loader.exec_module
        (module,) = args
        if ended and hasattr(module, "register_optimizer_step_post_hook"):
            self._hooks.register(module)


def _loads(args: Any, _kwargs: Any) -> Any:
    """The loader that is loading a module at this moment."""
    return args[0].__spec__.loader
