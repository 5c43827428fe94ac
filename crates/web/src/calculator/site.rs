//! The paths of the calculator, and their limits.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};

use super::routes::{ANSWER_SECONDS, MODELS, Route, SEARCH_SECONDS, route, uploaded_name};
use super::workers::{NoAnswer, Workers};
use super::{Calculator, Fields, Problem, Question, page};
use crate::recent::Recent;
use crate::server::{Admission, Head, KnownHosts, Request, Response, Site, Slot, Token, is_foreign};

const JSON: &str = "application/json";
const READ_ONLY: &str = "Allow: GET, HEAD, OPTIONS\r\n";
const WITH_UPLOADS: &str = "Allow: GET, HEAD, OPTIONS, POST\r\n";

/// How much a client may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a model's file.
    pub upload: usize,
    /// Files that are received at the same time.
    pub uploads: usize,
    /// Estimates and uploads that are worked on at the same time.
    pub answers: usize,
    /// Searches for plans at the same time, and as many for the largest batch.
    pub searches: usize,
    /// Questions that wait for others, of each kind.
    pub waiting: usize,
    /// Estimates that are kept, of about 15 KB each.
    pub known: usize,
    /// The time for an answer.
    pub answer_time: Duration,
    /// The time for a search; after it the best plans so far are the answer.
    pub search_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            upload: 16 << 20,
            uploads: 4,
            answers: std::thread::available_parallelism().map_or(2, usize::from),
            searches: 1,
            waiting: 32,
            known: 512,
            answer_time: Duration::from_secs(ANSWER_SECONDS.into()),
            search_time: Duration::from_secs(SEARCH_SECONDS.into()),
        }
    }
}

