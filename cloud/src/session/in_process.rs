//! Sessions for callers in this process: texts that the target writes alone, without frames or a connection.

use std::{net::IpAddr, sync::Arc};

use outrider_codec::frame::{ErrorCode, ErrorFrame, Frame, Request, Tokens};
use outrider_speculation::session::cloud::{CloudOutput, CloudSession, Shaping, TargetInfo};
use tokio::time::Instant;

use crate::{
    log_limits::client_event,
    metrics::SessionMeter,
    target::{TargetSlot, engine::Drafter},
};

/// A slot of the target and the session on it, for one text after another.
pub(crate) struct InProcessSession<'s> {
    session: CloudSession,
    slot: &'s TargetSlot,
    client: IpAddr,
    meter: SessionMeter<'s>,
    drafter: Option<Drafter>,
    /// False once the server's own draft model has failed or had no slot.
    drafts_itself: bool,
}

impl<'s> InProcessSession<'s> {
    /// Opens a session without a generation.
    pub(crate) fn new(slot: &'s TargetSlot, target: TargetInfo, client: IpAddr) -> Self {
        let meter = SessionMeter::new(slot.metrics(), client);
        let session = CloudSession::in_process(target);
        Self { session, slot, client, meter, drafter: None, drafts_itself: true }
    }

    /// The slot that the session is on.
    pub(crate) fn slot(&self) -> &'s TargetSlot {
        self.slot
    }

    /// Begins a text, replacing the one under way. `shaping` changes the target's logits.
    pub(crate) fn generate(&mut self, request: Request, shaping: Option<Arc<dyn Shaping>>) {
        self.slot.rest();
        self.session.generate(request);
        if let Some(shaping) = shaping {
            self.session.shape(shaping);
        }
        self.meter.observe(self.session.events());
    }

    /// Waits for the next tokens of the text.
    ///
    /// # Errors
    /// The error frame that ends the text.
    pub(crate) async fn next(&mut self) -> Result<Tokens, ErrorFrame> {
        loop {
            match self.session.next_frame() {
                Some(Frame::Tokens(tokens)) => return Ok(tokens),
                Some(Frame::Error(error)) => return Err(error),
                Some(_) => continue,
                None => {}
            }
            let mut prices = self.slot.prices();
            prices.own_draft = prices.own_draft.filter(|_| self.drafts_itself);
            prices.looks_up &= self.drafts_itself;
            self.session.set_prices(prices);
            match self.session.poll() {
                Some(CloudOutput::Verify(pass)) => {
                    // The draft model reads the prompt while the target does.
                    if pass.forward.keep == 0 && self.session.may_draft() {
                        self.drafter = self.drafter.take().or_else(|| self.slot.drafter());
                        self.drafter.iter_mut().for_each(|drafter| drafter.read(&pass.forward.tokens));
                    }
                    let began = Instant::now();
                    match self.slot.judge(pass).await {
                        Ok(judgement) => {
                            self.session.pass_took(began.elapsed());
                            self.session.handle_judgement(judgement);
                        }
                        Err(error) => {
                            client_event!(WARN, self.client, "a pass failed", %error);
                            error.tell(&mut self.session);
                        }
                    }
                    self.meter.observe(self.session.events());
                }
                Some(CloudOutput::Draft(wanted)) => {
                    let (drafter, ids) = super::draft(self.drafter.take(), self.slot, wanted).await;
                    (self.drafts_itself, self.drafter) = (drafter.is_some(), drafter);
                    self.session.handle_drafts(ids);
                }
                Some(CloudOutput::Hold(_)) => self.session.end_hold(),
                // There are no guesses to offer, nothing is sent, and no Shape comes.
                Some(CloudOutput::Offer(_) | CloudOutput::Shape(_)) => {}
                Some(CloudOutput::Send(_) | CloudOutput::Close) | None => {
                    let text = "The generation was lost.".to_owned();
                    return Err(ErrorFrame { generation: 0, code: ErrorCode::Internal, text });
                }
            }
        }
    }

    /// Ends the session early, for a reason.
    pub(crate) fn close(&mut self, code: ErrorCode, text: &str) -> ErrorFrame {
        self.session.close(code, text);
        self.meter.observe(self.session.events());
        ErrorFrame { generation: 0, code, text: text.to_owned() }
    }
}
