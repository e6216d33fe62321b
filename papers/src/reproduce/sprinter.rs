//! Sequential approximate verification (Zhong et al.): Figures 1, 3, 5 to 7, 9, 10, 12 and 13 and Tables 1, 2 and 4.
//!
//! The paper continues prefixes of 30 % of Wiki-Summary and LM1B by 20 tokens, with GPT-Neo-125M and 1.3B and with
//! GPT2-small and XL. Here the texts are tales and notes that were written for this and that no model was trained on,
//! the acceptance is that of our pair at the default sampling, and the seconds are those of forward passes of models
//! of the papers' shapes. λ = 1.2 and τ = 0.5 are the paper's (Table 5).
//!
//! | module | what it has |
//! |---|---|
//! | `texts` | two kinds of text, to train on and held out |
//! | `methods` | the methods of Table 2, and what their sessions gave |
//! | `tables` | Tables 1, 2 and 4 |
//! | `tradeoffs` | Figures 1, 7, 9 and 10: quality, latency and operations |
//! | `gates` | Figures 3, 12 and 13, and the gates of Table 4 |
//! | `theorems` | Figures 5 and 6 |

mod gates;
mod methods;
mod tables;
mod texts;
mod theorems;
mod tradeoffs;

pub use gates::{figure3, figure12, figure13};
pub use tables::{table1, table2, table4};
pub use theorems::{figure5, figure6};
pub use tradeoffs::{figure1, figure7, figure9, figure10};
