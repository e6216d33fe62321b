//! Counting of one session's work.

use std::{net::IpAddr, sync::Arc, time::Instant};

use outrider_speculation::session::cloud::CloudEvent;
use prometheus_client::metrics::{counter::Counter, family::Family};

use super::{CLOUD_ONLY, Label, Metrics, SessionMetrics};
use crate::{
    keys::{Key, KeySession},
    log_limits::client_event,
};

/// Labels of positions in a round; later positions share the last.
const POSITIONS: [&str; 17] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17+"];

/// Scheme label of bytes before the first generation. Bytes after a generation count as its own.
const NO_SCHEME: &str = "none";

/// Meter of one session, which updates metrics and writes to the log.
#[derive(Debug)]
pub(crate) struct SessionMeter<'m> {
    metrics: &'m SessionMetrics,
    client: IpAddr,
    scheme: &'static str,
    opened: Instant,
    generations: u32,
    generation: Option<Progress>,
    /// Key that tokens count towards.
    key: Option<Arc<Key>>,
}

/// Progress of a generation so far.
#[derive(Debug)]
struct Progress {
    asked: Instant,
    /// Time of the latest committed tokens.
    latest: Option<Instant>,
    tokens: usize,
    rounds: u32,
    proposed: usize,
    accepted: usize,
}

impl<'m> SessionMeter<'m> {
    /// A meter for a session of this client.
    pub(crate) fn new(metrics: &'m Metrics, client: IpAddr) -> Self {
        let metrics = &metrics.sessions;
        Self { metrics, client, scheme: NO_SCHEME, opened: Instant::now(), generations: 0, generation: None, key: None }
    }

    /// Also counts the tokens towards the limits of this key.
    pub(crate) fn billing(mut self, session: Option<&KeySession>) -> Self {
        self.key = session.map(KeySession::key);
        self
    }

    /// Counts a frame of `bytes` bytes that was received and handled; `events` are its results.
    pub(crate) fn received(&mut self, bytes: usize, events: &[CloudEvent]) {
        self.observe(events);
        self.count(&self.metrics.received, bytes);
    }

    /// Counts a frame of `bytes` bytes that is sent.
    pub(crate) fn sent(&self, bytes: usize) {
        self.count(&self.metrics.sent, bytes);
    }

    /// Counts the events of a call to the session.
    pub(crate) fn observe(&mut self, events: &[CloudEvent]) {
        for event in events {
            match *event {
                CloudEvent::Started { scheme } => self.start(scheme.map_or(CLOUD_ONLY, |scheme| scheme.name())),
                CloudEvent::Judged { proposed, accepted, committed, resampled } => {
                    self.judged(proposed, accepted);
                    self.count(&self.metrics.resampled, usize::from(resampled));
                    self.committed(committed);
                }
                CloudEvent::Wrote { tokens, judged, accepted, branched, own } => {
                    let metrics = self.metrics;
                    let (all, right) = match own {
                        true => (&metrics.own_drafts, &metrics.own_drafts_right),
                        false => (&metrics.guesses_judged, &metrics.guesses_right),
                    };
                    self.count(all, judged);
                    self.count(right, accepted);
                    self.count(&metrics.guesses_branched, branched);
                    self.committed(tokens);
                }
                CloudEvent::Guessed { came, late } => {
                    self.count(&self.metrics.guesses, came);
                    self.count(&self.metrics.guesses_late, late);
                }
                CloudEvent::Finished(finish) => self.end(finish.name()),
                CloudEvent::Cancelled => self.end("cancelled"),
                CloudEvent::Failed(code) => {
                    let cause = code.name();
                    self.metrics.errors.get_or_create(&[("cause", cause)]).inc();
                    client_event!(INFO, self.client, "the client was told an error", cause);
                    self.end(cause);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, scheme: &'static str) {
        self.scheme = scheme;
        self.generations += 1;
        self.metrics.generating.inc();
        self.generation =
            Some(Progress { asked: Instant::now(), latest: None, tokens: 0, rounds: 0, proposed: 0, accepted: 0 });
    }

    fn judged(&mut self, proposed: usize, accepted: usize) {
        self.count(&self.metrics.proposed, proposed);
        self.count(&self.metrics.accepted, accepted);
        for (drafts, family) in [(proposed, &self.metrics.proposed_at), (accepted, &self.metrics.accepted_at)] {
            for position in 0..drafts {
                family.get_or_create(&[("position", POSITIONS[position.min(POSITIONS.len() - 1)])]).inc();
            }
        }
        if let Some(generation) = &mut self.generation {
            generation.rounds += 1;
            generation.proposed += proposed;
            generation.accepted += accepted;
        }
    }

    fn committed(&mut self, tokens: usize) {
        self.count(&self.metrics.committed, tokens);
        if let Some(key) = &self.key {
            key.used(0, tokens as u64);
        }
        let Some(generation) = self.generation.as_mut().filter(|_| tokens > 0) else { return };
        let now = Instant::now();
        match generation.latest {
            None => self.metrics.first_token.observe((now - generation.asked).as_secs_f64()),
            Some(latest) => {
                let each = (now - latest).as_secs_f64() / tokens as f64;
                (0..tokens).for_each(|_| self.metrics.inter_token.observe(each));
            }
        }
        generation.latest = Some(now);
        generation.tokens += tokens;
    }

    fn end(&mut self, end: &'static str) {
        let Some(generation) = self.generation.take() else { return };
        self.metrics.generating.dec();
        let Progress { asked, tokens, rounds, proposed, accepted, .. } = generation;
        client_event!(
            INFO,
            self.client,
            "generation ended",
            end,
            tokens,
            rounds,
            proposed,
            accepted,
            scheme = self.scheme,
            seconds = rounded(asked.elapsed().as_secs_f64())
        );
    }

    fn count(&self, family: &Family<Label, Counter>, amount: usize) {
        if amount > 0 {
            family.get_or_create(&[("scheme", self.scheme)]).inc_by(amount as u64);
        }
    }
}

impl Drop for SessionMeter<'_> {
    fn drop(&mut self) {
        self.end("disconnected");
        let seconds = rounded(self.opened.elapsed().as_secs_f64());
        client_event!(INFO, self.client, "session closed", generations = self.generations, seconds);
    }
}

/// Rounds to milliseconds, for readers of the log.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use outrider_codec::{
        frame::{ErrorCode, Finish},
        scheme::SchemeParameters,
    };

