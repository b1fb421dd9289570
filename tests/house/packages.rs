//! The recipes of packages name what is there. `make dist` and `make dist-check` build the packages and try them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn image_copies_only_what_dist_makes() {
    let recipe = read("packaging/Containerfile");
    let copied: Vec<_> = recipe.lines().filter_map(|line| line.strip_prefix("COPY ")).collect();
    assert_eq!(copied, ["edn-bridge_*.deb /tmp/"], "name it in tests/make/dist.sh and here");
    assert!(read("tests/make/dist.sh").contains(r#""$DIST/edn-bridge_${VERSION}_$arch.deb""#));
    assert!(!recipe.contains("ADD "), "an image has nothing of the network but packages");
    let recipe = read("packaging/Containerfile.static");
    let steps: Vec<_> = recipe.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        steps[..2],
        ["FROM scratch", "ADD @NAME@.tar.gz /"],
        "this image has nothing of the network at all"
    );
}

#[test]
fn sources_include_only_files_of_their_package() {
    let packages = ["src/edn", "src/client", "src/contract"].map(|package| root().join(package));
    let own = |file: &Path| packages.iter().find(|package| file.starts_with(package));
    let mut included = 0;
    for file in sources(&root().join("src")) {
        if own(&file).is_some_and(|package| file.starts_with(package.join("tests"))) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for call in ["include_str!(\"", "include_bytes!(\""] {
            for part in text.split(call).skip(1) {
                included += 1;
                let path = file.parent().unwrap().join(part.split('"').next().unwrap());
                let path =
                    path.canonicalize().unwrap_or_else(|_| panic!("{}: {}", file.display(), path.display()));
                let packed = match own(&file) {
                    Some(package) => path.starts_with(package),
                    // As `include` in Cargo.toml says.
                    None => {
                        let ours = path.starts_with(root().join("src")) && own(&path).is_none();
                        ours || path.starts_with(root().join("examples/workflows"))
                    }
                };
                assert!(packed, "{} includes {}, which its package has not", file.display(), path.display());
            }
        }
    }
    assert!(included > 10, "only {included} were found");
}

#[test]
fn emacs_package_has_version_of_program() {
    let line = format!("\n;; Version: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(read("emacs/edn-bridge.el").contains(&line), "Cargo.toml and emacs/edn-bridge.el must agree");
}

#[test]
fn manual_has_every_page() {
    let readme = read("README.md");
    let pages: BTreeSet<_> =
        fs::read_dir(root().join("docs")).unwrap().flatten().map(|page| page.file_name()).collect();
    let missing: Vec<_> =
        pages.iter().filter(|page| !readme.contains(&format!("docs/{}", page.to_string_lossy()))).collect();
    assert!(missing.is_empty(), "tests/make/dist.sh reads the manual's chapters there: {missing:?}");
}

#[test]
fn wheel_and_npm_package_carry_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (program, licences) = (at("program"), at("licences.txt"));
    fs::write(&program, "#!/bin/sh\necho it runs\n").unwrap();
    fs::write(&licences, "serde 1: MIT\n").unwrap();
    let python = |arguments: &[&str]| {
        Command::new("python3")
            .args(arguments)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .current_dir(root())
            .output()
    };
    let Ok(_) = python(&["--version"]) else {
        eprintln!("NOT TRIED: python3 (Debian: python3-minimal) is missing");
        return;
    };
    let ran = |arguments: &[&str]| {
        let output = python(arguments).unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let made = |kind: &str, into: &str| {
        fs::create_dir_all(at(into)).unwrap();
        let (program, licences, into) = (text(&program), text(&licences), at(into));
        let target = "x86_64-unknown-linux-musl";
        let name = ran(&["packaging/pip_npm.py", kind, &program, "1.2.3", target, &licences, &text(&into)]);
        into.join(name)
    };
    let (wheel, npm) = (made("wheel", "first"), made("npm", "first"));
    for (first, second) in [(&wheel, made("wheel", "second")), (&npm, made("npm", "second"))] {
        assert_eq!(fs::read(first).unwrap(), fs::read(&second).unwrap(), "{}", second.display());
    }
    ran(&["-m", "zipfile", "-e", &text(&wheel), &text(&at("wheel"))]);
    ran(&["-m", "tarfile", "-e", &text(&npm), &text(&at("npm"))]);
    let carried = fs::read(&program).unwrap();
    for place in ["wheel/edn_bridge-1.2.3.data/scripts/edn-bridge", "npm/package/bin/edn-bridge"] {
        assert_eq!(fs::read(at(place)).unwrap(), carried, "{place}");
    }
    let info = at("wheel/edn_bridge-1.2.3.dist-info");
    let record = fs::read_to_string(info.join("RECORD")).unwrap();
    for entry in ["METADATA", "WHEEL", "RECORD", "licenses/licences-of-dependencies.txt"] {
        assert!(info.join(entry).is_file() && record.contains(&format!("/{entry},")), "{entry}: {record}");
    }
    let about = fs::read(at("npm/package/package.json")).unwrap();
    let about: serde_json::Value = serde_json::from_slice(&about).unwrap();
    assert_eq!(
        (about["bin"]["edn-bridge"].as_str(), about["cpu"][0].as_str()),
        (Some("bin/edn-bridge"), Some("x64"))
    );
    assert_eq!(about["scripts"], serde_json::Value::Null, "nothing runs when it is installed");
    let mode = fs::metadata(at("npm/package/bin/edn-bridge")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn flake_evaluates_without_nixpkgs() {
    let mut nix = Command::new("nix-instantiate");
    nix.args(["--eval", "--strict", "packaging/flake-test.nix"]).current_dir(root());
    // Its folders, which root may not have.
    let folder = tempfile::tempdir().unwrap();
    for (variable, name) in [("NIX_STATE_DIR", "state"), ("NIX_STORE_DIR", "store"), ("NIX_LOG_DIR", "log")] {
        nix.env(variable, folder.path().join(name));
    }
    let Ok(output) = nix.output() else {
        eprintln!("NOT TRIED: nix-instantiate (Debian: nix-bin) is missing");
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.trim(), "\"holds\"", "{}", String::from_utf8_lossy(&output.stderr));
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
