//! The guarantees of a journal: acknowledged entries exist, in order, once; failed ones do not; nothing is
//! overwritten; and each fault is named.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    dead_code,
    reason = "tests"
)]

use crate::store_support;

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;

use edn_bridge::limits::JOURNAL_LINE_BYTES;
use edn_bridge::store::{
    Durability, Entry, EntryBody, FileOps, JournalFault, Journals as _, Repaired, StoreError, SystemFiles,
};
use store_support::*;

#[test]
fn torn_line_is_removed_and_reported() {
    let place = Place::new();
    let path = place.session("s-1", 3);
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in last + 1..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let loaded = place.store.open_file(&path).unwrap();
        let offset = last as u64;
        if cut == whole.len() - 1 {
            assert_eq!(loaded.faults, [JournalFault::NoLineFeed { offset }]);
            assert_eq!(ids(&loaded.entries), ["e0", "e1", "e2"]);
        } else {
            assert_eq!(
                loaded.faults,
                [JournalFault::TornTail { offset, length: (cut - last) as u64 }],
                "cut at {cut}"
            );
            assert_eq!(ids(&loaded.entries), ["e0", "e1"]);
            assert_eq!(fs::read(&path).unwrap(), whole[..last]);
        }
        let next = loaded.entries.len();
        append(&loaded.journal, &chain(Some(next - 1), 1)).unwrap();
        drop(loaded);
        let again = place.store.open_file(&path).unwrap();
        assert_eq!(again.faults, []);
        assert_eq!(again.entries.len(), next + 1);
    }
}

#[test]
fn entries_that_were_written_together_are_there_together() {
    let place = Place::new();
    let path = place.session("s-1", 2);
    let before = fs::read(&path).unwrap();
    let loaded = place.store.open_file(&path).unwrap();
    append(&loaded.journal, &chain(Some(1), 3)).unwrap();
    drop(loaded);
    let whole = fs::read(&path).unwrap();
    // Also where a line ends: a kill cuts a write off at any byte.
    for cut in before.len() + 1..whole.len() - 1 {
        fs::write(&path, &whole[..cut]).unwrap();
        let loaded = place.store.open_file(&path).unwrap();
        let (offset, length) = (before.len() as u64, (cut - before.len()) as u64);
        assert_eq!(loaded.faults, [JournalFault::TornTail { offset, length }], "cut at {cut}");
        assert_eq!(ids(&loaded.entries), ["e0", "e1"]);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    for (cut, faults) in [(whole.len(), 0), (whole.len() - 1, 1)] {
        fs::write(&path, &whole[..cut]).unwrap();
        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!(ids(&loaded.entries), ["e0", "e1", "e2", "e3", "e4"]);
        assert_eq!(loaded.faults.len(), faults);
    }
}

#[test]
fn garbage_in_middle_is_skipped_and_hides_nothing() {
    let garbages: [&[u8]; 6] = [
        b"\x00\xff\xfe\x80",
        b"",
        b"{:id \"e1\"",
        b"{:a 1} {:b 2}",
        b"[1 2 3]",
        b"{:id \"x\" :type :message}",
    ];
    for garbage in garbages {
        let place = Place::new();
        let path = place.session("s-1", 4);
        let bytes = fs::read(&path).unwrap();
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // The header is the first line, so that e1 is the third.
        lines[2] = garbage;
        let damaged = lines.join(&b'\n');
        fs::write(&path, &damaged).unwrap();

        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!(ids(&loaded.entries), ["e0", "e2", "e3"], "{garbage:?}");
        let offset = (lines[0].len() + lines[1].len() + 2) as u64;
        assert_eq!(
            loaded.faults,
            [
                JournalFault::Unreadable { line: 3, offset },
                JournalFault::LostParent { entry: "e2".into(), parent: "e1".into() }
            ]
        );
        // The history before the damage stays on the branch.
        assert_eq!(loaded.entries[1].parent.as_ref().unwrap().as_str(), "e0");
        assert_eq!(fs::read(&path).unwrap(), damaged, "opening changes nothing");
        append(&loaded.journal, &chain(Some(3), 1)).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&damaged));
    }
}