    use super::*;
    use crate::metrics::EngineLimits;

    #[test]
    fn a_generation_is_counted_under_its_scheme() {
        let metrics = Metrics::new(EngineLimits::default(), "portable", "bit-identical");
        let mut meter = SessionMeter::new(&metrics, Ipv4Addr::LOCALHOST.into());
        meter.received(50, &[]);
        meter.received(100, &[CloudEvent::Started { scheme: Some(SchemeParameters::Coupled) }]);
        meter.received(20, &[]);
        meter.observe(&[CloudEvent::Judged { proposed: 4, accepted: 2, committed: 3, resampled: true }]);
        meter.sent(30);
        assert_eq!(metrics.sessions.generating.get(), 1);
        let judged = CloudEvent::Judged { proposed: 20, accepted: 20, committed: 21, resampled: false };
        meter.observe(&[judged, CloudEvent::Finished(Finish::Eos)]);
        meter.received(7, &[CloudEvent::Started { scheme: None }]);
        let wrote = CloudEvent::Wrote { tokens: 3, judged: 4, accepted: 2, branched: 1, own: false };
        let own = CloudEvent::Wrote { tokens: 1, judged: 6, accepted: 0, branched: 0, own: true };
        let guessed = CloudEvent::Guessed { came: 5, late: 1 };
        meter.observe(&[guessed, wrote, own, CloudEvent::Failed(ErrorCode::Internal)]);
        drop(meter);
        let text = metrics.text();
        for line in [
            "outrider_received_bytes_total{scheme=\"none\"} 50",
            "outrider_received_bytes_total{scheme=\"coupled\"} 120",
            "outrider_received_bytes_total{scheme=\"cloud-only\"} 7",
            "outrider_sent_bytes_total{scheme=\"coupled\"} 30",
            "outrider_draft_tokens_proposed_total{scheme=\"coupled\"} 24",
            "outrider_draft_tokens_accepted_total{scheme=\"coupled\"} 22",
            "outrider_draft_positions_proposed_total{position=\"4\"} 2",
            "outrider_draft_positions_accepted_total{position=\"4\"} 1",
            "outrider_draft_positions_accepted_total{position=\"17+\"} 4",
            "outrider_tokens_resampled_total{scheme=\"coupled\"} 1",
            "outrider_tokens_committed_total{scheme=\"coupled\"} 24",
            "outrider_tokens_committed_total{scheme=\"cloud-only\"} 4",
            "outrider_guesses_total{scheme=\"cloud-only\"} 5",
            "outrider_guesses_late_total{scheme=\"cloud-only\"} 1",
            "outrider_guesses_judged_total{scheme=\"cloud-only\"} 4",
            "outrider_guesses_right_total{scheme=\"cloud-only\"} 2",
            "outrider_guesses_branched_total{scheme=\"cloud-only\"} 1",
            "outrider_own_drafts_judged_total{scheme=\"cloud-only\"} 6",
            "outrider_time_to_first_token_seconds_count 2",
            "outrider_inter_token_seconds_count 22",
            "outrider_pass_held_seconds_count 0",
            "outrider_sessions_generating 0",
            "outrider_errors_total{cause=\"internal\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
