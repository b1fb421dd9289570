//! Sends the spans of measured work, and metrics made from them, to a receiver that the user named: OpenTelemetry over
//! HTTP. The only file that knows its crates. No turn waits for it: a span that finds the queue full is dropped and
//! counted.

use std::collections::HashMap;
use std::env;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use edn_bridge::config::TelemetryPolicy;
use edn_bridge::http::{self, Http, Url};
use edn_bridge::limits::{
    TELEMETRY_ANSWER_BYTES, TELEMETRY_BATCH, TELEMETRY_END_WAIT, TELEMETRY_PAUSE, TELEMETRY_QUEUE,
    TELEMETRY_TIMEOUT,
};
use edn_bridge::telemetry::{self, TARGET, TEXTS};
use opentelemetry::metrics::{Histogram, MeterProvider as _};
use opentelemetry::trace::{Link, SpanKind, TraceId, TracerProvider as _};
use opentelemetry::{Array, Context, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, RetryPolicy, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    Config, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample, Span, SpanData,
    SpanExporter as _, SpanProcessor,
};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::registry::LookupSpan;

/// What exports, for as long as the process runs.
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    processor: Arc<Processor>,
}

/// The value of a variable, if it has one.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn says(name: &str, word: &str) -> bool {
    env::var(name).is_ok_and(|value| value.trim().eq_ignore_ascii_case(word))
}

/// A number that a variable gives, at least 1 and at most as much as usual times ten.
fn number(name: &str, usual: u64) -> u64 {
    let given = env::var(name).ok().and_then(|value| value.trim().parse::<u64>().ok());
    given.map_or(usual, |number| number.clamp(1, usual.saturating_mul(10)))
}

fn millis(name: &str, usual: Duration) -> Duration {
    Duration::from_millis(number(name, u64::try_from(usual.as_millis()).unwrap_or(u64::MAX)))
}

impl Exporter {
    /// Sets it up as the user's file and the standard variables say, which count more; `None` if neither names a
    /// receiver. Starts nothing before the first span has ended.
    pub(super) fn of(policy: &TelemetryPolicy) -> Option<Self> {
        let target = |signal| Target::of(signal, policy, &variable);
        let plan = Plan { traces: target("traces"), metrics: target("metrics") };
        let shown = plan.traces.as_ref().or(plan.metrics.as_ref())?.shown();
        if says("OTEL_SDK_DISABLED", "true") {
            return None;
        }
        telemetry::export_begins(shown, policy.has_texts);
        let resource = Resource::builder()
            .with_service_name(env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "edn-bridge".to_owned()))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string()))
            .with_attribute(KeyValue::new("process.pid", i64::from(std::process::id())))
            .build();
        let processor = Arc::new(Processor { plan, resource: resource.clone(), running: OnceLock::new() });
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(Measured(Config::default().sampler))
            .with_span_processor(Shared(processor.clone()))
            .build();
        Some(Self { provider, processor })
    }

    /// What turns spans of measured work into those of OpenTelemetry, and nothing else.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
    {
        let wanted = FilterFn::new(|about| match about.target() {
            TARGET => about.is_span(),
            target => target == TEXTS,
        });
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("edn-bridge"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(wanted.with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends what is queued, for a bounded time.
    pub(super) fn end(self) {
        let Some(Some(running)) = self.processor.running.get() else { return };
        let (done, wait) = channel();
        let (queue, meters) = (running.queue.clone(), running.meters.clone());
        let flush = move || {
            let (flushed, wait) = channel();
            if queue.send(Message::Flush(flushed)).is_ok() {
                let _ = wait.recv();
            }
            let _ = meters.map(|meters| meters.force_flush());
            let _ = done.send(());
        };
        let is_begun = std::thread::Builder::new().name("telemetry-end".to_owned()).spawn(flush).is_ok();
        if is_begun && wait.recv_timeout(TELEMETRY_END_WAIT).is_err() {
            tracing::warn!("the receiver of telemetry did not take the last spans in time");
        }
    }
}

/// Where each signal goes; `None` if nothing says it.
#[derive(Debug)]
struct Plan {
    traces: Option<Target>,
    metrics: Option<Target>,
}

/// Where a signal goes.
struct Target {
    /// The address as it is given.
    endpoint: String,
    /// The signal, whose path is added to an address for all signals.
    added: Option<&'static str>,
    headers: HashMap<String, String>,
}

/// Headers are keys, and so may be a part of an address.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("endpoint", &self.shown()).finish_non_exhaustive()
    }
}