/// Everything a response needs.
pub struct CalculatorSite<C> {
    calculator: Arc<C>,
    token: Option<Token>,
    hosts: Option<KnownHosts>,
    limits: Limits,
    answers: Workers,
    batches: Workers,
    searches: Workers,
    uploads: Arc<AtomicUsize>,
    /// Estimates by their query: sliders come back to where they were.
    known: Recent<Arc<str>>,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Target {
    Static(&'static str, &'static [&'static str]),
    Api(Route),
}

fn target(path: &str) -> Option<Target> {
    Some(match path {
        "/" => Target::Static("text/html; charset=utf-8", &[page::PAGE]),
        "/page.js" => Target::Static("text/javascript; charset=utf-8", &[page::SCRIPT]),
        "/page.css" => Target::Static("text/css; charset=utf-8", page::STYLE),
        _ => Target::Api(route(path)?),
    })
}

impl<C: Calculator> CalculatorSite<C> {
    /// A site; `hosts` are the names under which it may be addressed, if that is checked.
    pub fn new(calculator: C, token: Option<Token>, hosts: Option<KnownHosts>, limits: Limits) -> CalculatorSite<C> {
        CalculatorSite {
            calculator: Arc::new(calculator),
            token,
            hosts,
            limits,
            answers: Workers::new(limits.answers, limits.waiting),
            batches: Workers::new(limits.searches, limits.waiting),
            searches: Workers::new(limits.searches, limits.waiting),
            uploads: Arc::default(),
            known: Recent::new(limits.known),
        }
    }

    fn refuse(&self, head: &Head) -> Result<(), Response> {
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.allow(head)) {
            return Err(Response::plain(StatusCode::FORBIDDEN, "the Host header names another machine\n"));
        }
        let Some(target) = target(head.uri().path()) else {
            // OPTIONS may ask about the whole server.
            let is_whole = head.method() == Method::OPTIONS && head.uri().path() == "*";
            return if is_whole { Err(options(READ_ONLY)) } else { Err(not_found()) };
        };
        let is_upload = head.uri().path() == MODELS;
        let allowed = if is_upload { WITH_UPLOADS } else { READ_ONLY };
        match head.method() {
            &Method::GET | &Method::HEAD => {}
            &Method::POST if is_upload => {}
            &Method::OPTIONS => return Err(options(allowed)),
            &Method::POST | &Method::PUT | &Method::DELETE | &Method::PATCH | &Method::CONNECT | &Method::TRACE => {
                let text = "there is nothing to write to here\n";
                return Err(Response::plain(StatusCode::METHOD_NOT_ALLOWED, text).with_header(allowed));
            }
            _ => return Err(Response::plain(StatusCode::NOT_IMPLEMENTED, "this method is not known here\n")),
        }
        // A link from elsewhere may lead to the page, but pages of other sites may ask nothing.
        if matches!(target, Target::Static(..)) {
            return Ok(());
        }
        if is_foreign(head) {
            return Err(Response::plain(StatusCode::FORBIDDEN, "a page of another site asks\n"));
        }
        if self.token.as_ref().is_some_and(|token| !token.allows(head)) {
            return Err(Response::plain(StatusCode::UNAUTHORIZED, "a bearer token is needed\n")
                .with_header("WWW-Authenticate: Bearer realm=\"vramfit\"\r\n"));
        }
        Ok(())
    }

    fn upload(&self, request: &Request) -> Result<String, Problem> {
        let name = uploaded_name(request.uri().query().unwrap_or_default())?;
        let (calculator, bytes) = (Arc::clone(&self.calculator), request.body().clone());
        let deadline = Instant::now() + self.limits.answer_time;
        flat(self.answers.run(deadline, move || calculator.keep(&name, bytes)))
    }

    fn ask(&self, question: Question, request: &Request) -> Result<String, Problem> {
        let query = request.uri().query().unwrap_or_default();
        if question != Question::Estimate {
            return self.work_out(question, query);
        }
        if let Some(known) = self.known.get(query) {
            return Ok(known.to_string());
        }
        let answer = self.work_out(question, query)?;
        self.known.put(query.to_owned(), answer.as_str().into());
        Ok(answer)
    }

    fn work_out(&self, question: Question, query: &str) -> Result<String, Problem> {
        let fields = Fields::parse(query)?;
        let (workers, time) = match question {
            Question::Estimate => (&self.answers, self.limits.answer_time),
            // A search for the largest batch must not hold up a slider.
            Question::MaxBatch => (&self.batches, self.limits.answer_time),
            Question::Plan => (&self.searches, self.limits.search_time),
        };
        let calculator = Arc::clone(&self.calculator);
        let deadline = Instant::now() + time;
        flat(
            workers.run(deadline, move || {
                calculator.answer(question, &fields, Box::new(move || Instant::now() >= deadline))
            }),
        )
    }
}

impl<C: Calculator> Site for CalculatorSite<C> {
    fn admit(&self, head: &Head) -> Result<Admission, Response> {
        self.refuse(head)?;
        if head.method() != Method::POST {
            return Ok(Admission::default());
        }
        let slot = Slot::below(self.limits.uploads, &self.uploads);
        match slot.is_some() {
            true => Ok(Admission { body: self.limits.upload, slot }),
            false => Err(refused(&Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many uploads at a time"))),
        }
    }

    fn answer(&self, request: &Request) -> Response {
        let answer = match (request.method(), target(request.uri().path())) {
            (&Method::POST, _) => self.upload(request),
            (_, Some(Target::Static(kind, parts))) => return Response::ok(kind, parts.concat()),
            (_, Some(Target::Api(Route::List(what)))) => self.calculator.list(what),
            (_, Some(Target::Api(Route::Ask(question)))) => self.ask(question, request),
            (_, None) => return not_found(),
        };
        match answer {
            Ok(answer) => Response::ok(JSON, answer),
            Err(problem) => refused(&problem),
        }
    }
}

fn flat(result: Result<Result<String, Problem>, NoAnswer>) -> Result<String, Problem> {
    let problem = |status, text: &str| Err(Problem::new(status, text));
    match result {
        Ok(answer) => answer,
        Err(NoAnswer::Busy) => problem(StatusCode::SERVICE_UNAVAILABLE, "too many questions at a time; ask again"),
        Err(NoAnswer::TooLate) => problem(StatusCode::GATEWAY_TIMEOUT, "the answer takes too long"),
        Err(NoAnswer::Failed) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "vramfit failed at this question; please report it with the address of the page",
        ),
    }
}

fn refused(problem: &Problem) -> Response {
    Response::new(problem.status, JSON, problem.json())
}

fn options(allowed: &'static str) -> Response {
    Response::plain(StatusCode::OK, "").with_header(allowed)
}

fn not_found() -> Response {
    let text = "there are /, /api/models, /api/gpus, /api/options, /api/estimate, /api/max-batch and /api/plan\n";
    Response::plain(StatusCode::NOT_FOUND, text)
}
