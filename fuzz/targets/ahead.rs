//! libFuzzer's way into [`outrider_fuzz::ahead`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrider_fuzz::ahead::check(input));
