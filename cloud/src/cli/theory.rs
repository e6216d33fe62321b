//! Command `outrider theory`, which prints the papers' closed forms.

use clap::Args;
use outrider_papers::theory::tables::Tables;

use super::output::{CommandError, print};

const SYMBOLS: &str = "\
Symbols:
  p, q      what the target and the draft model give for the next token
  alpha     acceptance rate: how often a draft is accepted; 1 - TV(p, q) on average, TV the total variation distance
  gamma     draft length: tokens drafted in a round; gamma* is the best one
  V, K      vocabulary size, and how many of its tokens are kept of q
  b, c      time to send a whole distribution, and to draft a token, in passes of the target
  L         cost of a draft in passes of the target: c + b K/V
  S_inf     speed-up over the target alone: (1 - alpha^(gamma+1)) / ((1 - alpha) (1 + gamma L))
  ODLD      optimal draft length determination: the gamma at which S_inf is largest
  AS2       adaptive speculative selection: draft only if S_inf(gamma*) > 1, that is if alpha > L
  T_comm    time on the link in a round of DSSD: (1 - alpha^gamma) |V|b/R + NTT
  |V|b/R    time to send a distribution of V probabilities of b bits at rate R
  NTT       non-transmission time: propagation, processing and queues
  eta_TP    how often SPRINTER's gate passes a token that is acceptable (q <= p)
  eta_FP    how often it passes one that is not
  r         how many drafts in a row are acceptable, before one that is not
  t_d       time to draft a token
  E[N]      tokens that the gate passes before it asks the target
  E[T]      time until then: (E[N] + 1) t_d
  gap       what eta_FP adds: unacceptable tokens that are passed, and the time for them
  FLOPs     floating-point operations; F_d, F_v and F_t of the draft model, the gate and the target for a token";

/// Print the papers' tables, from their closed forms
///
/// TK-SLT (Zheng & Yang): Tables I and II. DSSD (Ning et al.): Table 1. SPRINTER (Zhong et al.): Figures 5, 6 and 10
/// and equations 5 and 6, as tables. Nothing is measured: the papers' formulas give every number, and notes say where a
/// paper differs.
#[derive(Debug, Args)]
#[command(after_help = SYMBOLS)]
pub struct Theory {
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

impl Theory {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let Tables { text, json } = Tables::compute();
        print(&if self.json { format!("{json}\n") } else { text });
        Ok(())
    }
}
