//! The model's thread.
//!
//! One thread answers one call after the other; calls wait in a bounded queue. Between two calls the model
//! keeps its memory of the last conversation, so that a continued conversation costs only its new part. After
//! a while without a call the model is unloaded.
//!
//! Only this module knows llama.cpp. Its log goes to `tracing`.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures_util::stream;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel};
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::{LlamaStateSeqFlags, LogOptions};

use super::file::ModelFile;
use super::pieces::Pieces;
use super::processors;
use crate::limits;
use crate::message::{Block, Message, Role, Usage};
use crate::provider::{AnswerEnd, Chunk, ChunkStream, ErrorKind, ModelRequest, ProviderError};

/// How the next token is chosen. The model's authors recommend this temperature and nucleus. The seed is
/// fixed, so that the same conversation gets the same answer. The penalty keeps a small model from repeating
/// itself.
mod sampling {
    pub(super) const TEMPERATURE: f32 = 0.2;
    pub(super) const NUCLEUS: f32 = 0.9;
    pub(super) const CANDIDATES: i32 = 40;
    pub(super) const SEED: u32 = 42;
    pub(super) const REPETITION_PENALTY: f32 = 1.1;
    pub(super) const REPETITION_WINDOW: i32 = 256;
}

/// The only sequence of tokens in a context here.
const SEQUENCE: i32 = 0;

/// The connection to the model's thread. The first call starts the thread; it ends on request or when this is
/// dropped.
pub(super) struct Engine {
    file: ModelFile,
    worker: Mutex<Option<Worker>>,
    over: AtomicBool,
}

struct Worker {
    jobs: SyncSender<Job>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// One call.
struct Job {
    request: ModelRequest,
    answer: tokio::sync::mpsc::Sender<Result<Chunk, ProviderError>>,
    stop: Arc<AtomicBool>,
}

impl Engine {
    pub(super) fn new(file: ModelFile) -> Self {
        Self { file, worker: Mutex::new(None), over: AtomicBool::new(false) }
    }

    /// Queues a call.
    pub(super) fn ask(&self, request: ModelRequest) -> Result<ChunkStream, ProviderError> {
        let (answer, mut pieces) = tokio::sync::mpsc::channel(limits::EMBEDDED_PIECES);
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if self.over.load(Ordering::Acquire) {
            return Err(ended());
        }
        let running = match worker.take().filter(|worker| !worker.thread.is_finished()) {
            Some(running) => running,
            None => Worker::start(self.file.clone())?,
        };
        let job = Job { request, answer, stop: running.stop.clone() };
        let sent = running.jobs.try_send(job);
        *worker = Some(running);
        drop(worker);
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(ProviderError::new(
                    ErrorKind::Overloaded,
                    "the embedded model has too many calls waiting",
                ));
            }
            Err(TrySendError::Disconnected(_)) => return Err(ended()),
        }
        let mut over = false;
        Ok(Box::pin(stream::poll_fn(move |context| {
            if over {
                return Poll::Ready(None);
            }
            pieces.poll_recv(context).map(|piece| {
                let piece = piece.unwrap_or_else(|| Err(ended()));
                over = matches!(piece, Ok(Chunk::End(_)) | Err(_));
                Some(piece)
            })
        })))
    }
}

impl Engine {
    /// Ends the thread and waits for it, because a process that ends during a computation crashes in the
    /// destructors of llama.cpp. The wait is at most one step of the model. Later calls are refused.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { jobs, stop, thread }) = worker {
            stop.store(true, Ordering::Relaxed);
            drop(jobs);
            // A panic of the thread has been reported to the waiting caller.
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    fn start(file: ModelFile) -> Result<Self, ProviderError> {
        let (jobs, queue) = mpsc::sync_channel(limits::EMBEDDED_QUEUE);
        let thread = thread::Builder::new()
            .name("embedded-model".into())
            .spawn(move || serve(&file, &queue))
            .map_err(|error| fatal(format!("the model's thread cannot be started: {error}")))?;
        Ok(Self { jobs, stop: Arc::new(AtomicBool::new(false)), thread })
    }
}

impl Job {
    fn is_cancelled(&self) -> bool {
        self.answer.is_closed() || self.stop.load(Ordering::Relaxed)
    }

    /// Blocks while a slow reader has a full window of pieces.
    fn say(&self, piece: Result<Chunk, ProviderError>) {
        // If nobody listens any more, the next check of `is_cancelled` notices.
        let _ = self.answer.blocking_send(piece);
    }
}

