"""Lists what a build of the program contains: an SBOM (CycloneDX 1.5) and the texts of all licences.

    python3 packaging/inside.py PREFIX VERSION [options of cargo that choose the build]

Writes PREFIX.cdx.json and PREFIX.licences.txt. Only what is in the program counts: no build scripts, macros or tests.
Cargo does not know of the C and C++ sources within a crate; NATIVE adds them.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

# The crate that brings a library in another language: its name, licence, folder, and where that says its version.
NATIVE = {
    "llama-cpp-sys-2": ("llama.cpp", "MIT", "llama.cpp", "CMakeLists.txt",
                        r"set\(LLAMA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)\)"),
    "libsqlite3-sys": ("SQLite", "blessing", "sqlite3", "sqlite3.h", r'#define SQLITE_VERSION\s+"([^"]+)"'),
}
LICENCE_FILE = re.compile(r"(licen[sc]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def cargo(*args):
    return subprocess.run(["cargo", *args], check=True, stdout=subprocess.PIPE, text=True).stdout


def crates(selection):
    """The packages in the program, as `cargo metadata` describes them, and the checksum of each."""
    tree = cargo("tree", "--locked", "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}", *selection)
    inside = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--all-features"))["packages"]
    lock = pathlib.Path("Cargo.lock").read_text(encoding="utf-8")
    entries = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"', lock)
    sums = {(name, version): checksum for name, version, checksum in entries}
    found = [p for p in packages if (p["name"], "v" + p["version"]) in inside and p["name"] != "edn-bridge"]
    return sorted(found, key=lambda p: (p["name"], p["version"])), sums


def native(package):
    name, licence, path, stated, pattern = NATIVE[package["name"]]
    folder = pathlib.Path(package["manifest_path"]).parent / path
    version = ".".join(re.findall(pattern, (folder / stated).read_text(encoding="utf-8")))
    return name, version, licence, folder


def texts(folder):
    """The licence files of a folder, in order."""
    return [file for file in sorted(folder.iterdir()) if file.is_file() and LICENCE_FILE.match(file.name)]


def main():
    prefix, version, selection = sys.argv[1], sys.argv[2], sys.argv[3:]
    packages, sums = crates(selection)
    components, lines, notices, without = [], [], {}, []
    for package in packages:
        name, number, licence = package["name"], package["version"], package["license"] or "see its files"
        purl = f"pkg:cargo/{name}@{number}"
        component = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl,
                     "licenses": [{"expression": licence.replace("/", " OR ")}]}
        if (name, number) in sums:
            component["hashes"] = [{"alg": "SHA-256", "content": sums[name, number]}]
        folder = pathlib.Path(package["manifest_path"]).parent
        files = texts(folder)
        if name in NATIVE:
            library, its_version, its_licence, place = native(package)
            component["components"] = [{"type": "library", "bom-ref": f"{purl}#{library}", "name": library,
                                        "version": its_version, "licenses": [{"license": {"id": its_licence}}]}]
            files += texts(place)
            licence += f"; contains {library} {its_version} ({its_licence})"
        components.append(component)
        if not files and package["source"]:
            without.append(f"{name} {number}")
        lines.append(f"{name} {number}: {licence}\n")
        for file in files:
            text = file.read_text(encoding="utf-8", errors="replace").strip()
            notices.setdefault(text, []).append(f"{name} {number}")
    root = f"pkg:cargo/edn-bridge@{version}"
    # The same components give the same document.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([root, selection, components]))
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}", "version": 1,
           "metadata": {"component": {"type": "application", "bom-ref": root, "name": "edn-bridge", "version": version,
                                      "purl": root, "licenses": [{"expression": "MIT OR Apache-2.0"}]}},
           "components": components}
    with open(f"{prefix}.cdx.json", "w", encoding="utf-8") as file:
        json.dump(bom, file, indent=1)
        file.write("\n")
    head = [f"The program edn-bridge {version} contains these libraries. The texts of their licences follow.\n\n"]
    if without:
        lines.append(f"\nThese name their licence but bring no text of it: {', '.join(without)}.\n")
    shown = [f"\n{'=' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{text}\n" for text, names in notices.items()]
    pathlib.Path(f"{prefix}.licences.txt").write_text("".join(head + lines + shown), encoding="utf-8")
    print(f"{len(components)} crates, {os.path.getsize(f'{prefix}.licences.txt')} bytes of licences")


main()