impl Target {
    /// The first that names a receiver: the signal's own variable, that of all signals, the user's file.
    fn of(
        signal: &'static str,
        policy: &TelemetryPolicy,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let own = variable(&format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.to_uppercase()));
        let (endpoint, added) = match own {
            Some(own) => (Some(own), None),
            None => (variable("OTEL_EXPORTER_OTLP_ENDPOINT"), Some(signal)),
        };
        if let Some(endpoint) = endpoint {
            // The file's headers are for the receiver that the file names.
            return Some(Self { endpoint, added, headers: HashMap::new() });
        }
        let headers = policy.headers.iter().cloned().collect();
        Some(Self { endpoint: policy.endpoint.clone()?, added, headers })
    }

    /// The address without keys. Which part of a text that is no address is a key, nobody knows.
    fn shown(&self) -> String {
        match Url::parse(self.endpoint.trim()) {
            Ok(url) if url.has_host() => http::without_keys(&self.endpoint).into_owned(),
            _ => "(no address)".to_owned(),
        }
    }

    fn address(&self) -> Result<String, String> {
        let wrong = || "what names the receiver of telemetry is no address".to_owned();
        let mut url = Url::parse(self.endpoint.trim()).map_err(|_| wrong())?;
        if !url.has_host() {
            return Err(wrong());
        }
        if let Some(signal) = self.added {
            url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().extend(["v1", signal]);
        }
        Ok(url.into())
    }
}

/// What runs once there is something to send.
#[derive(Debug)]
struct Running {
    queue: SyncSender<Message>,
    meters: Option<SdkMeterProvider>,
    measures: Option<Measures>,
}

#[derive(Debug)]
enum Message {
    Span(Box<SpanData>),
    /// All before it is to be sent now.
    Flush(Sender<()>),
}

/// Takes ended spans.
#[derive(Debug)]
struct Processor {
    plan: Plan,
    resource: Resource,
    running: OnceLock<Option<Running>>,
}

impl Processor {
    fn running(&self) -> Option<&Running> {
        let running = self.running.get_or_init(|| {
            Running::start(&self.plan, &self.resource)
                .inspect_err(|error| {
                    tracing::warn!(error, "no telemetry is sent");
                    telemetry::exported(0, Some(error.clone()));
                })
                .ok()
        });
        running.as_ref()
    }
}

/// The processor, which the provider owns and the end needs.
#[derive(Debug)]
struct Shared(Arc<Processor>);

impl SpanProcessor for Shared {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        let Some(running) = self.0.running() else { return };
        complete(&mut span);
        if let Some(measures) = &running.measures {
            measures.record(&span);
        }
        if !span.span_context.is_sampled() {
            return;
        }
        match running.queue.try_send(Message::Span(Box::new(span))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                telemetry::dropped(1);
            }
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The sampler that the variables name. What it leaves out is recorded all the same and not sent: the metrics count all
/// work.
#[derive(Debug, Clone)]
struct Measured(Box<dyn ShouldSample>);

impl ShouldSample for Measured {
    fn should_sample(
        &self,
        above: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let result = self.0.should_sample(above, trace, name, kind, attributes, links);
        match result.decision {
            SamplingDecision::Drop => SamplingResult { decision: SamplingDecision::RecordOnly, ..result },
            _ => result,
        }
    }
}

/// Gives a span what `tracing` has no values for: lists, and texts that came as events.
fn complete(span: &mut SpanData) {
    for attribute in &mut span.attributes {
        if attribute.key.as_str() == "gen_ai.response.finish_reasons" {
            let reason = attribute.value.as_str().into_owned();
            attribute.value = Value::Array(Array::String(vec![reason.into()]));
        }
    }
    for event in std::mem::take(&mut span.events.events) {
        let of = |key: &str| event.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        if let (Some(what), Some(text)) = (of("what"), of("text")) {
            let name = what.value.as_str().into_owned();
            span.attributes.push(KeyValue::new(name, text.value.clone()));
        }
    }
}

/// The histograms of the conventions.
#[derive(Debug)]
struct Measures {
    tokens: Histogram<u64>,
    durations: Histogram<f64>,
}

/// The bounds of the histograms that the conventions name.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The attributes of a span that its measures have as well.
const MEASURED_BY: [&str; 5] = [
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.tool.name",
    "error.type",
];

impl Measures {
    fn new(meters: &SdkMeterProvider) -> Self {
        let meter = meters.meter("edn-bridge");
        let tokens = meter
            .u64_histogram("gen_ai.client.token.usage")
            .with_unit("{token}")
            .with_description("Number of input and output tokens used.")
            .with_boundaries(TOKENS.to_vec());
        let durations = meter
            .f64_histogram("gen_ai.client.operation.duration")
            .with_unit("s")
            .with_description("GenAI operation duration.")
            .with_boundaries(SECONDS.to_vec());
        Self { tokens: tokens.build(), durations: durations.build() }
    }

