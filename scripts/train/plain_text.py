"""Turns documentation formats into plain text: HTML, man pages (man macros), POD."""

import html
import re

# Elements whose content is never prose, and elements that end a line of text.
_HTML_SILENT = re.compile(r"<(script|style|head|nav|svg|footer|header)\b.*?</\1\s*>", re.I | re.S)
_HTML_COMMENT = re.compile(r"<!--.*?-->", re.S)
_HTML_PREFORMATTED = re.compile(r"<pre\b[^>]*>(.*?)</pre\s*>", re.I | re.S)
_HTML_PARAGRAPH = re.compile(r"<(/p|p|/div|/h\d|/ul|/ol|/table|hr)\b[^>]*>", re.I)
_HTML_LINE = re.compile(r"<(br|/li|/tr|/dt|/dd)\b[^>]*>", re.I)
_HTML_ITEM = re.compile(r"<li\b[^>]*>", re.I)
_HTML_TAG = re.compile(r"<[^>]*>")


def from_html(source):
    """Text of a page: paragraphs separated by blank lines, preformatted blocks kept as they are."""
    source = _HTML_COMMENT.sub(" ", source)
    source = _HTML_SILENT.sub(" ", source)
    pieces = []
    position = 0
    for block in _HTML_PREFORMATTED.finditer(source):
        pieces.append(_flowing(source[position:block.start()]))
        pieces.append("\n\n" + html.unescape(_HTML_TAG.sub("", block.group(1))).rstrip() + "\n\n")
        position = block.end()
    pieces.append(_flowing(source[position:]))
    return _squeeze_blank_lines("".join(pieces))


def _flowing(source):
    source = re.sub(r"\s+", " ", source)
    source = _HTML_ITEM.sub("\n* ", source)
    source = _HTML_LINE.sub("\n", source)
    source = _HTML_PARAGRAPH.sub("\n\n", source)
    source = html.unescape(_HTML_TAG.sub("", source)).replace("\u00b6", "").replace("\u00a0", " ")
    source = re.sub(r"[ \t]+", " ", source)
    return re.sub(r"(?m)^ | $|^ ?[*|] ?$", "", source)


_MAN_ESCAPES = [
    (re.compile(r"\\f(\[[^\]]*\]|\(..|.)"), ""),
    (re.compile(r"\\s[-+]?\d+"), ""),
    (re.compile(r"\\\*\((?:lq|rq)"), '"'),
    (re.compile(r"\\\((?:lq|rq|dq)"), '"'),
    (re.compile(r"\\\((?:aq|cq|oq)"), "'"),
    (re.compile(r"\\\((?:bu|ci)"), "*"),
    (re.compile(r"\\\((?:em|en|hy|mi)"), "-"),
    (re.compile(r"\\\((?:ti|ha|at|sh)"), lambda m: {"ti": "~", "ha": "^", "at": "@", "sh": "#"}[m.group(0)[2:]]),
    (re.compile(r"\\\(.."), ""),
    (re.compile(r"\\\[[^\]]*\]"), ""),
    (re.compile(r"\\\*(\[[^\]]*\]|\(..|.)"), ""),
    (re.compile(r"\\[hvwkoZNX]'[^']*'"), ""),
    (re.compile(r'\\".*'), ""),
    (re.compile(r"\\[&/,|^:)%cd{}utpa]"), ""),
    (re.compile(r"\\[ ~0]"), " "),
    (re.compile(r"\\-"), "-"),
    (re.compile(r"\\'"), "'"),
    (re.compile(r"\\e|\\\\"), lambda m: "\\"),
]
_MAN_FONT = {"B", "I", "R", "SM", "SB"}
_MAN_ALTERNATING = {"BR", "RB", "BI", "IB", "IR", "RI"}
_MAN_PARAGRAPH = {"PP", "P", "LP", "sp", "br", "TP", "IP", "HP", "RS", "RE", "TQ"}


def from_man(source):
    """Text of a page written with the man macros; an empty string for mdoc pages, which use other macros."""
    if re.search(r"(?m)^\.Dd ", source):
        return ""
    lines = []
    paragraph = []
    filled = True
    ignoring = False

    def flush():
        if paragraph:
            lines.append(" ".join(paragraph))
            paragraph.clear()

    for raw in source.splitlines():
        if ignoring:
            ignoring = not raw.startswith("..")
            continue
        if not raw.startswith((".", "'")):
            text = _unescape(raw)
            if not filled:
                lines.append("    " + text)
            elif text.strip():
                paragraph.append(text.strip())
            else:
                flush()
                lines.append("")
            continue
        macro, _, rest = raw[1:].lstrip().partition(" ")
        if macro in ("de", "ig"):
            ignoring = True
        elif macro == "TH":
            lines.append(" ".join(_arguments(rest)[:2]))
        elif macro in ("SH", "SS"):
            flush()
            lines += ["", " ".join(_arguments(rest)), ""]
        elif macro in ("nf", "EX", "Vb"):
            flush()
            filled = False
        elif macro in ("fi", "EE", "Ve"):
            filled = True
        elif macro in _MAN_FONT or macro in _MAN_ALTERNATING:
            text = ("" if macro in _MAN_ALTERNATING else " ").join(_arguments(rest))
            if filled:
                paragraph.append(text)
            else:
                lines.append("    " + text)
        elif macro in _MAN_PARAGRAPH:
            flush()
            lines.append("")
            if macro == "IP" and rest:
                paragraph.append(_arguments(rest)[0])
    flush()
    return _squeeze_blank_lines("\n".join(lines))


def _arguments(rest):
    found = re.findall(r'"((?:[^"]|"")*)"?|((?:\\.|[^\s\\])+)', rest)
    return [_unescape(quoted or bare) for quoted, bare in found] or [""]


def _unescape(text):
    for pattern, replacement in _MAN_ESCAPES:
        text = pattern.sub(replacement, text)
    return text


_POD_ESCAPE = {"lt": "<", "gt": ">", "verbar": "|", "sol": "/"}


def from_pod(source):
    """Text of a POD file: commands lose their '=head' words, formatting codes keep their content."""
    lines = []
    inside = False
    for line in source.splitlines():
        if line.startswith("=") and len(line) > 1 and line[1].isalpha():
            command, _, rest = line.partition(" ")
            inside = command not in ("=cut", "=begin", "=for")
            if command.startswith("=head") or command == "=item":
                lines.append(rest)
            continue
        if inside:
            lines.append(line)
    text = "\n".join(lines)
    text = re.sub(r"E<(\w+)>", lambda m: _POD_ESCAPE.get(m.group(1), ""), text)
    for _ in range(3):  # codes nest, rarely deeper than three
        text = re.sub(r"[BCFISX]<(?:<+ )?([^<>]*?)(?: >+)?>", r"\1", text)
        text = re.sub(r"L<(?:([^<>|]*)\|)?([^<>]*)>", lambda m: m.group(1) or m.group(2), text)
    return _squeeze_blank_lines(text)


def _squeeze_blank_lines(text):
    text = re.sub(r"[ \t]+\n|(?m:^\\$)", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
