//! libFuzzer's way into [`outrider_fuzz::edge`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrider_fuzz::edge::check(input));
