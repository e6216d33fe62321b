//! Usage of keys, read at each scrape.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::keys::{Keys, Usage};

/// Keys whose usage is exported, once they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyUsage(pub(super) Arc<OnceLock<Keys>>);

impl Collector for KeyUsage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(keys) = self.0.get() else { return Ok(()) };
        type Count = fn(&Usage) -> &AtomicU64;
        let counts: [(&str, &str, MetricType, Count); 5] = [
            ("key_requests", "Requests of the API and sessions, by key", MetricType::Counter, |usage| &usage.requests),
            ("key_refused", "Requests and sessions beyond a limit, by key", MetricType::Counter, |usage| {
                &usage.refused
            }),
            ("key_prompt_tokens", "Tokens of prompts, by key", MetricType::Counter, |usage| &usage.prompt_tokens),
            ("key_completion_tokens", "Tokens of texts, by key", MetricType::Counter, |usage| &usage.completion_tokens),
            ("key_sessions", "Open sessions, by key", MetricType::Gauge, |usage| &usage.sessions),
        ];
        for (name, help, kind, count) in counts {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for key in keys.all() {
                let label = [("key", key.name())];
                let value = count(key.usage()).load(Ordering::Relaxed);
                let encoder = family.encode_family(&label)?;
                match kind {
                    MetricType::Gauge => ConstGauge::new(value).encode(encoder)?,
                    _ => ConstCounter::new(value).encode(encoder)?,
                }
            }
        }
        Ok(())
    }
}