#[test]
fn file_without_header_is_named_and_untouched() {
    let place = Place::new();
    let path = place.session("s-1", 1);
    let whole = fs::read(&path).unwrap();
    let header = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for (bytes, reason) in [
        (b"".to_vec(), "it is empty"),
        (whole[..1].to_vec(), "cut off"),
        (whole[..header - 1].to_vec(), "cut off"),
        (b"not edn {\n".to_vec(), "first line is not EDN"),
        (b"{:a 1}\n".to_vec(), "no :edn-bridge"),
        (whole[header..].to_vec(), "no :edn-bridge"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let error = place.store.open_file(&path).unwrap_err();
        assert!(matches!(error, StoreError::NoHeader { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn file_of_newer_program_is_named_and_untouched() {
    let place = Place::new();
    let path = place.session("s-1", 1);
    let newer = fs::read_to_string(&path).unwrap().replace(":format 1", ":format 7");
    assert!(newer.contains(":format 7"));
    fs::write(&path, &newer).unwrap();
    let error = place.store.open_file(&path).unwrap_err().to_string();
    assert!(error.contains("has format 7; this program reads up to 1"), "{error}");
    assert!(place.store.verify(&path).is_err());
    assert!(place.store.repair(&path).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn lock_names_holder_and_ends_with_it() {
    let place = Place::new();
    let path = place.session("s-1", 1);
    let first = place.store.open_file(&path).unwrap();
    let error = place.store.open_file(&path).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(place.store.repair(&path).is_err());
    assert_eq!(place.store.read_file(&path).unwrap().entries.len(), 1, "reading needs no lock");
    drop(first);
    assert!(!path.with_extension("edn.lock").exists());
    // What a process that was killed leaves behind.
    fs::write(path.with_extension("edn.lock"), "process 999999\n").unwrap();
    place.store.open_file(&path).unwrap();
}

#[test]
fn failed_append_leaves_file_unchanged() {
    use {Act::*, Call::*};
    for (plan, said) in [
        (vec![(Write, Full(10))], "No space left"),
        (vec![(Write, Short(5)), (Write, Full(7))], "No space left"),
        (vec![(Write, Errno(EIO))], "Input/output error"),
        (vec![(Sync, Errno(EIO))], "Input/output error"),
        // The attempt to undo fails too; it is made up for before the next write.
        (vec![(Write, Full(10)), (Cut, Errno(EIO))], "No space left"),
        (vec![(Sync, Errno(EIO)), (Sync, Errno(EIO))], "Input/output error"),
    ] {
        let place = Place::new();
        let path = place.session("s-1", 2);
        let journal = place.store.open_file(&path).unwrap().journal;
        let before = fs::read(&path).unwrap();
        for (call, act) in &plan {
            place.disk.plan(*call, *act);
        }
        let error = append(&journal, &chain(Some(1), 1)).unwrap_err().to_string();
        assert!(error.contains(said), "{plan:?}: {error}");
        if !plan.contains(&(Cut, Errno(EIO))) {
            assert_eq!(fs::read(&path).unwrap(), before, "{plan:?}");
        }
        assert!(place.disk.done().len() > plan.len());
        place.disk.heal();
        append(&journal, &[entry("after", Some("e1"), "after")]).unwrap();
        drop(journal);
        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!(loaded.faults, [], "{plan:?}");
        assert_eq!(ids(&loaded.entries), ["e0", "e1", "after"], "{plan:?}");
    }
}

/// What somebody does to the file of an open session or its lock, and how the refusal begins after the path.
type Tampering = (&'static str, fn(&Path, &Path), &'static str);

const TAMPERINGS: &[Tampering] = &[
    ("remove", |file, _| fs::remove_file(file).unwrap(), "was removed"),
    ("move", |file, _| fs::rename(file, file.with_extension("moved")).unwrap(), "was removed"),
    ("move the folder", |file, _| move_folder(file), "was removed"),
    ("replace the folder", |file, _| replace_folder(file), "was replaced"),
    ("replace", |file, _| replace(file), "was replaced"),
    ("link over", |file, _| link_over(file), "was replaced"),
    (
        "empty",
        |file, _| fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap(),
        "was changed",
    ),
    (
        "cut",
        |file, _| fs::File::options().write(true).open(file).unwrap().set_len(200).unwrap(),
        "was changed",
    ),
    ("write over", |file, _| write_over(file), "was changed"),
    ("write over and put the times back", |file, _| write_over_with_its_times(file), "was changed"),
    ("append", |file, _| add(file, b"{}\n"), "was changed"),
    ("append through a hard link", |file, _| add_through_link(file), "was changed"),
    ("remove the lock", |_, lock| fs::remove_file(lock).unwrap(), "was removed, or taken"),
    ("replace the lock", |_, lock| replace(lock), "was removed, or taken"),
    // What a file system does that says yes to a second holder.
    ("write to the lock", |_, lock| fs::write(lock, "process 1\n").unwrap(), "was removed, or taken"),
];

fn move_folder(file: &Path) {
    let folder = file.parent().unwrap();
    fs::rename(folder, folder.with_extension("moved")).unwrap();
}

fn replace_folder(file: &Path) {
    move_folder(file);
    let folder = file.parent().unwrap();
    let copied =
        std::process::Command::new("cp").arg("-r").arg(folder.with_extension("moved")).arg(folder).status();
    assert!(copied.unwrap().success());
}

fn replace(file: &Path) {
    let copy = file.with_extension("copy");
    fs::copy(file, &copy).unwrap();
    fs::rename(copy, file).unwrap();
}

fn link_over(file: &Path) {
    fs::rename(file, file.with_extension("moved")).unwrap();
    fs::write(file.with_extension("other"), "").unwrap();
    std::os::unix::fs::symlink(file.with_extension("other"), file).unwrap();
}

fn add(file: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    fs::File::options().append(true).open(file).unwrap().write_all(bytes).unwrap();
}

/// With the same length.
fn write_over(file: &Path) {
    std::os::unix::fs::FileExt::write_at(&fs::File::options().write(true).open(file).unwrap(), b"?", 200)
        .unwrap();
}

fn write_over_with_its_times(file: &Path) {
    let found = fs::metadata(file).unwrap();
    write_over(file);
    let times = fs::FileTimes::new().set_modified(found.modified().unwrap());
    fs::File::options().write(true).open(file).unwrap().set_times(times).unwrap();
}

fn add_through_link(file: &Path) {
    fs::hard_link(file, file.with_extension("link")).unwrap();
    add(&file.with_extension("link"), b"{}\n");
}

fn all_bytes(folder: &Path) -> Vec<u8> {
    let mut folders = vec![folder.to_owned()];
    let mut bytes = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => bytes.extend(fs::read(path).unwrap()),
            }
        }
    }
    bytes
}

#[test]
fn append_to_tampered_journal_is_refused() {
    for durability in [Durability::Full, Durability::Relaxed] {
        for (name, tamper, said) in TAMPERINGS {
            let place = Place::new();
            let path = place.session("s-1", 3);
            let store = edn_bridge::store::Store::new(place.folder.path(), durability).unwrap();
            let loaded = store.open_file(&path).unwrap();
            append(&loaded.journal, &chain(Some(2), 1)).unwrap();
            tamper(&path, &path.with_extension("edn.lock"));
            for _ in 0..2 {
                let error = append(&loaded.journal, &[entry("e4", Some("e3"), "REFUSED")]).unwrap_err();
                assert!(matches!(*error, StoreError::Changed { .. }), "{name}: {error}");
                let error = error.to_string();
                assert!(
                    error.contains(said) && error.contains("Nothing was written; /fork"),
                    "{name}: {error}"
                );
            }
            // A fork is what is left to do.
            let entries: Vec<_> = loaded.entries.iter().cloned().chain(chain(Some(2), 1)).collect();
            let fork = store.create_with(header("s-2"), &mut entries.into_iter()).unwrap();
            append(&fork, &chain(Some(3), 1)).unwrap();
            drop((loaded, fork));
            drop(store);
            let bytes = all_bytes(place.folder.path());
            assert!(!bytes.windows(7).any(|part| part == b"REFUSED"), "{name}");
        }
    }
}

#[test]
fn journal_that_is_moved_back_goes_on() {
    let place = Place::new();
    let path = place.session("s-1", 2);
    let journal = place.store.open_file(&path).unwrap().journal;
    let away = path.with_extension("away");
    fs::rename(&path, &away).unwrap();
    append(&journal, &chain(Some(1), 1)).unwrap_err();
    fs::rename(&away, &path).unwrap();
    append(&journal, &chain(Some(1), 1)).unwrap();
    // Other times, another mode and another link change nothing.
    fs::hard_link(&path, path.with_extension("link")).unwrap();
    assert!(
        std::process::Command::new("touch")
            .arg("-d")
            .arg("2001-01-01")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    append(&journal, &chain(Some(2), 1)).unwrap();
    drop(journal);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(ids(&place.store.open_file(&path).unwrap().entries), ["e0", "e1", "e2", "e3"]);
}

/// Between the write and the look after it.
#[test]
fn tampering_during_a_sync_acknowledges_only_what_stays() {
    for (name, tamper, _) in TAMPERINGS.iter().filter(|(name, ..)| !name.contains("lock")) {
        let place = Place::new();
        let path = place.session("s-1", 3);
        let journal = place.store.open_file(&path).unwrap().journal;
        let file = path.clone();
        place.disk.meanwhile(Call::Sync, move || tamper(&file, &file));
        let appended = append(&journal, &[entry("e3", Some("e2"), "ASKED")]);
        // What stands before somebody else's line is there, and is read again.
        let stays = name.contains("append");
        assert_eq!(appended.is_ok(), stays, "{name}: {appended:?}");
        append(&journal, &[entry("e4", Some("e3"), "REFUSED")]).unwrap_err();
        drop(journal);
        let bytes = all_bytes(place.folder.path());
        assert_eq!(
            bytes.windows(5).any(|part| part == b"ASKED"),
            stays || *name == "replace" || *name == "replace the folder",
            "{name}"
        );
        if stays {
            assert_eq!(
                ids(&place.store.read_file(&path).unwrap().entries),
                ["e0", "e1", "e2", "e3"],
                "{name}"
            );
        }
    }
}

#[test]
fn second_holder_of_a_lock_ends_the_first() {
    let place = Place::new();
    let path = place.session("s-1", 1);
    let first = place.store.open_file(&path).unwrap().journal;
    append(&first, &chain(Some(0), 1)).unwrap();
    let lock = path.with_extension("edn.lock");
    fs::remove_file(&lock).unwrap();
    let other = edn_bridge::store::Store::new(place.folder.path(), Durability::Full).unwrap();
    let second = other.open_file(&path).unwrap();
    assert_eq!(ids(&second.entries), ["e0", "e1"]);
    for number in 0..5 {
        append(&second.journal, &chain(Some(number + 1), 1)).unwrap();
        let error = append(&first, &[entry("x", Some("e1"), "x")]).unwrap_err();
        assert!(matches!(*error, StoreError::Changed { .. }), "{error}");
    }
    // The first one leaves the lock of the second alone.
    drop(first);
    append(&second.journal, &chain(Some(6), 1)).unwrap();
    assert!(matches!(place.store.open_file(&path), Err(StoreError::Locked { .. })));
    drop(second);
    let loaded = place.store.open_file(&path).unwrap();
    assert_eq!((ids(&loaded.entries), loaded.faults), (ids(&chain(None, 8)), vec![]));
}

#[test]
fn refused_bytes_that_stay_are_cut_at_the_next_opening() {
    use {Act::*, Call::*};
    for plan in [
        vec![(Sync, Errno(EIO)), (Cut, Errno(EIO))],
        vec![(Write, Full(90)), (Cut, Errno(EIO))],
        // Cut, but perhaps not on the disk.
        vec![(Sync, Errno(EIO)), (Cut, Errno(EIO)), (Cut, Errno(EIO))],
    ] {
        let place = Place::new();
        let path = place.session("s-1", 2);
        let before = fs::read(&path).unwrap();
        let journal = place.store.open_file(&path).unwrap().journal;
        for (call, act) in &plan {
            place.disk.plan(*call, *act);
        }
        append(&journal, &chain(Some(1), 1)).unwrap_err();
        if plan.len() > 2 {
            append(&journal, &chain(Some(1), 1)).unwrap_err();
        }
        // A kill lets go of the lock as this does, and leaves its file as well.
        drop(journal);
        assert!(fs::read(&path).unwrap().len() > before.len(), "{plan:?}");
        assert_eq!(ids(&place.store.read_file(&path).unwrap().entries), ["e0", "e1"], "{plan:?}");
        assert_eq!(place.store.verify(&path).unwrap().entries, 2, "{plan:?}");
        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!(ids(&loaded.entries), ["e0", "e1"], "{plan:?}");
        assert!(matches!(loaded.faults[..], [JournalFault::Refused { .. }]), "{:?}", loaded.faults);
        append(&loaded.journal, &chain(Some(1), 1)).unwrap();
        drop(loaded);
        assert!(!path.with_extension("edn.lock").exists(), "{plan:?}");
        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!((ids(&loaded.entries), loaded.faults), (ids(&chain(None, 3)), vec![]), "{plan:?}");
    }
}

#[test]
fn note_of_refused_bytes_cuts_nothing_else() {
    use {Act::*, Call::*};
    let place = Place::new();
    let path = place.session("s-1", 2);
    let journal = place.store.open_file(&path).unwrap().journal;
    place.disk.plan(Sync, Errno(EIO));
    place.disk.plan(Cut, Errno(EIO));
    append(&journal, &chain(Some(1), 1)).unwrap_err();
    drop(journal);
    let note = fs::read_to_string(path.with_extension("edn.lock")).unwrap();
    // Another file, as a backup that was put back, and one that is longer than what was refused.
    for longer in [false, true] {
        fs::write(path.with_extension("edn.lock"), &note).unwrap();
        let bytes = fs::read(&path).unwrap();
        match longer {
            true => add(&path, &chain(Some(2), 1)[0].line()),
            false => {
                fs::rename(&path, path.with_extension("old")).unwrap();
                fs::write(&path, bytes).unwrap();
            }
        }
        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!(loaded.entries.len(), if longer { 4 } else { 3 });
        assert_eq!(loaded.faults, []);
        drop(loaded);
        assert!(!path.with_extension("edn.lock").exists());
        if !longer {
            fs::rename(path.with_extension("old"), &path).unwrap();
        }
    }
}

#[test]
fn short_writes_are_continued() {
    let place = Place::new();
    for _ in 0..50 {
        place.disk.plan(Call::Write, Act::Short(7));
    }
    let path = place.session("s-1", 3);
    assert_eq!(place.store.open_file(&path).unwrap().faults, []);
    assert!(place.disk.done().iter().filter(|call| **call == Call::Write).count() > 50);
}

#[test]
fn failed_creation_leaves_nothing_and_can_be_repeated() {
    use {Act::*, Call::*};
    for (call, act, said) in [
        (Folder, Errno(EROFS), "Read-only file system"),
        (Folder, Errno(EACCES), "--state-dir"),
        (Lock, Errno(EROFS), "Cannot lock"),
        (Create, Errno(EACCES), "Permission denied"),
        (Write, Full(20), "Make room"),
        (Sync, Errno(EIO), "Input/output error"),
        (SyncFolder, Errno(EIO), "Input/output error"),
    ] {
        let place = Place::new();
        // So that the first sync of a folder is the one after the file.
        fs::create_dir_all(place.store.project_dir("/p".as_ref())).unwrap();
        place.disk.plan(call, act);
        let journal = place.store.create(header("s-1"));
        let error = append(&journal, &chain(None, 2)).unwrap_err().to_string();
        assert!(error.contains(said), "{call:?}: {error}");
        assert!(!path_of(&journal).exists(), "{call:?}");
        append(&journal, &chain(None, 2)).unwrap();
        let path = path_of(&journal);
        drop(journal);
        assert_eq!(ids(&place.store.open_file(&path).unwrap().entries), ["e0", "e1"], "{call:?}");
    }
}

#[test]
fn read_only_folder_is_reported_at_opening() {
    let place = Place::new();
    let path = place.session("s-1", 1);
    for errno in [EROFS, EACCES] {
        place.disk.plan(Call::Open, Act::Errno(errno));
        let error = place.store.open_file(&path).unwrap_err().to_string();
        assert!(error.contains("Cannot open") && error.contains("sessions show"), "{error}");
        assert_eq!(place.store.read_file(&path).unwrap().entries.len(), 1);
    }
    let missing = path.with_file_name("s-2.edn");
    assert!(matches!(place.store.open_file(&missing).unwrap_err(), StoreError::Missing { .. }));
    assert!(!missing.with_extension("edn.lock").exists());
}

#[test]
fn existing_journal_is_never_overwritten() {
    let place = Place::new();
    let journal = place.store.create(header("s-1"));
    fs::create_dir_all(path_of(&journal).parent().unwrap()).unwrap();
    fs::write(path_of(&journal), "somebody else's").unwrap();
    append(&journal, &chain(None, 1)).unwrap_err();
    assert_eq!(fs::read_to_string(path_of(&journal)).unwrap(), "somebody else's");
    assert!(place.store.create_with(header("s-1"), &mut chain(None, 1).into_iter()).is_err());
    assert_eq!(fs::read_to_string(path_of(&journal)).unwrap(), "somebody else's");
    let (from, to) = (place.folder.path().join("from"), place.folder.path().join("to"));
    fs::write(&from, "a").unwrap();
    fs::write(&to, "b").unwrap();
    SystemFiles.rename(&from, &to).unwrap_err();
    assert_eq!(fs::read_to_string(&to).unwrap(), "b");
}

#[test]
fn full_durability_waits_for_sync_and_relaxed_does_not() {
    for (durability, syncs) in [(Durability::Full, 1), (Durability::Relaxed, 0)] {
        let place = Place::with(durability);
        let journal = place.store.create(header("s-1"));
        let (sender, receiver) = channel();
        let disk = place.disk.clone();
        journal.append(&chain(None, 1), move |result| {
            result.unwrap();
            sender.send(disk.done().iter().filter(|call| **call == Call::Sync).count()).unwrap();
        });
        assert_eq!(receiver.recv().unwrap(), syncs, "{durability:?}");
        let path = path_of(&journal);
        // The end of the program waits for the disk either way.
        let Place { folder: _folder, disk, store } = place;
        drop((journal, store));
        assert_eq!(disk.synced(&path), fs::metadata(&path).unwrap().len(), "{durability:?}");
    }
}

#[test]
fn concurrent_appends_share_a_sync() {
    let place = Place::new();
    let path = place.session("s-1", 1);
    let journal = place.store.open_file(&path).unwrap().journal;
    let before = place.disk.done().len();
    let (sender, receiver) = channel();
    let entries = chain(Some(0), 200);
    for entry in &entries {
        let sender = sender.clone();
        journal.append(std::slice::from_ref(entry), move |result| sender.send(result).unwrap());
    }
    for _ in &entries {
        receiver.recv().unwrap().unwrap();
    }
    let calls = place.disk.done();
    let syncs = calls[before..].iter().filter(|call| **call == Call::Sync).count();
    assert!(syncs < entries.len(), "{syncs} syncs for {} appends", entries.len());
    drop(journal);
    assert_eq!(place.store.open_file(&path).unwrap().entries.len(), 201);
}

/// Random failures of every kind, with a power cut after each session: what was acknowledged is there.
#[test]
fn write_errors_and_power_cuts_lose_no_acknowledged_entry() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut acknowledged, mut refused, mut cuts) = (0, 0, 0);
    for round in 0..150 {
        let place = Place::new();
        let journal = place.store.create(header("s-1"));
        let path = path_of(&journal);
        let mut kept: Vec<String> = Vec::new();
        for number in 0..12 {
            if dice.roll(3) == 0 {
                let size = dice.roll(80);
                let errno = [EIO, ENOSPC][dice.roll(2)];
                let (call, act) = [
                    (Call::Write, Act::Short(size)),
                    (Call::Write, Act::Full(size)),
                    (Call::Write, Act::Errno(errno)),
                    (Call::Sync, Act::Errno(errno)),
                    (Call::Cut, Act::Errno(errno)),
                    (Call::SyncFolder, Act::Errno(errno)),
                ][dice.roll(6)];
                place.disk.plan(call, act);
            }
            let id = format!("r{round}-{number}");
            let one = entry(&id, kept.last().map(String::as_str), &"x".repeat(dice.roll(200)));
            match append(&journal, &[one]) {
                Ok(()) => kept.push(id),
                Err(_) => refused += 1,
            }
        }
        drop(journal);
        drop(place.store);
        if !path.exists() {
            assert!(kept.is_empty());
            continue;
        }
        // The power goes: of what was not synced, some part is there, or none, or zeros.
        let bytes = fs::read(&path).unwrap();
        let sure = usize::try_from(place.disk.synced(&path)).unwrap().min(bytes.len());
        let some = sure + dice.roll(bytes.len() - sure + 1);
        let mut left = bytes[..some].to_vec();
        if dice.roll(2) == 0 {
            left.extend(vec![0; dice.roll(40)]);
        }
        cuts += 1;
        fs::write(&path, &left).unwrap();
        let store = edn_bridge::store::Store::new(place.folder.path(), Durability::Full).unwrap();
        let loaded = match store.open_file(&path) {
            Ok(loaded) => loaded,
            Err(error) => panic!("round {round}: {error}, {} acknowledged", kept.len()),
        };
        let there = ids(&loaded.entries);
        acknowledged += kept.len();
        // All of them, in order; what was refused may not stand between them.
        assert_eq!(there.iter().filter(|id| kept.contains(id)).cloned().collect::<Vec<_>>(), kept);
        assert!(there.starts_with(&kept), "round {round}: {kept:?} {there:?}");
        drop(loaded);
        assert_eq!(store.verify(&path).unwrap().faults, []);
    }
    println!("write errors {refused}, power cuts {cuts}, acknowledged {acknowledged}, lost 0");
    assert!(acknowledged > 500 && refused > 100 && cuts > 100, "{acknowledged} {refused} {cuts}");
}

#[test]
fn entry_that_could_not_be_read_back_is_refused() {
    let place = Place::new();
    let journal = place.store.create(header("s-1"));
    append(&journal, &[entry("e0", None, "short")]).unwrap();
    // Each of these characters takes six.
    let text = |characters: usize| "\u{1}".repeat(characters);
    let longest = (JOURNAL_LINE_BYTES - 1000) / 6;
    append(&journal, &[entry("e1", Some("e0"), &text(longest))]).unwrap();
    let error = append(&journal, &[entry("e2", Some("e1"), &text(longest + 200))]).unwrap_err();
    assert!(matches!(*error, StoreError::TooLong { .. }), "{error}");
    append(&journal, &[entry("e3", Some("e1"), "after")]).unwrap();
    let path = path_of(&journal);
    drop(journal);
    let loaded = place.store.open_file(&path).unwrap();
    assert_eq!((ids(&loaded.entries), loaded.faults), (vec!["e0".into(), "e1".into(), "e3".into()], vec![]));
}

#[test]
fn repair_keeps_readable_entries_and_original_file() {
    let place = Place::new();
    let path = place.session("s-1", 4);
    let bytes = fs::read(&path).unwrap();
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines[2] = b"garbage".to_vec();
    // An entry twice, and a torn tail.
    lines[5] = lines[4].clone();
    lines.push(b"{:id \"torn".to_vec());
    let damaged = lines.join(&b'\n');
    fs::write(&path, &damaged).unwrap();
    let report = place.store.verify(&path).unwrap();
    assert_eq!(report.entries, 3);
    assert_eq!(report.faults.len(), 4, "{:?}", report.faults);
    assert_eq!(fs::read(&path).unwrap(), damaged, "a check changes nothing");

    let Some(Repaired::Rewritten { copy }) = place.store.repair(&path).unwrap() else { panic!() };
    assert_eq!(fs::read(copy).unwrap(), damaged);
    assert_eq!(place.store.verify(&path).unwrap().faults, []);
    assert_eq!(ids(&place.store.open_file(&path).unwrap().entries), ["e0", "e2", "e3"]);
    assert_eq!(place.store.repair(&path).unwrap(), None);
}

#[test]
fn repair_restores_header_and_sets_empty_file_aside() {
    let place = Place::new();
    place.session("s-1", 1);
    let path = place.session("s-2", 2);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("gone\n{}", text.split_once('\n').unwrap().1)).unwrap();
    assert!(place.store.open_file(&path).is_err());
    assert!(matches!(place.store.repair(&path).unwrap(), Some(Repaired::Rewritten { .. })));
    let loaded = place.store.open_file(&path).unwrap();
    assert_eq!((loaded.header.session.as_str(), &*loaded.header.cwd), ("s-2", "/p"));
    assert_eq!(ids(&loaded.entries), ["e0", "e1"]);

    let empty = path.with_file_name("s-3.edn");
    fs::write(&empty, "{:edn-bridge \"ses").unwrap();
    let Some(Repaired::SetAside { to }) = place.store.repair(&empty).unwrap() else { panic!() };
    assert_eq!(fs::read_to_string(to).unwrap(), "{:edn-bridge \"ses");
    assert!(!empty.exists());
}

#[test]
fn failed_repair_changes_nothing() {
    use {Act::*, Call::*};
    for (call, act) in [(Write, Full(9)), (Sync, Errno(EIO)), (Rename, Errno(EIO)), (Create, Errno(EROFS))] {
        let place = Place::new();
        let path = place.session("s-1", 3);
        let mut damaged = fs::read(&path).unwrap();
        damaged.extend_from_slice(b"{:torn");
        fs::write(&path, &damaged).unwrap();
        place.disk.plan(call, act);
        place.store.repair(&path).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), damaged, "{call:?}");
        assert!(place.store.repair(&path).unwrap().is_some());
        assert_eq!(place.store.open_file(&path).unwrap().entries.len(), 3);
    }
}

#[test]
fn fork_gets_its_name_once_it_is_on_disk() {
    use {Act::*, Call::*};
    let entries = chain(None, 5_000);
    for (call, act) in [(Write, Full(100)), (Sync, Errno(EIO)), (Rename, Errno(EIO)), (Create, Errno(ENOSPC))]
    {
        let place = Place::new();
        place.disk.plan(call, act);
        assert!(place.store.create_with(header("s-1"), &mut entries.iter().cloned()).is_err());
        assert_eq!(place.store.all_files().unwrap().paths, Vec::<std::path::PathBuf>::new(), "{call:?}");
        let journal = place.store.create_with(header("s-1"), &mut entries.iter().cloned()).unwrap();
        append(&journal, &chain(Some(4_999), 1)).unwrap();
        let path = path_of(&journal);
        assert_eq!(journal.bytes(), fs::metadata(&path).unwrap().len());
        drop(journal);
        let loaded = place.store.open_file(&path).unwrap();
        assert_eq!(loaded.faults, []);
        // Long enough to be read on several threads.
        assert_eq!(ids(&loaded.entries), ids(&chain(None, 5_001)));
    }
    let place = Place::new();
    let path = place.session("s-1", 1).with_file_name("s-9.part");
    fs::write(&path, "{:edn").unwrap();
    assert_eq!(place.store.verify(&path).unwrap().faults, [JournalFault::Unfinished]);
    assert!(matches!(place.store.repair(&path).unwrap(), Some(Repaired::SetAside { .. })));
}

#[test]
fn line_numbers_are_right_in_file_read_in_parts() {
    let place = Place::new();
    let journal = place.store.create_with(header("s-1"), &mut chain(None, 20_000).into_iter()).unwrap();
    let path = path_of(&journal);
    drop(journal);
    let bytes = fs::read(&path).unwrap();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines[17_000] = b"?";
    let offset = lines[..17_000].iter().map(|line| line.len() as u64 + 1).sum();
    fs::write(&path, lines.join(&b'\n')).unwrap();
    let content = place.store.read_file(&path).unwrap();
    assert_eq!(content.entries.len(), 19_999);
    assert_eq!(content.faults[0], JournalFault::Unreadable { line: 17_001, offset });
}

/// A session is asked for by any path. What is no session, and what stands beside it, is left alone.
#[test]
fn foreign_file_and_neighbours_are_untouched() {
    let place = Place::new();
    let folder = place.folder.path();
    fs::write(folder.join("Cargo.toml"), "[package]\n").unwrap();
    fs::write(folder.join("Cargo.lock"), "version = 4\n").unwrap();
    assert!(place.store.open_file(&folder.join("Cargo.toml")).is_err());
    assert_eq!(fs::read_to_string(folder.join("Cargo.lock")).unwrap(), "version = 4\n");
    assert_eq!(fs::read_to_string(folder.join("Cargo.toml")).unwrap(), "[package]\n");
    assert!(!folder.join("Cargo.toml.lock").exists());
}

/// A session has one journal, wherever a client says that it is.
#[test]
fn location_leads_to_session_but_copy_is_refused() {
    let place = Place::new();
    let (path, session) = (place.session("s-1", 2), "s-1".into());
    let [foreign, link, copy] = ["foreign.edn", "link.edn", "copy.edn"].map(|n| place.folder.path().join(n));
    let said = |path: &std::path::Path| place.store.session_at(path.to_str().unwrap());
    fs::rename(&path, &foreign).unwrap();
    std::os::unix::fs::symlink(&foreign, &link).unwrap();
    fs::copy(&foreign, &copy).unwrap();
    assert!(matches!(place.store.open(&session), Err(StoreError::NoSession { .. })));
    assert!(matches!(said(&path), Err(StoreError::Missing { .. })));
    assert_eq!(said(&foreign).unwrap(), session);
    let loaded = place.store.open(&session).unwrap();
    assert_eq!((path_of(&loaded.journal), loaded.entries.len()), (foreign.clone(), 2));
    // It is open: by any path that leads to it, but no copy, whatever its name says.
    assert_eq!(said(&foreign).unwrap(), session);
    assert_eq!(said(&link).unwrap(), session);
    assert!(matches!(said(&copy), Err(StoreError::Copy { .. })));
    fs::copy(&foreign, path.with_file_name("s-2.edn")).unwrap();
    assert!(matches!(place.store.open(&"s-2".into()), Err(StoreError::Copy { .. })));
    // It is closed, and no longer known.
    drop(loaded);
    assert!(matches!(place.store.open(&session), Err(StoreError::NoSession { .. })));
    assert_eq!(said(&copy).unwrap(), session);
    assert_eq!(path_of(&place.store.open(&session).unwrap().journal), copy);
}

#[test]
fn unreadable_folder_is_not_reported_as_empty() {
    let place = Place::new();
    let session = "s-1".into();
    // Nothing was written yet.
    assert_eq!(place.store.look_up(&session).unwrap(), None);
    assert_eq!(place.store.all_files().unwrap().paths, Vec::<std::path::PathBuf>::new());
    let path = place.session("s-1", 1);
    // Beside the projects' folders may be what is none.
    fs::write(place.store.root().join("note"), "").unwrap();
    assert_eq!(place.store.look_up(&session).unwrap(), Some(path.clone()));
    let all = place.store.all_files().unwrap();
    assert_eq!((&all.paths[..], all.closed.len()), (&[path.clone()][..], 0));
    // A folder that cannot be looked into, whoever the user is, is named and takes no others away.
    std::os::unix::fs::symlink("round", place.store.root().join("round")).unwrap();
    let all = place.store.all_files().unwrap();
    assert_eq!(all.paths, [path]);
    let [closed] = &all.closed[..] else { panic!("{:?}", all.closed) };
    assert!(
        closed.to_string().contains("Cannot look into") && closed.to_string().contains("round"),
        "{closed}"
    );
    assert_eq!(place.store.list(None).unwrap().len(), 1);
    let aside = place.folder.path().join("aside");
    fs::rename(place.store.root(), &aside).unwrap();
    fs::write(place.store.root(), "").unwrap();
    for error in [place.store.look_up(&session).map(drop), place.store.all_files().map(drop)] {
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("Cannot look into") && error.contains("Not a directory"), "{error}");
    }
}