/// Answers calls until the other end of the queue is gone.
fn serve(file: &ModelFile, queue: &Receiver<Job>) {
    // The wire and the tools have priority, because people wait for them and they need little. Threads of the
    // model inherit this.
    if let Err(error) = rustix::process::nice(5) {
        tracing::debug!(%error, "the model runs at the priority of everything else");
    }
    while let Ok(mut job) = queue.recv() {
        if job.is_cancelled() {
            continue;
        }
        let begun = Instant::now();
        let loaded = load(file);
        let model = match &loaded {
            Ok(model) => model,
            Err(error) => {
                job.say(Err(error.clone()));
                continue;
            }
        };
        let mut conversation = match Conversation::new(model) {
            Ok(conversation) => conversation,
            Err(error) => {
                job.say(Err(error));
                continue;
            }
        };
        tracing::info!(milliseconds = begun.elapsed().as_millis(), "the embedded model is loaded");
        loop {
            match conversation.answer(&job) {
                Ok(Some(end)) => job.say(Ok(Chunk::End(end))),
                Ok(None) => {}
                Err(error) => job.say(Err(error)),
            }
            job = match queue.recv_timeout(limits::EMBEDDED_IDLE) {
                Ok(next) => next,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            };
        }
        tracing::info!("the embedded model was idle and is dropped");
    }
}

/// llama.cpp's global state: created once, never destroyed.
fn backend() -> Result<&'static LlamaBackend, ProviderError> {
    static BACKEND: OnceLock<Result<LlamaBackend, ProviderError>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        llama_cpp_2::send_logs_to_tracing(LogOptions::default());
        LlamaBackend::init().map_err(|error| fatal(format!("llama.cpp cannot be started: {error}")))
    });
    backend.as_ref().map_err(Clone::clone)
}

fn load(file: &ModelFile) -> Result<LlamaModel, ProviderError> {
    require_cpu()?;
    let path = file.check()?;
    LlamaModel::load_from_file(backend()?, &path, &LlamaModelParams::default()).map_err(|error| {
        fatal(format!(
            "the model file {} cannot be loaded ({error}): it is damaged or of a kind that llama.cpp \
             does not know; name another with --model-file FILE",
            path.display()
        ))
    })
}

/// llama.cpp is compiled for processors with these extensions and would abort the process on others.
fn require_cpu() -> Result<(), ProviderError> {
    #[cfg(target_arch = "x86_64")]
    if !(is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2"))
    {
        return Err(ProviderError::new(
            ErrorKind::NotConfigured,
            "the embedded model needs a processor with AVX2; choose another provider with --provider",
        ));
    }
    Ok(())
}

/// A loaded model with its memory of the last conversation.
struct Conversation<'model> {
    model: &'model LlamaModel,
    context: LlamaContext<'model>,
    /// The number of threads of the context.
    threads: usize,
    template: LlamaChatTemplate,
    /// The tokens in the context's memory, in order.
    seen: Vec<LlamaToken>,
    batch: LlamaBatch<'static>,
}

impl<'model> Conversation<'model> {
    fn new(model: &'model LlamaModel) -> Result<Self, ProviderError> {
        let template = model.chat_template(None).map_err(|_| {
            fatal("the model file has no chat template: it is not a model for conversations".into())
        })?;
        let threads = processors::free();
        let context = new_context(model, threads)?;
        let batch = LlamaBatch::new(index(limits::EMBEDDED_STEP_TOKENS), 1);
        Ok(Self { model, context, threads, template, seen: Vec::new(), batch })
    }

    /// Answers one call; `None` if it was cancelled.
    fn answer(&mut self, job: &Job) -> Result<Option<AnswerEnd>, ProviderError> {
        let prompt = self.prompt(&job.request)?;
        let cached = self.forget_from(&prompt);
        let fresh = prompt.get(cached..).unwrap_or_default();
        for step in fresh.chunks(index(limits::EMBEDDED_STEP_TOKENS)) {
            if job.is_cancelled() {
                return Ok(None);
            }
            self.take_free_processors()?;
            self.take_in(step)?;
        }

        let most = job.request.max_output_tokens.unwrap_or(limits::EMBEDDED_OUTPUT_TOKENS);
        let mut sampler = sampler(self.model);
        let mut pieces = Pieces::default();
        let mut pace = Pace::new();
        let mut spoken = 0;
        let stop = loop {
            if job.is_cancelled() {
                return Ok(None);
            }
            let token = sampler.sample(&self.context, -1);
            if self.model.vocab().is_eog(token) {
                break AnswerEnd::Complete;
            }
            spoken += 1;
            say_text(job, pieces.push(&self.model.vocab().token_to_piece(token, false, None)));
            if spoken >= most || self.seen.len() >= index(self.context.n_ctx()) {
                break AnswerEnd::Limit;
            }
            if pace.has_dropped() {
                self.take_free_processors()?;
                pace = Pace::new();
            }
            self.take_in(&[token])?;
        };
        say_text(job, pieces.finish());
        job.say(Ok(Chunk::Usage(Usage {
            input: count(fresh.len()),
            output: u64::from(spoken),
            cache_read: count(cached),
            ..Usage::default()
        })));
        Ok(Some(stop))
    }

