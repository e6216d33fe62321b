//! libFuzzer's way into [`outrider_fuzz::payload`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrider_fuzz::payload::check(input));
