"""Where in the model the program is: the stack of module calls of one micro-batch's forward.

Capture and session number what they see in the same way, so that a plan finds its places again by module path, however
many calls went before elsewhere. Module calls during backward (checkpointing runs forward again there) do not count.

Thread rule: belongs to the thread that enters it; module calls of others do not count.
"""

import threading

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .graph import Site
from .torch_internals import in_backward, is_compiled_wrapper

OUTSIDE = "<loss>"


class Frame:
    __slots__ = ("path", "call", "calls", "saves", "departed")

    def __init__(self, path, call):
        self.path = path
        self.call = call
        self.calls = 0  # kernels called so far
        self.saves = 0  # tensors saved so far
        self.departed = False


class ModuleFrames:
    """`on_begin()` is called before each forward of the root module, `on_place(frame, path)` whenever another module runs,
    `on_failure()` where that forward has ended in an exception. `make_frame(path, call)` makes what is to be on the
    stack. A ModuleList as the root, which has no forward, stands for its modules: the loop calls each, as the chunks of a
    pipeline that a process holds."""

    def __init__(self, root, on_begin=None, on_place=None, make_frame=Frame, on_failure=None):
        roots = {id(m) for m in (root if isinstance(root, torch.nn.ModuleList) else [root])}
        self._modules = {}  # by id: name, whether it is a root, and what it wraps or None
        for name, module in root.named_modules():
            self._modules.setdefault(id(module), (name, id(module) in roots, _wrapped_by(module)))
        self._on_begin = on_begin
        self._on_place = on_place
        self._make_frame = make_frame
        self._on_failure = on_failure
        self._handles = []
        self._thread = None
        self._is_entered = False
        self._expected = None  # module that is called next, perhaps as compiled code
        self._compiled = []  # modules that run as compiled code
        self.is_open = False  # from the root module's forward, whether it is trained by or not, to the next backward
        self._seen = {}
        self.micro_batch = 0
        self._stand_outside(0)

    def _stand_outside(self, call):
        self._paths, self._stack = [OUTSIDE], [self._make_frame(OUTSIDE, call)]

    @property
    def top(self):
        return self._stack[-1]

    def __enter__(self):
        self._thread = threading.get_ident()
        self._is_entered = True
        self.show()
        return self

    def __exit__(self, *_):
        self.hide()
        self._is_entered = False

    def show(self):
        if self._is_entered and not self._handles:
            self._handles = [
                register_module_forward_pre_hook(self._enter_module),
                register_module_forward_hook(self._leave_module, always_call=True),
            ]

    def hide(self):
        """No hooks are called until show(), nor seen by a compiler."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def follow(self, make_frame):
        """From the next forward of the root module on. Returns what made frames before."""
        before, self._make_frame = self._make_frame, make_frame
        return before

    def next_call(self):
        """The site of a kernel call that is about to be made."""
        frame = self._stack[-1]
        site = Site(self.micro_batch, frame.path, frame.call, frame.calls)
        frame.calls += 1
        return site

    def next_save(self):
        frame = self._stack[-1]
        site = Site(self.micro_batch, frame.path, frame.call, frame.saves)
        frame.saves += 1
        return site

    # Modules that run as compiled code, whose hooks are not called

    def name_of(self, module):
        known = self._modules.get(id(module))
        return None if known is None else known[0]

    def call_compiled(self, module, call, *args, **kwargs):
        """Makes `call`, which may run as compiled code of the module: then enter_compiled() comes in it."""
        before, self._expected = len(self._compiled), module
        output = None
        try:
            output = call(*args, **kwargs)
            return output
        finally:
            if len(self._compiled) > before:
                self._leave_compiled(output)

    def take_expected(self):
        expected, self._expected = self._expected, None
        return expected

    def enter_compiled(self, module):
        self._compiled.append(module)
        self._enter_module(module, ())

    def _leave_compiled(self, output):
        self._leave_module(self._compiled.pop(), (), output)

    def _counts(self):
        """Whether module calls do."""
        return not in_backward() and torch.is_grad_enabled() and threading.get_ident() == self._thread

    def _enter_module(self, module, _args):
        known = self._modules.get(id(module))
        if known is None:
            self._expected = _wrapped_by(module)
            return
        name, is_root, self._expected = known
        if is_root:
            self.is_open = True
        if not self._counts():
            return
        if is_root:
            if self._on_begin is not None:
                self._on_begin()
            self._seen = {}
            self._stand_outside(0)
        call = self._seen.get(name, 0)
        self._seen[name] = call + 1
        self._paths.append(name)
        self._stack.append(self._make_frame(name, call))
        self._tell()

    def _leave_module(self, module, _args, output):
        known = self._modules.get(id(module))
        wrapped = _wrapped_by(module) if known is None else known[2]
        if wrapped is not None and self._compiled and self._compiled[-1] is wrapped:
            self._leave_compiled(output)
        if known is None or not self._counts():
            return
        name, is_root, _ = known
        while len(self._stack) > 1:
            self._stack.pop()
            if self._paths.pop() == name:
                break
        if is_root:
            self._stand_outside(1)
            if output is None and self._on_failure is not None:
                self._on_failure()
        self._tell()

    def _tell(self):
        if self._on_place is not None:
            self._on_place(self._stack[-1], self._paths[-1])


def _wrapped_by(module):
    return module._orig_mod if is_compiled_wrapper(module) else None
