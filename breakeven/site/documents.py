"""The project's documents as pages: every Markdown file of docs/, with the pictures that it shows."""

import dataclasses
import pathlib
import re

import markdown_it

from breakeven.site.names import CHECKOUT

FOLDER = CHECKOUT / "docs" if CHECKOUT else None


@dataclasses.dataclass(frozen=True)
class Document:
    page: str
    title: str
    body: str
    pictures: tuple[str, ...] = ()


def documents(folder: pathlib.Path | None = FOLDER) -> list[Document]:
    """In the order of their names."""
    if folder is None:
        return []
    convert = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    files = sorted(folder.glob("*.md"))
    found = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        body = convert.render(text)
        for other in files:
            body = re.sub(rf'href="{re.escape(other.name)}(#[^"]*)?"', rf'href="{page_of(other)}\1"', body)
        body = re.sub(r"<table>", '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>', body)
        body = body.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
        pictures = [name for name in re.findall(r'<img src="([^":]+)"', body) if (folder / name).is_file()]
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), file.stem)
        found.append(Document(page_of(file), title.replace("`", ""), body, tuple(pictures)))
    return found


def page_of(file: pathlib.Path) -> str:
    return f"{file.stem.lower()}.html"


def prose(text: str) -> str:
    """A docstring as HTML: Markdown without raw HTML, pictures or links out."""
    return markdown_it.MarkdownIt("commonmark", {"html": False}).disable(["image", "link", "autolink"]).render(text)
