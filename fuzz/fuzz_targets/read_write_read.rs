//! What is read and written reads back equal, in every spelling; equal values have one canonical spelling.
#![no_main]

use edn_bridge::edn;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(forms) = edn::read_all(input) else { return };
    for value in forms {
        let mut compact = Vec::new();
        edn::write_compact(&value, &mut compact);
        let again = edn::read_one(&compact).expect("what is written can be read");
        assert_eq!(again, value);

        let mut pretty = Vec::new();
        edn::write_pretty(&value, 40, &mut pretty);
        assert_eq!(edn::read_one(&pretty).expect("what is written can be read"), value);

        let (mut canonical, mut second) = (Vec::new(), Vec::new());
        edn::write_canonical(&value, &mut canonical);
        let again = edn::read_one(&canonical).expect("what is written can be read");
        assert_eq!(again, value);
        edn::write_canonical(&again, &mut second);
        assert_eq!(canonical, second);

        let mut wire = Vec::new();
        edn::write_wire(&value, &mut wire);
        assert!(!wire.contains(&b'\n'));
        assert_eq!(value.clone().into_owned(), value);
    }
});
