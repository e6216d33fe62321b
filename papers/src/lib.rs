//! Research: what the papers predict, what experiments find, and how both are shown.
//!
//! | module | what it does |
//! |---|---|
//! | [`theory`] | the papers' closed forms, and the tables that follow from them alone |
//! | [`choose`] | chooses the way of writing that computes least on the server at a wanted quality |
//! | [`explain`] | compares a generation with what the closed forms predict of it |
//! | [`reproduce`] | the papers' tables and figures, by experiments |
//! | [`training`] | trains the heads that score a draft's hidden state: a gate and a stop rule |
//! | [`report`] | tables, charts, numbers with their errors, and the files they are left in |
//!
//! A server needs none of it: the program `outrider` has it as the default feature `papers`. This crate loads no models
//! by name and knows no sockets. The program hands it models, and sessions of them as
//! [`Ends`](reproduce::sessions::Ends).

pub mod choose;
pub mod explain;
pub mod report;
pub mod reproduce;
pub mod theory;
pub mod training;

#[cfg(test)]
mod built_in;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
