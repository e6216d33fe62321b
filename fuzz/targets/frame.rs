//! libFuzzer's way into [`outrider_fuzz::frame`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| outrider_fuzz::frame::check(input));
