"""Descriptions that docstrings share: each stands once, ``help`` shows it wherever it holds."""

import inspect
import re
import textwrap
from collections.abc import Callable

from sklearn_bdp._typing import Method

# An entry of a section: names, a type, and the indented lines below.
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : .*\n(?:    .*\n|\n(?=    ))+", re.MULTILINE)


def described_by(source: type) -> Callable[[Method], Method]:
    """Let entries "As for ``source``" in the docstring of a class say what they say there.

    An entry ``a, b : object`` with such a description becomes the entries of ``a`` and ``b``; what
    it says besides comes behind the last of them. Editors that read the file show it as written.
    """
    found: dict[str, str] = {}
    for entry in _ENTRY.finditer(inspect.cleandoc(source.__doc__ or "") + "\n"):
        for name in entry[1].split(", "):
            found.setdefault(name, entry[0])  # a parameter may be an attribute, too
    reference = re.compile(rf"    As for :class:`(?:~?[\w.]*\.)?{source.__name__}`[.;]\s*")

    def expanded(entry):
        header, _, text = entry[0].partition("\n")
        if not header.endswith(" : object") or not reference.match(text):
            return entry[0]
        besides = textwrap.fill(" ".join(reference.sub("", text, count=1).split()), 92)
        texts = dict.fromkeys(found[name] for name in entry[1].split(", "))
        return "".join(texts) + (textwrap.indent(besides, "    ") + "\n" if besides else "")

    def decorated(cls: Method) -> Method:
        if cls.__doc__:  # python -OO keeps none
            cls.__doc__ = _ENTRY.sub(expanded, inspect.cleandoc(cls.__doc__) + "\n")
        return cls

    return decorated