    /// The conversation in the model's own template, as tokens.
    ///
    /// First the template is filled with marks and cut at them. The texts of people and tools are converted
    /// to tokens as plain text, so that no text can end its own message or open another's.
    fn prompt(&self, request: &ModelRequest) -> Result<Vec<LlamaToken>, ProviderError> {
        let window = index(self.context.n_ctx());
        let texts = texts(request);
        let bytes = texts.iter().fold(0, |sum: usize, (_, text)| sum.saturating_add(text.len()));
        if bytes > window.saturating_mul(limits::EMBEDDED_BYTES_PER_TOKEN) {
            return Err(overflow(format!("{bytes} bytes"), window));
        }
        let mark = |place: usize| format!("\u{e000}{place}\u{e001}");
        let unknown = |error: &dyn std::fmt::Display| {
            fatal(format!("the model's chat template is not one that llama.cpp knows ({error})"))
        };
        let turns: Result<Vec<_>, _> = texts
            .iter()
            .enumerate()
            .map(|(place, (role, _))| LlamaChatMessage::new(role.as_str().to_owned(), mark(place)))
            .collect();
        let frame = self
            .model
            .apply_chat_template(&self.template, &turns.map_err(|error| unknown(&error))?, true)
            .map_err(|error| unknown(&error))?;

        let vocabulary = self.model.vocab();
        let mut tokens = Vec::new();
        let mut rest = frame.as_str();
        let mut first = true;
        for (place, (_, text)) in texts.iter().enumerate() {
            // A template may omit a message.
            let Some((before, after)) = rest.split_once(mark(place).as_str()) else { continue };
            tokens.extend(vocabulary.tokenize(before.as_bytes(), std::mem::take(&mut first), true));
            tokens.extend(vocabulary.tokenize(text.as_bytes(), false, false));
            rest = after;
        }
        tokens.extend(vocabulary.tokenize(rest.as_bytes(), first, true));
        // At least one token of the answer must fit.
        if tokens.len() >= window {
            return Err(overflow(format!("{} tokens", tokens.len()), window));
        }
        if tokens.is_empty() {
            return Err(fatal("there is nothing to answer".into()));
        }
        Ok(tokens)
    }

    /// Continues with one thread per free processor. A context's number of threads is fixed, so another
    /// number needs another context with the same memory.
    fn take_free_processors(&mut self) -> Result<(), ProviderError> {
        let threads = processors::free();
        if threads == self.threads {
            return Ok(());
        }
        let mut context = new_context(self.model, threads)?;
        let moved = self
            .context
            .state_seq_get(SEQUENCE, LlamaStateSeqFlags::empty())
            .and_then(|memory| context.state_seq_set(&memory, SEQUENCE));
        self.context = context;
        self.threads = threads;
        tracing::debug!(threads, "the embedded model continues with another number of threads");
        if let Err(error) = moved {
            tracing::warn!(%error, "the embedded model reads the conversation again");
            self.context.clear_kv_cache();
            let seen = std::mem::take(&mut self.seen);
            for step in seen.chunks(index(limits::EMBEDDED_STEP_TOKENS)) {
                self.take_in(step)?;
            }
        }
        Ok(())
    }

    /// Removes the tokens that differ from the prompt from the model's memory, and returns the number of
    /// tokens that stay. The last token is always read again, because its result is needed.
    fn forget_from(&mut self, prompt: &[LlamaToken]) -> usize {
        let shared = self.seen.iter().zip(prompt).take_while(|(seen, wanted)| seen == wanted).count();
        let shared = shared.min(prompt.len().saturating_sub(1));
        let place = u32::try_from(shared).unwrap_or(0);
        // Not every kind of model can forget a part.
        let shared = match self.context.clear_kv_cache_seq(Some(0), Some(place), None) {
            Ok(true) => shared,
            _ => {
                self.context.clear_kv_cache();
                0
            }
        };
        self.seen.truncate(shared);
        shared
    }