/// Sessions as the program wrote them before the types of entries had types here.
const RECORDED: [&[u8]; 2] =
    [include_bytes!("../recorded/worked.edn"), include_bytes!("../recorded/waiting.edn")];

#[test]
fn recorded_entries_are_typed_and_written_alike() {
    let mut kinds = std::collections::BTreeSet::new();
    for line in RECORDED.iter().flat_map(|journal| journal.split_inclusive(|byte| *byte == b'\n').skip(1)) {
        let entry = Entry::read(line).unwrap();
        let text = String::from_utf8_lossy(line);
        assert!(!matches!(entry.body, EntryBody::Other { .. }), "{text}");
        assert_eq!(String::from_utf8_lossy(&entry.line()), text);
        kinds.insert(entry.body.kind().to_owned());
    }
    let all = ["compaction", "context", "dequeued", "manifest", "message", "queued", "rewritten", "workflow"];
    assert_eq!(Vec::from_iter(&kinds), all);
}

#[test]
fn record_of_another_shape_is_kept_as_read() {
    for line in [
        "{:id \"e1\" :parent-id nil :ts \"t\" :type :compaction :first-kept 7}\n",
        "{:id \"e1\" :parent-id nil :ts \"t\" :type :workflow :session-id \"s\" :run-id \"r\" :workflow \"w\" :event \"paused\"}\n",
    ] {
        let entry = Entry::read(line.as_bytes()).unwrap();
        assert!(matches!(entry.body, EntryBody::Other { .. }), "{entry:?}");
        assert_eq!(Entry::read(&entry.line()).unwrap(), entry);
    }
}
