//! Traces for OpenTelemetry, in a build with the feature `otel`.
//!
//! Spans are sent over OTLP (HTTP) in batches, by a thread of their own. The variables of the environment are those of
//! the specification: `OTEL_EXPORTER_OTLP_ENDPOINT` turns traces on, and `OTEL_SERVICE_NAME`,
//! `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS` and others mean what they mean everywhere.

use std::env;

use axum::http::HeaderMap;
use opentelemetry::{
    propagation::{Extractor, TextMapPropagator},
    trace::TracerProvider,
};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::registry::LookupSpan;

/// Variables of which one has to be set for traces to be sent.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// Running export of traces to a collector. Dropping it sends the last ones.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        let _ = self.0.shutdown();
    }
}

/// Starts the export of traces if the environment names an endpoint.
pub(crate) fn start<S>() -> Option<(OpenTelemetryLayer<S, SdkTracer>, Traces)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    ENDPOINTS.iter().find_map(env::var_os)?;
    let exporter = SpanExporter::builder().with_http().build().ok()?;
    let resource = Resource::builder();
    let resource = match env::var_os("OTEL_SERVICE_NAME") {
        None => resource.with_service_name("outrider"),
        Some(_) => resource,
    };
    let provider = SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("outrider"));
    Some((layer, Traces(provider)))
}

/// Makes a span part of the trace that a request's `traceparent` names.
pub(crate) fn adopt(span: &Span, headers: &HeaderMap) {
    let parent = TraceContextPropagator::new().extract(&Headers(headers));
    let _ = span.set_parent(parent);
}

struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
