//! libFuzzer's way into [`outrider_fuzz::cloud`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrider_fuzz::cloud::check(input));
