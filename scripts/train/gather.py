#!/usr/bin/env python3
"""Step 1: downloads the Debian packages of packages.txt and takes their sources and documentation.

    gather.py WORK

Writes WORK/debs/*.deb, WORK/documents.jsonl (kind, package, path, text) and manifest.json beside this file: package, version, SHA-256,
licences as the package's copyright file names them, documents and bytes taken. Only the packages count; no file of the machine is read.
"""

import gzip
import hashlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile

import plain_text

HERE = pathlib.Path(__file__).resolve().parent
CODE_SUFFIXES = (".py", ".h", ".hpp", ".hh", ".c", ".cc", ".cpp")
SHORTEST_DOCUMENT = 400        # characters; shorter files are stubs
LONGEST_DOCUMENT = 60_000      # characters kept of a file, so that no single file weighs much
LONGEST_TARBALL_MEMBER = 400_000
# Of the kernel's tree only the parts that read like other C programs; drivers are mostly tables of registers.
KERNEL_FOLDERS = ("kernel", "mm", "lib", "fs", "net", "block", "ipc", "crypto", "security", "init", "tools")
ENGLISH = re.compile(r"\b(the|of|and|to|this|with)\b", re.I)
ENGLISH_SHARE = 0.05           # least share of such words, and of "the" alone, in English documentation
THE_SHARE = 0.015
FURNITURE_SHARE = 0.2          # a short line found in this share of a package's pages is navigation, not text
FURNITURE_PAGES = 20


def read_package_list():
    entries = []
    for line in (HERE / "packages.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kind, package = line.split()
            entries.append((kind, package))
    return entries


def download(packages, folder):
    """Fetches what is missing with apt-get; returns {package: path}."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages if not list(folder.glob(package + "_*.deb"))]
    for start in range(0, len(missing), 40):
        subprocess.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *missing[start:start + 40]], cwd=folder, check=True)
    return {package: next(folder.glob(package + "_*.deb")) for package in packages}


def decode(name, data):
    if name.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except OSError:
            return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def looks_written(text):
    """False for generated files, tables and data in a source's clothes."""
    lines = text.splitlines()
    longest = max(map(len, lines), default=0)
    digits = sum(text.count(digit) for digit in "0123456789")
    return longest < 1500 and len(text) / max(1, len(lines)) < 100 and digits < 0.15 * len(text)


def code_document(name, data):
    text = decode(name, data)
    return text if text and looks_written(text) else None


def prose_document(name, data):
    bare = name.removesuffix(".gz")
    is_man = re.search(r"/man/man\d/[^/]+\.\d\w*$", bare)
    if not (is_man or bare.endswith((".html", ".htm", ".txt", ".pod", ".rst", ".xhtml"))):
        return None
    if re.search(r"/(genindex|index_|.*-index|py-modindex|licen[cs]e|copyright|changelog)[^/]*$|_source\.html$|/_sources/|/core/arch/", bare, re.I):
        return None
    text = decode(name, data)
    if not text:
        return None
    if is_man:
        text = plain_text.from_man(text)
    elif bare.endswith(".pod"):
        text = plain_text.from_pod(text)
    elif bare.endswith(("html", ".htm")):
        text = plain_text.from_html(text)
    words = len(text.split())
    sample = text[:20_000]
    found = [word.lower() for word in ENGLISH.findall(sample)]
    sampled_words = max(1, len(sample.split()))
    digits = sum(sample.count(digit) for digit in "0123456789")
    if words < 60 or len(found) < ENGLISH_SHARE * sampled_words or found.count("the") < THE_SHARE * sampled_words:
        return None
    if digits > 0.15 * len(sample):
        return None
    return text


def kernel_member_wanted(name):
    parts = name.split("/")
    return not parts[0].startswith("linux-source-") or (len(parts) > 2 and parts[1] in KERNEL_FOLDERS)


def source_members(tar):
    """(name, bytes) of every source file in a stream, looking into tarballs under usr/src and the like."""
    for member in tar:
        if not member.isfile() or member.size == 0:
            continue
        if member.name.endswith((".tar.xz", ".tar.gz", ".tar.bz2")):
            with tarfile.open(fileobj=io.BytesIO(tar.extractfile(member).read()), mode="r|*") as inner:
                for nested in inner:
                    if nested.isfile() and nested.size < LONGEST_TARBALL_MEMBER and nested.name.endswith(CODE_SUFFIXES) \
                            and kernel_member_wanted(nested.name):
                        yield nested.name, inner.extractfile(nested).read()
        elif member.size < LONGEST_TARBALL_MEMBER or "/doc/" in member.name:
            yield member.name, tar.extractfile(member).read()


def drop_furniture(documents):
    """Removes the lines that most web pages of a package share: menus, headers, footers."""
    manuals = [document for document in documents if "/man/" in document[0]]
    documents = [document for document in documents if "/man/" not in document[0]]
    if len(documents) < FURNITURE_PAGES:
        return manuals + documents
    seen = {}
    for _, text in documents:
        for line in {line.strip() for line in text.splitlines() if 0 < len(line) < 120}:
            seen[line] = seen.get(line, 0) + 1
    furniture = {line for line, count in seen.items() if count > FURNITURE_SHARE * len(documents) and len(line) > 2}
    return manuals + [(name, re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in text.splitlines() if line.strip() not in furniture)).strip() + "\n")
            for name, text in documents]