    fn record(&self, span: &SpanData) {
        let of = |key: &str| span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        if of("gen_ai.operation.name").is_none() {
            return;
        }
        let mut by: Vec<KeyValue> = MEASURED_BY.iter().filter_map(|key| of(key).cloned()).collect();
        let passed = span.end_time.duration_since(span.start_time).unwrap_or_default();
        self.durations.record(passed.as_secs_f64(), &by);
        for (key, kind) in [("gen_ai.usage.input_tokens", "input"), ("gen_ai.usage.output_tokens", "output")]
        {
            let Some(Value::I64(count)) = of(key).map(|attribute| &attribute.value) else { continue };
            by.push(KeyValue::new("gen_ai.token.type", kind));
            self.tokens.record(u64::try_from(*count).unwrap_or_default(), &by);
            by.pop();
        }
    }
}

impl Running {
    fn start(plan: &Plan, resource: &Resource) -> Result<Self, String> {
        let failed = |error: ExporterBuildError| http::without_keys(&error.to_string()).into_owned();
        let executor = Executor::start().map_err(|error| error.to_string())?;
        let timeout = millis("OTEL_EXPORTER_OTLP_TIMEOUT", TELEMETRY_TIMEOUT);
        let client = Post { http: Arc::default(), executor: executor.handle.clone(), timeout };
        // More tries would hold up the end of a short process, and let more spans wait.
        let once_more = RetryPolicy::recommended().with_max_retries(1);
        let metrics = match &plan.metrics {
            Some(target) if !says("OTEL_METRICS_EXPORTER", "none") => {
                let builder = opentelemetry_otlp::MetricExporter::builder().with_http();
                let builder = builder.with_http_client(client.clone()).with_headers(target.headers.clone());
                let builder = builder.with_retry_policy(once_more.clone()).with_endpoint(target.address()?);
                Some(builder.build().map_err(failed)?)
            }
            _ => None,
        };
        let exporter = match &plan.traces {
            Some(target) if !says("OTEL_TRACES_EXPORTER", "none") => {
                let builder = opentelemetry_otlp::SpanExporter::builder().with_http();
                let builder = builder.with_http_client(client).with_headers(target.headers.clone());
                let builder = builder.with_retry_policy(once_more).with_endpoint(target.address()?);
                let mut exporter = builder.build().map_err(failed)?;
                exporter.set_resource(resource);
                Some(exporter)
            }
            _ => None,
        };
        let size = number("OTEL_BSP_MAX_QUEUE_SIZE", TELEMETRY_QUEUE);
        let (queue, receiver) = sync_channel(usize::try_from(size).unwrap_or(usize::MAX));
        let mut spans = Spans { executor, exporter, waiting: Vec::new(), dropped: 0, is_told: false };
        let run = move || spans.run(&receiver);
        std::thread::Builder::new()
            .name("telemetry-out".to_owned())
            .spawn(run)
            .map_err(|error| error.to_string())?;
        let meters = metrics.map(|exporter| {
            let reader = PeriodicReader::builder(exporter).build();
            SdkMeterProvider::builder().with_resource(resource.clone()).with_reader(reader).build()
        });
        let measures = meters.as_ref().map(Measures::new);
        Ok(Self { queue, meters, measures })
    }
}

/// What the requests run on. Its end waits for nothing: where exporting cannot start, it ends on a thread of the engine's
/// runtime, which may not wait.
struct Executor {
    handle: tokio::runtime::Handle,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Executor {
    fn start() -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("telemetry").enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The thread that sends spans.
struct Spans {
    executor: Executor,
    exporter: Option<opentelemetry_otlp::SpanExporter>,
    waiting: Vec<SpanData>,
    /// How many were dropped when it last looked.
    dropped: u64,
    /// Whether the log was told that some are dropped, since all went well.
    is_told: bool,
}

impl Spans {
    fn run(&mut self, messages: &Receiver<Message>) {
        let pause = millis("OTEL_BSP_SCHEDULE_DELAY", TELEMETRY_PAUSE);
        let batch = number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", TELEMETRY_BATCH);
        let batch = usize::try_from(batch).unwrap_or(usize::MAX);
        let mut due: Option<Instant> = None;
        loop {
            let next = match due {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => messages.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            let flushed = match next {
                Ok(Message::Span(span)) => {
                    self.waiting.push(*span);
                    due.get_or_insert_with(|| Instant::now() + pause);
                    if self.waiting.len() < batch {
                        continue;
                    }
                    None
                }
                Ok(Message::Flush(flushed)) => Some(flushed),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.send();
            due = None;
            if let Some(flushed) = flushed {
                let _ = flushed.send(());
            }
        }
    }

    /// Sends what is queued, and says what became of it.
    fn send(&mut self) {
        let spans = std::mem::take(&mut self.waiting);
        let (Some(exporter), false) = (&self.exporter, spans.is_empty()) else { return };
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let failure = self.executor.handle.block_on(exporter.export(spans)).err().map(|error| match error {
            OTelSdkError::Timeout(_) => "no answer in time".to_owned(),
            error => http::without_keys(&error.to_string()).into_owned(),
        });
        if failure.is_some() {
            telemetry::dropped(count);
        }
        telemetry::exported(if failure.is_some() { 0 } else { count }, failure.clone());
        let dropped = telemetry::export().dropped;
        let lost = dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped));
        if lost > 0 && !self.is_told {
            let why = failure.as_deref().unwrap_or("more came than could be sent");
            tracing::warn!(
                "{lost} spans of telemetry were dropped: {why}; :psi.telemetry/dropped counts them"
            );
        }
        self.is_told = lost > 0;
    }
}

/// The program's HTTP client, as the exporters want one.
#[derive(Debug, Clone)]
struct Post {
    http: Arc<Http>,
    executor: tokio::runtime::Handle,
    timeout: Duration,
}

impl HttpClient for Post {
    // As `async_trait` writes it, which is no dependency for one method.
    fn send_bytes<'s, 'f>(
        &'s self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        let Self { http, executor, timeout } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let url = Url::parse(&parts.uri.to_string())?;
            let client = http.client(&url)?.clone();
            let post = async move {
                let request = client.post(url).headers(parts.headers).body(body).timeout(timeout);
                let mut answer = request.send().await?;
                let mut bytes = Vec::new();
                // Of an answer, its status counts; a few words of it may help.
                while let Some(part) = answer.chunk().await? {
                    bytes.extend_from_slice(&part);
                    if bytes.len() > TELEMETRY_ANSWER_BYTES {
                        break;
                    }
                }
                let mut response = Response::new(Bytes::from(bytes));
                *response.status_mut() = answer.status();
                *response.headers_mut() = answer.headers().clone();
                Ok(response)
            };
            // The metrics' thread has no executor of its own.
            let posted = executor.spawn(post).await?;
            // An address may hold a key.
            posted.map_err(|error: http::RequestError| error.without_url().into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_the_first_that_something_names() {
        let policy = TelemetryPolicy {
            endpoint: Some("http://file/?key=sesame".to_owned()),
            headers: vec![("x-key".to_owned(), "sesame".to_owned())],
            ..TelemetryPolicy::default()
        };
        let none = TelemetryPolicy::default();
        let (own, general) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
        let of_file = |signal: &str| Some((format!("http://file/v1/{signal}?key=sesame"), 1));
        let of_general = |signal: &str| Some((format!("http://general/x/v1/{signal}"), 0));
        let own_address = Some(("http://own/traces".to_owned(), 0));
        for (named, policy, traces, metrics) in [
            (&[][..], &none, None, None),
            (&[own], &none, own_address.clone(), None),
            (&[own], &policy, own_address.clone(), of_file("metrics")),
            (&[own, general], &policy, own_address, of_general("metrics")),
            (&[general], &policy, of_general("traces"), of_general("metrics")),
            (&[], &policy, of_file("traces"), of_file("metrics")),
        ] {
            let variable = |name: &str| {
                named.contains(&name).then(|| match name == own {
                    true => "http://own/traces".to_owned(),
                    false => "http://general/x/".to_owned(),
                })
            };
            let target = |signal| {
                let target = Target::of(signal, policy, &variable)?;
                assert!(!format!("{target:?}").contains("sesame"), "{target:?}");
                Some((target.address().unwrap(), target.headers.len()))
            };
            assert_eq!((target("traces"), target("metrics")), (traces, metrics), "{named:?}");
        }
    }

    #[test]
    fn address_that_cannot_be_read_is_told_without_keys() {
        for endpoint in ["user:sesame", "http://[?sesame", "sesame@x://"] {
            let target = Target { endpoint: endpoint.to_owned(), added: None, headers: HashMap::new() };
            let told = format!("{target:?} {}", target.address().unwrap_err());
            assert!(!told.contains("sesame"), "{told}");
        }
    }
}