    /// Lets the model read and remember some tokens. Keeps the result of the last one.
    fn take_in(&mut self, tokens: &[LlamaToken]) -> Result<(), ProviderError> {
        self.batch.clear();
        for (place, token) in tokens.iter().enumerate() {
            let position = i32::try_from(self.seen.len().saturating_add(place)).unwrap_or(i32::MAX);
            let last = place.saturating_add(1) == tokens.len();
            self.batch
                .add(*token, position, &[SEQUENCE], last)
                .map_err(|error| fatal(format!("the embedded model failed: {error}")))?;
        }
        match self.context.decode(&mut self.batch) {
            Ok(()) => {
                self.seen.extend_from_slice(tokens);
                Ok(())
            }
            Err(error) => {
                // After a failure the content of the memory is unknown.
                self.context.clear_kv_cache();
                self.seen.clear();
                Err(fatal(format!("the embedded model failed: {error}")))
            }
        }
    }
}

fn new_context(model: &LlamaModel, threads: usize) -> Result<LlamaContext<'_>, ProviderError> {
    let threads = i32::try_from(threads).unwrap_or(1);
    let window = limits::EMBEDDED_WINDOW_TOKENS.min(model.n_ctx_train());
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(window))
        .with_n_batch(limits::EMBEDDED_STEP_TOKENS)
        .with_n_ubatch(limits::EMBEDDED_STEP_TOKENS)
        .with_n_threads(threads)
        .with_n_threads_batch(threads);
    model
        .new_context(backend()?, params)
        .map_err(|error| fatal(format!("there is not enough memory for the embedded model: {error}")))
}

/// The speed of an answer, compared with its own best.
struct Pace {
    since: Instant,
    tokens: u32,
    best: Option<Duration>,
}

impl Pace {
    fn new() -> Self {
        Self { since: Instant::now(), tokens: 0, best: None }
    }

    /// Counts a token and returns whether the latest tokens took much longer than the fastest.
    fn has_dropped(&mut self) -> bool {
        self.tokens += 1;
        if self.tokens < limits::EMBEDDED_PACE_TOKENS {
            return false;
        }
        let taken = self.since.elapsed();
        let best = self.best.map_or(taken, |best| best.min(taken));
        *self = Self { since: Instant::now(), tokens: 0, best: Some(best) };
        taken > best.saturating_mul(limits::EMBEDDED_PACE_DROP)
    }
}

fn say_text(job: &Job, text: String) {
    if !text.is_empty() {
        job.say(Ok(Chunk::Text(text)));
    }
}

fn sampler(model: &LlamaModel) -> LlamaSampler {
    LlamaSampler::chain(
        [
            LlamaSampler::penalties(
                model.n_vocab(),
                sampling::REPETITION_WINDOW,
                sampling::REPETITION_PENALTY,
                0.0,
                0.0,
            ),
            LlamaSampler::top_k(sampling::CANDIDATES),
            LlamaSampler::top_p(sampling::NUCLEUS, 1),
            LlamaSampler::temp(sampling::TEMPERATURE),
            LlamaSampler::dist(sampling::SEED),
        ],
        true,
    )
}

/// The messages for a model without tools and images, each with its role.
fn texts(request: &ModelRequest) -> Vec<(Role, String)> {
    let system = (!request.system.is_empty()).then(|| (Role::System, request.system.clone()));
    let turns = request.messages.iter().filter_map(|message| {
        let text = spelled_out(message);
        let role = if message.role == Role::Tool { Role::User } else { message.role };
        (!text.is_empty()).then_some((role, text))
    });
    system.into_iter().chain(turns).collect()
}

fn spelled_out(message: &Message) -> String {
    let blocks = message.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.to_string()),
        Block::Thinking { .. } => None,
        Block::ToolCall { name, .. } => Some(format!("(used the tool {name})")),
        Block::Image { .. } => Some("(an image)".to_owned()),
        Block::Sources(sources) => Some(sources.plain()),
    });
    let text = blocks.collect::<Vec<_>>().join("\n");
    match (message.role, &message.tool_name) {
        (Role::Tool, Some(tool)) => format!("Result of the tool {tool}:\n{text}"),
        _ => text,
    }
}

fn index(tokens: u32) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX)
}

fn count(tokens: usize) -> u64 {
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

fn fatal(message: String) -> ProviderError {
    ProviderError::new(ErrorKind::Fatal, message)
}

fn overflow(found: String, window: usize) -> ProviderError {
    ProviderError::new(
        ErrorKind::ContextOverflow,
        format!("the conversation ({found}) does not fit the embedded model's window of {window} tokens"),
    )
}

pub(super) fn ended() -> ProviderError {
    fatal("the embedded model's thread ended unexpectedly; the log says why".into())
}
