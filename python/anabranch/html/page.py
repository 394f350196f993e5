"""A page in one file: styles and script are in it, and its policy allows no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path

from anabranch._core.simulator import version

_FOLDER = Path(__file__).parent


def page(title: str, body: str) -> str:
    """A whole page.

    Args:
        title: Title, as plain text.
        body: Content of the body, as HTML with all texts escaped.

    """
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="Anabranch {html.escape(version())}">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f'<div id="tip" role="status" hidden></div>\n<script>{script}</script>\n</body>\n</html>\n'
    )
