"""Write docs/reference.md from the signatures and docstrings of the public modules.

    python docs/build_reference.py            writes docs/reference.md
    python docs/build_reference.py --check    exits 1 if docs/reference.md is out of date

The modules are parsed, never imported: no heavy import, and no code of the package runs. Public are the
modules, classes, methods and functions whose names do not start with an underscore; of a package's
``__init__`` the docstring and the names in ``__all__`` are shown.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "blanklm"
OUTPUT = ROOT / "docs" / "reference.md"

WIDTH = 110  # a longer signature is written with one parameter a line

Function = ast.FunctionDef | ast.AsyncFunctionDef


# --- Modules ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A parsed module: its dotted name, its text and its syntax tree."""

    name: str
    source: str
    tree: ast.Module

    @classmethod
    def parse(cls, name: str, path: Path) -> Module:
        source = path.read_text(encoding="utf-8")
        return cls(name, source, ast.parse(source, filename=str(path)))

    def code(self, node: ast.expr) -> str:
        """An expression as it was written, where it was written on one line."""
        written = ast.get_source_segment(self.source, node)
        return written if written and "\n" not in written else ast.unparse(node)

    def comment_after(self, node: ast.stmt) -> str:
        """The comment that ends a statement's last line, but for those that speak to tools."""
        line = self.source.splitlines()[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()
        comment = line.removeprefix("#").strip() if line.startswith("#") else ""
        return "" if re.match(r"(noqa|type:|pragma)", comment) else comment


def discover(package: Path) -> dict[str, list[Module]]:
    """The public modules by package folder: the package itself first, then its folders, each sorted by name.

    A folder's own ``__init__``, where it has one, is the first of its modules and bears the folder's name.
    """
    folders: dict[str, list[Module]] = {}
    for path in sorted(package.rglob("*.py"), key=lambda path: (path.parent.parts, path.name)):
        inner = path.relative_to(package)
        if any(part.startswith(("_", ".")) for part in inner.parts if part != "__init__.py"):
            continue
        folder = ".".join((package.name, *inner.parent.parts))
        name = folder if path.stem == "__init__" else f"{folder}.{path.stem}"
        folders.setdefault(folder, []).append(Module.parse(name, path))
    return folders


def is_public(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_")


def exported(module: Module) -> list[str]:
    """The names in ``__all__``, where it is written out."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            values = getattr(node.value, "elts", [])
            return [value.value for value in values if isinstance(value, ast.Constant)]
    return []


# --- Signatures and fields -------------------------------------------------------------------------------


def parameters(module: Module, function: Function) -> list[str]:
    """The parameters of a function, ``/`` and ``*`` included, each as it would stand in the source."""
    arguments = function.args

    def written(argument: ast.arg, default: ast.expr | None = None, stars: str = "") -> str:
        text = stars + argument.arg
        if argument.annotation is not None:
            text += f": {module.code(argument.annotation)}"
        if default is not None:
            text += f" = {module.code(default)}" if argument.annotation else f"={module.code(default)}"
        return text

    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    parts = [written(argument, default) for argument, default in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        parts.append(written(arguments.vararg, stars="*"))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [
        written(argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        parts.append(written(arguments.kwarg, stars="**"))
    return parts


def signature(module: Module, function: Function) -> list[str]:
    """Decorators and the ``def`` line, broken up where it is long."""
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    parts = parameters(module, function)
    returns = f" -> {module.code(function.returns)}" if function.returns else ""
    line = f"{keyword} {function.name}({', '.join(parts)}){returns}"
    lines = [line]
    if len(line) > WIDTH:
        lines = [f"{keyword} {function.name}(", *(f"    {part}," for part in parts), f"){returns}"]
    return [*(f"@{module.code(decorator)}" for decorator in function.decorator_list), *lines]


def class_signature(module: Module, node: ast.ClassDef) -> list[str]:
    """Decorators, the ``class`` line and the constructor, where the class writes one."""
    bases = [module.code(base) for base in node.bases]
    bases += [f"{keyword.arg}={module.code(keyword.value)}" for keyword in node.keywords]
    line = f"class {node.name}({', '.join(bases)})" if bases else f"class {node.name}"
    lines = [*(f"@{module.code(decorator)}" for decorator in node.decorator_list), line]
    for function in node.body:
        if isinstance(function, Function) and function.name == "__init__":
            lines += [f"    {line}" for line in signature(module, function)]
    return lines


def fields(module: Module, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The annotated fields of a class, and the members of an enum, each with what is said about it.

    That is the string under a field, else the comment beside it.
    """
    is_enum = any(re.search(r"(Enum|Flag)$", module.code(base)) for base in node.bases)
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, text = statement.target.id, f"{statement.target.id}: {module.code(statement.annotation)}"
            value = statement.value
        elif is_enum and isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = text = statement.targets[0].id
            value = statement.value
        else:
            continue
        if name.startswith("_"):
            continue
        said = module.comment_after(statement)
        match following:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                said = " ".join(docstring.split())
        yield (text if value is None else f"{text} = {module.code(value)}"), said


# --- Markdown --------------------------------------------------------------------------------------------


@dataclass
class Page:
    """Lines of markdown. Headings get the anchors that the common renderers give them, so that links hold."""

    lines: list[str] = field(default_factory=list)
    anchors: Counter[str] = field(default_factory=Counter)

    def heading(self, level: int, text: str) -> str:
        """Add a heading and return its anchor: lower case, no punctuation, ``-1`` and so on for repeats."""
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        repeats = self.anchors[slug]
        self.anchors[slug] += 1
        self.block([f"{'#' * level} {text}"])
        return f"{slug}-{repeats}" if repeats else slug

    def block(self, lines: list[str]) -> None:
        """Add lines, and an empty line after them."""
        if lines:
            self.lines += [*lines, ""]

    def code(self, lines: list[str]) -> None:
        self.block(["```python", *lines, "```"])

    def docstring(self, node: ast.Module | ast.ClassDef | Function) -> None:
        self.block(prose(ast.get_docstring(node) or ""))


def prose(docstring: str) -> list[str]:
    """A docstring as markdown: code stays as it is, and outside it nothing is taken for a tag or a rule."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring) if docstring else []:
        if paragraph.startswith(">>>"):
            lines += ["```python", *paragraph.splitlines(), "```", ""]
        elif paragraph.startswith("    "):
            lines += [*paragraph.splitlines(), ""]
        else:
            lines += [*escape(paragraph).splitlines(), ""]
    return lines[:-1]


def escape(text: str) -> str:
    """Escape ``<`` and the underscores that are not inside a word, except in code between backticks."""
    pieces = re.split(r"(`+)(.+?)\1", text, flags=re.DOTALL)  # prose, ticks, code, prose, ..., prose
    escaped = ""
    for k in range(0, len(pieces), 3):
        outside = pieces[k].replace("<", "&lt;")
        escaped += re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", outside)
        if k + 2 < len(pieces):
            escaped += pieces[k + 1] + pieces[k + 2] + pieces[k + 1]
    return re.sub(r"::$", ":", escaped)


def summary(module: Module) -> str:
    """The first sentence of the module's docstring, for the table of contents."""
    paragraph = " ".join((ast.get_docstring(module.tree) or "").split("\n\n")[0].split())
    sentence = re.match(r".+?[.!?](?=\s+[A-Z`]|$)", paragraph)
    return escape(sentence[0] if sentence else paragraph)


def render_function(page: Page, module: Module, function: Function, level: int, name: str) -> str:
    anchor = page.heading(level, f"`{name}`")
    page.code(signature(module, function))
    page.docstring(function)
    return anchor


def render_class(page: Page, module: Module, node: ast.ClassDef) -> str:
    anchor = page.heading(4, f"class `{node.name}`")
    page.code(class_signature(module, node))
    page.docstring(node)
    page.block([f"- `{text}`" + (f": {escape(said)}" if said else "") for text, said in fields(module, node)])
    for function in node.body:
        if isinstance(function, Function):
            if function.name == "__init__":
                page.docstring(function)
            elif is_public(function):
                render_function(page, module, function, 5, f"{node.name}.{function.name}")
    return anchor


def render(package: Path) -> str:
    """The whole reference of a package folder, as markdown."""
    contents, body = Page(), Page()
    for page in (contents, body):  # both count the headings at the top of the file
        page.heading(1, "Reference")
        page.heading(2, "Contents")
    body.lines.clear()
    contents.lines[2:2] = [
        "Written by `python docs/build_reference.py` from the docstrings: change them, not this file.",
        "",
    ]
    for folder, modules in discover(package).items():
        contents.lines.append(f"- [`{folder}`](#{body.heading(2, f'`{folder}`')})")
        for module in modules:
            if module.name == folder:
                if said := summary(module):
                    contents.lines[-1] += f": {said}"
            else:
                anchor = body.heading(3, f"`{module.name}`")
                said = summary(module)
                contents.lines.append(f"  - [`{module.name}`](#{anchor})" + (f": {said}" if said else ""))
            body.docstring(module.tree)
            if names := exported(module):
                body.block(["Public names: " + ", ".join(f"`{name}`" for name in names) + "."])
            links = []
            for node in filter(is_public, module.tree.body):
                if isinstance(node, ast.ClassDef):
                    anchor = render_class(body, module, node)
                else:
                    anchor = render_function(body, module, node, 4, node.name)
                links.append(f"[`{node.name}`](#{anchor})")
            if links:
                contents.lines.append(f"{'  ' if module.name == folder else '    '}- {', '.join(links)}")
    contents.lines.append("")
    return "\n".join(contents.lines + body.lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/reference.md from the package's docstrings.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it is out of date")
    options = parser.parse_args()
    try:
        text = render(PACKAGE)
    except SyntaxError as error:
        print(f"{error.filename}:{error.lineno}: {error.msg}", file=sys.stderr)
        return 1
    if not options.check:
        OUTPUT.write_text(text, encoding="utf-8")
        return 0
    if OUTPUT.exists() and OUTPUT.read_text(encoding="utf-8") == text:
        return 0
    print(f"{OUTPUT.name} is out of date: run python docs/build_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
