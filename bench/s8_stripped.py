"""The twin loaded again from its source under another name, as it is or without what it tells an observer.

Stripping works on the syntax tree: whatever is only done if the log is there is taken out, and so is what only notes
why (`Round.verdicts`), and calls of methods of which nothing is left then.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

_ORIGINAL = "tsviz.scheduler"
_TELLING = frozenset(("_phase", "_candidate", "_hold", "_note"))


def copied(name: str, *, stripped: bool) -> ModuleType:
    """Return a copy of the twin's drop-in module; `name` is the package that it is loaded under."""
    sys.meta_path.insert(0, _Finder(name, stripped))
    return importlib.import_module(f"{name}.compat")


class _Finder:
    def __init__(self, name: str, stripped: bool) -> None:
        self._name, self._stripped = name, stripped

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name and not name.startswith(self._name + "."):
            return None
        found = importlib.util.find_spec(_ORIGINAL + name[len(self._name) :])
        if found is None or found.origin is None:
            return None
        loader = _Loader(name, found.origin, self._name, self._stripped)
        return importlib.util.spec_from_file_location(
            name, found.origin, loader=loader, submodule_search_locations=found.submodule_search_locations
        )


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, package: str, stripped: bool) -> None:
        super().__init__(name, path)
        self._package, self._stripped = package, stripped

    def get_code(self, fullname: str) -> CodeType:
        tree = _Renamed(self._package).visit(ast.parse(self.get_data(self.path), self.path))
        if self._stripped:
            tree = _Stripped().visit(tree)
        code: CodeType = compile(ast.fix_missing_locations(tree), self.path, "exec")
        return code


class _Renamed(ast.NodeTransformer):
    def __init__(self, package: str) -> None:
        self._package = package

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module and (node.module + ".").startswith(_ORIGINAL + "."):
            node.module = self._package + node.module[len(_ORIGINAL) :]
        return node


class _Stripped(ast.NodeTransformer):
    """Decides every comparison of the log with None."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        known = _truth(node.test)
        if known is None:
            return node
        return (node.body if known else node.orelse) or ast.Pass()

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        values = [value for value in node.values if _truth(value) is not isinstance(node.op, ast.And)]
        if any(_truth(value) is not None for value in values):
            return ast.Constant(isinstance(node.op, ast.Or))
        if not values:
            return ast.Constant(isinstance(node.op, ast.And))
        node.values = values
        return node if len(values) > 1 else values[0]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _TELLING:
            return ast.Pass()
        return ast.Pass() if isinstance(call, ast.Call) and _verdict(call.func) else node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        return ast.Pass() if all(_verdict(target) for target in node.targets) else node


def _verdict(target: ast.expr) -> bool:
    """Return whether this is an attribute of some `verdicts`."""
    return isinstance(target, ast.Attribute) and getattr(target.value, "attr", "") == "verdicts"


def _truth(test: ast.expr) -> bool | None:
    """Return what `log is None` and its like come to without a log; None for any other expression."""
    if isinstance(test, ast.Constant) and isinstance(test.value, bool):
        return test.value
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Is | ast.IsNot):
        return None
    name = getattr(test.left, "attr", getattr(test.left, "id", ""))
    right = test.comparators[0]
    if name != "log" or not isinstance(right, ast.Constant) or right.value is not None:
        return None
    return isinstance(test.ops[0], ast.Is)
