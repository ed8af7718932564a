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
    """`on_begin()` is called before each forward of the root module, `on_place(frame)` whenever another module runs,
    `on_failure()` where that forward has ended in an exception. `make_frame(path, call)` makes what is to be on the
    stack. A ModuleList as the root, which has no forward, stands for its modules: the loop calls each, as the chunks of a
    pipeline that a process holds."""

    def __init__(self, root, on_begin=None, on_place=None, make_frame=Frame, on_failure=None):
        self._roots = {id(m) for m in (root if isinstance(root, torch.nn.ModuleList) else [root])}
        self._names = {}
        for name, module in root.named_modules():
            self._names.setdefault(id(module), name)
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
        self.stack = [make_frame(OUTSIDE, 0)]

    @property
    def top(self):
        return self.stack[-1]

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
        frame = self.stack[-1]
        site = Site(self.micro_batch, frame.path, frame.call, frame.calls)
        frame.calls += 1
        return site

    def next_save(self):
        frame = self.stack[-1]
        site = Site(self.micro_batch, frame.path, frame.call, frame.saves)
        frame.saves += 1
        return site

    # Modules that run as compiled code, whose hooks are not called

    def name_of(self, module):
        return self._names.get(id(module))

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

    def _name_of(self, module):
        """None where the call does not count."""
        name = self._names.get(id(module))
        if name is None or in_backward() or not torch.is_grad_enabled() or threading.get_ident() != self._thread:
            return None
        return name

    def _enter_module(self, module, _args):
        self._expected = module._orig_mod if is_compiled_wrapper(module) else None
        self.is_open |= id(module) in self._roots
        name = self._name_of(module)
        if name is None:
            return
        if id(module) in self._roots:
            if self._on_begin is not None:
                self._on_begin()
            self._seen = {}
            self.stack = [self._make_frame(OUTSIDE, 0)]
        call = self._seen.get(name, 0)
        self._seen[name] = call + 1
        self.stack.append(self._make_frame(name, call))
        self._tell()

    def _leave_module(self, module, _args, output):
        if is_compiled_wrapper(module) and self._compiled and self._compiled[-1] is module._orig_mod:
            self._leave_compiled(output)
        name = self._name_of(module)
        if name is None:
            return
        while len(self.stack) > 1:
            if self.stack.pop().path == name:
                break
        if id(module) in self._roots:
            self.stack = [self._make_frame(OUTSIDE, 1)]
            if output is None and self._on_failure is not None:
                self._on_failure()
        self._tell()

    def _tell(self):
        if self._on_place is not None:
            self._on_place(self.top)
