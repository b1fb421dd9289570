"""Makes a wheel or an npm package, which carries a finished program and nothing else that runs.

    python3 packaging/pip_npm.py wheel|npm PROGRAM VERSION TARGET LICENCES FOLDER

TARGET is the triple that PROGRAM was built for, LICENCES the text of the libraries' licences. Prints the name of the file
that it writes to FOLDER. Times are SOURCE_DATE_EPOCH, so that one program gives the same bytes.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import sys
import tarfile
import time
import zipfile

SUMMARY = "A coding agent for the terminal, for Emacs and for programs that speak EDN"
LICENCE = "MIT OR Apache-2.0"
# What npm calls a processor.
PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}


def licences(text):
    """The licence files of a package: those of the program, and what is said of its libraries."""
    return {"LICENSE-MIT": pathlib.Path("LICENSE-MIT").read_bytes(),
            "LICENSE-APACHE": pathlib.Path("LICENSE-APACHE").read_bytes(),
            "licences-of-dependencies.txt": pathlib.Path(text).read_bytes()}


def platforms(target):
    """The systems that take the wheel, as pip names them. A static program runs with any C library."""
    processor = target.split("-")[0]
    if target.endswith("-musl"):
        return f"manylinux_2_17_{processor}.manylinux2014_{processor}.musllinux_1_1_{processor}"
    # A program is linked to the functions of the system that built it, at the newest.
    library, version = platform.libc_ver()
    if library != "glibc":
        raise SystemExit(f"the C library of this system is {library or 'unknown'}, not glibc: no wheel can name it")
    return f"manylinux_{version.replace('.', '_')}_{processor}"


def wheel(program, version, target, text, folder):
    tag = f"py3-none-{platforms(target)}"
    info = f"edn_bridge-{version}.dist-info"
    texts = licences(text)
    fields = ["Metadata-Version: 2.4", "Name: edn-bridge", f"Version: {version}", f"Summary: {SUMMARY}",
              f"License-Expression: {LICENCE}", *(f"License-File: {name}" for name in texts), "Requires-Python: >=3.8"]
    tags = [f"Tag: py3-none-{system}" for system in platforms(target).split(".")]
    about = ["Wheel-Version: 1.0", "Generator: edn-bridge", "Root-Is-Purelib: false", *tags]
    files = {f"edn_bridge-{version}.data/scripts/edn-bridge": program, f"{info}/METADATA": lines(fields),
             f"{info}/WHEEL": lines(about)}
    files.update({f"{info}/licenses/{name}": content for name, content in texts.items()})
    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = lines([*record, f"{info}/RECORD,,"])
    path = folder / f"edn_bridge-{version}-{tag}.whl"
    # A zip counts from 1980.
    moment = max(time.gmtime(epoch())[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, so that the mode counts.
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            packed.writestr(entry, content)
    return path


def npm(program, version, target, text, folder):
    processor = PROCESSORS.get(target.split("-")[0])
    if processor is None:
        raise SystemExit(f"npm has no name for the processor of {target}")
    about = {"name": "edn-bridge", "version": version, "description": SUMMARY, "license": LICENCE,
             "bin": {"edn-bridge": "bin/edn-bridge"}, "os": ["linux"], "cpu": [processor]}
    if not target.endswith("-musl"):
        about["libc"] = ["glibc"]
    files = {"package.json": json.dumps(about, indent=2).encode() + b"\n", "bin/edn-bridge": program, **licences(text)}
    path = folder / f"edn-bridge-{version}-npm.tgz"
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mtime = len(content), epoch()
            entry.mode = 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return path


def epoch():
    return int(os.environ["SOURCE_DATE_EPOCH"])


def lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main():
    kind, program, version, target, text, folder = sys.argv[1:]
    make = {"wheel": wheel, "npm": npm}[kind]
    print(make(pathlib.Path(program).read_bytes(), version, target, text, pathlib.Path(folder)).name)


main()
