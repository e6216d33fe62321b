//! libFuzzer's way into [`outrider_fuzz::session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrider_fuzz::session::check(input));
