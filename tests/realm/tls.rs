//! The way to the engine over a network: a PostgreSQL with a certificate, from an authority of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use edn_bridge::realm::check;
use edn_bridge::secret::Secret;

use crate::promises::run;
use crate::server::{Engine as _, Server};

/// Runs `openssl` in a folder.
fn openssl(folder: &Path, args: &str) {
    let output = Command::new("openssl").args(args.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// Makes an authority, and returns the file with its certificate.
fn authority(folder: &Path, name: &str) -> PathBuf {
    openssl(folder, &format!("req -x509 {KEY} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 30"));
    folder.join(format!("{name}.pem"))
}

/// Makes a certificate of `authority` for a host's name, valid until the end of a year.
fn certificate(folder: &Path, authority: &str, host: &str, until: u32) {
    std::fs::write(
        folder.join("names"),
        format!(
            "subjectAltName=DNS:{host}
"
        ),
    )
    .unwrap();
    std::fs::write(folder.join("index.txt"), "").unwrap();
    std::fs::write(
        folder.join("serial"),
        "01
",
    )
    .unwrap();
    let config = "[ca]
default_ca=d
[d]
database=index.txt
serial=serial
new_certs_dir=.
default_md=sha256
policy=p
                  [p]
commonName=supplied
";
    std::fs::write(folder.join("ca.conf"), config).unwrap();
    openssl(folder, &format!("req {KEY} -keyout engine.key -out engine.csr -subj /CN=engine"));
    openssl(
        folder,
        &format!(
            "ca -config ca.conf -batch -notext -cert {authority}.pem -keyfile {authority}.key -in engine.csr -out engine.pem              -startdate 20200101000000Z -enddate {until}1231235959Z -extfile names"
        ),
    );
}

#[test]
fn certificate_is_verified_with_its_name_and_authority() {
    let Some(mut server) = Server::start() else { return };
    if !Command::new("openssl").arg("version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("LEFT OUT: openssl (Debian: openssl) is missing");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (authority(folder.path(), "ours"), authority(folder.path(), "other"));
    let port = server.port;
    let address = |host: &str, roots: Option<&Path>| {
        let roots = roots.map_or_else(String::new, |roots| format!("&sslrootcert={}", roots.display()));
        Secret::new(format!(
            "postgres://edn@{host}:{port}/postgres?hostaddr=127.0.0.1&sslmode=verify-full{roots}"
        ))
    };
    let check = |host: &str, roots: Option<&Path>| run(check(&address(host, roots)));
    let refused = |host: &str, roots: Option<&Path>| check(host, roots).unwrap_err().to_string();

    let none = refused("db.example", Some(&ours));
    assert!(none.contains("does not support TLS"), "{none}");
    let mut serve = |by: &str, host: &str, until: u32| {
        certificate(folder.path(), by, host, until);
        server.stop();
        for file in ["engine.pem", "engine.key"] {
            std::fs::copy(folder.path().join(file), server.data().join(file)).unwrap();
        }
        server.configure("ssl = on\nssl_cert_file = 'engine.pem'\nssl_key_file = 'engine.key'");
        server.begin();
    };

    serve("ours", "db.example", 2099);
    let check = check("db.example", Some(&ours)).unwrap();
    assert!(check.is_encrypted, "{check:?}");
    let name = refused("localhost", Some(&ours));
    assert!(name.contains("for another name"), "{name}");
    for roots in [Some(other.as_path()), None] {
        let unknown = refused("db.example", roots);
        assert!(unknown.contains("does not trust") && unknown.contains("sslrootcert"), "{unknown}");
    }
    let missing = refused("db.example", Some(&folder.path().join("none.pem")));
    assert!(missing.contains("certificates for the realm's engine cannot be used"), "{missing}");

    serve("ours", "db.example", 2024);
    let expired = refused("db.example", Some(&ours));
    assert!(expired.contains("has expired"), "{expired}");
}