def licences(copyright_text):
    """Short licence names of a copyright file, most frequent first: its License fields, or else the common licences it points to."""
    names = re.findall(r"(?m)^License:[ \t]*(\S[^\n]*)$", copyright_text or "")
    names = names or re.findall(r"/usr/share/common-licenses/([\w.+-]*[\w+])", copyright_text or "")
    counted = {}
    for name in names:
        name = name.strip()[:40]
        counted[name] = counted.get(name, 0) + 1
    return sorted(counted, key=lambda name: (-counted[name], name))[:5]


def take(kind, package, path):
    """Reads one .deb through dpkg-deb; returns its manifest entry and its documents."""
    convert = code_document if kind == "code" else prose_document
    documents = []
    copyright_text = None
    process = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
        for name, data in source_members(tar):
            if name.endswith(f"/doc/{package}/copyright"):
                copyright_text = decode(name, data)
            if kind == "code" and not name.endswith(CODE_SUFFIXES):
                continue
            text = convert(name, data)
            if text and len(text) >= SHORTEST_DOCUMENT and "\0" not in text:
                documents.append((name.removeprefix("./"), text[:LONGEST_DOCUMENT]))
    process.stdout.close()
    if process.wait() != 0:
        raise RuntimeError(f"dpkg-deb cannot read {path}")
    if kind == "prose":
        documents = [(name, text) for name, text in drop_furniture(documents) if len(text) >= SHORTEST_DOCUMENT]
    version = subprocess.run(["dpkg-deb", "-f", path, "Version"], capture_output=True, text=True, check=True).stdout.strip()
    entry = {
        "kind": kind,
        "package": package,
        "version": version,
        "sha256": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest(),
        "licences": licences(copyright_text),
        "documents": len(documents),
        "bytes": sum(len(text.encode()) for _, text in documents),
    }
    return entry, documents


def main(work):
    entries = read_package_list()
    paths = download([package for _, package in entries], work / "debs")
    manifest = []
    with open(work / "documents.jsonl", "w", encoding="utf-8") as output:
        for kind, package in entries:
            entry, documents = take(kind, package, paths[package])
            manifest.append(entry)
            for name, text in documents:
                output.write(json.dumps({"kind": kind, "package": package, "path": name, "text": text}, ensure_ascii=False) + "\n")
            print(f"{kind:5} {package:28} {entry['documents']:6} documents {entry['bytes'] / 1e6:7.1f} MB", flush=True)
    (HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    for kind in ("code", "prose"):
        print(kind, "total MB", sum(entry["bytes"] for entry in manifest if entry["kind"] == kind) / 1e6)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
