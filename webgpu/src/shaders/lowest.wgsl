// Logit of tokens that cannot be drawn, below all others; infinity need not exist in WGSL.
const LOWEST = -3.0e38;
