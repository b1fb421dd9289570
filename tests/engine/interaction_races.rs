//! Races for one question: simultaneous answers, interactors that leave and return, a turn that ends.
//! Thousands of schedules come from seeds, and some use real threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use edn_bridge::catalogue::{ErrorCode, Topic};
use edn_bridge::clock::SystemClock;
use edn_bridge::event::question::{Answer, QuestionContent};
use edn_bridge::event::{Body, Event};
use edn_bridge::interaction::audit;
use edn_bridge::interaction::{Audience, ClientAnswer, Origin, PendingQuestions, Question, Resolution};
use edn_bridge::message::SessionId;
use edn_bridge::session::{AnswerFields, Client, Pressure, Reply, Response};
use edn_bridge::wire::edn::layout::topic;
use tokio_util::sync::CancellationToken;

/// Random numbers that a seed makes anew.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

/// A connection that notes what it is shown.
#[derive(Default)]
struct Person {
    here: AtomicBool,
    /// `requested` or `answered`, and the question.
    shown: Mutex<Vec<(Topic, String)>>,
}

impl Client for Person {
    fn watches(&self, _: Option<&SessionId>) -> bool {
        true
    }

    fn lists_sessions(&self) -> bool {
        false
    }
    fn deliver(&self, event: &Event) -> Pressure {
        let id = match &event.body {
            Body::QuestionAsked(asked) => asked.id.to_string(),
            Body::QuestionEnded(ended) => ended.id.to_string(),
            other => panic!("{other:?}"),
        };
        self.shown.lock().unwrap().push((topic(&event.body), id));
        Pressure::Fine
    }
    fn fall_behind(&self) {}
    fn is_behind(&self) -> bool {
        false
    }
    fn focus(&self, _: SessionId) {}
    fn focused(&self) -> SessionId {
        SessionId::from("s")
    }
    fn is_interactor(&self) -> bool {
        self.here.load(Ordering::SeqCst)
    }
    fn close(&self) {}
}

#[derive(Default)]
struct People(Vec<Arc<Person>>);

impl Audience for People {
    fn clients(&self) -> Vec<(u64, Arc<dyn Client>)> {
        let here = self.0.iter().enumerate().filter(|(_, person)| person.here.load(Ordering::SeqCst));
        here.map(|(place, person)| (place as u64, person.clone() as Arc<dyn Client>)).collect()
    }
}

fn people(count: usize) -> Arc<People> {
    let people = People((0..count).map(|_| Arc::new(Person::default())).collect());
    for person in &people.0 {
        person.here.store(true, Ordering::SeqCst);
    }
    Arc::new(people)
}

fn question() -> Question {
    Question {
        content: Arc::new(QuestionContent::Confirm { prompt: "?".to_owned(), default: false }),
        warnings: Arc::default(),
        origin: Origin {
            session: SessionId::from("s"),
            offset: 0,
            turn: None,
            cause: None,
            correlation: "t".into(),
            subagent: None,
        },
        timeout: None,
        unattended: false,
        journalled: false,
    }
}

fn answer(id: &str, ok: bool) -> Response {
    let answer = AnswerFields { ok: Some(ok), ..AnswerFields::default() };
    Response { interaction_id: id.to_owned(), accepted: true, answer, note: None }
}

/// What became of the answers: who was told that theirs counts, and the codes of the others.
#[derive(Default)]
struct Told {
    won: Vec<(String, bool)>,
    lost: Vec<ErrorCode>,
}

fn respond(questions: &PendingQuestions, connection: u64, id: &str, ok: bool, told: &Arc<Mutex<Told>>) {
    let (told, name) = (told.clone(), id.to_owned());
    questions.respond(
        connection,
        ClientAnswer::Response(Box::new(answer(id, ok))),
        Reply::new(move |result| {
            let mut told = told.lock().unwrap();
            match result {
                Ok(()) => told.won.push((name, ok)),
                Err(error) => told.lost.push(error.code),
            }
        }),
    );
}

/// Each person sees a question, then its end, and only then the next.
fn check_queues(people: &People, seed: usize) {
    for (place, person) in people.0.iter().enumerate() {
        let mut open: Option<String> = None;
        for (topic, id) in person.shown.lock().unwrap().iter() {
            match topic {
                Topic::InteractionRequested => {
                    // One that came back is shown again what it had not answered.
                    assert!(open.is_none() || open.as_ref() == Some(id), "seed {seed}: person {place}");
                    open = Some(id.clone());
                }
                Topic::SessionResumed => open = None,
                _ if open.as_ref() == Some(id) => open = None,
                _ => {}
            }
        }
    }
}

#[test]
fn every_schedule_ends_each_question_once() {
    let dir = tempfile::tempdir().unwrap();
    let schedules = 2_000;
    let mut asked = 0;
    for seed in 0..schedules {
        let mut dice = Dice(seed as u64 * 2 + 4711);
        let people = people(1 + dice.roll(3));
        let audit = dir.path();
        let questions = Arc::new(PendingQuestions::new(people.clone(), audit, Arc::new(SystemClock)));
        let told = Arc::new(Mutex::new(Told::default()));
        let executor =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let count = 1 + dice.roll(2);
        asked += count;
        let ends: Vec<Resolution> = executor.block_on(async {
            let mut stops = Vec::new();
            let mut asking = Vec::new();
            for n in 0..count {
                let (questions, stop) = (questions.clone(), CancellationToken::new());
                stops.push(stop.clone());
                let question = Question {
                    timeout: (n == 1).then_some(std::time::Duration::from_secs(3600)),
                    ..question()
                };
                asking.push(tokio::spawn(async move { questions.ask(question, &stop).await }));
            }
            // Whatever the dice say happens, until every question has its end.
            for step in 0.. {
                for _ in 0..dice.roll(4) {
                    tokio::task::yield_now().await;
                }
                if asking.iter().all(|asking| asking.is_finished()) {
                    break;
                }
                let place = dice.roll(people.0.len());
                let (connection, person) = (place as u64, &people.0[place]);
                let shown: Vec<String> = person
                    .shown
                    .lock()
                    .unwrap()
                    .iter()
                    .map(|(_, id)| id.clone())
                    .filter(|id| !id.is_empty())
                    .collect();
                match dice.roll(10) {
                    0..5 if !shown.is_empty() => {
                        let id = &shown[dice.roll(shown.len())];
                        respond(&questions, connection, id, dice.roll(2) == 0, &told);
                    }
                    5 => {
                        person.here.store(false, Ordering::SeqCst);
                        questions.left(connection);
                        // Who is gone is told nothing, and begins anew.
                        person.shown.lock().unwrap().push((Topic::SessionResumed, String::new()));
                    }
                    6 => {
                        person.here.store(true, Ordering::SeqCst);
                        let client: Arc<dyn Client> = person.clone();
                        for event in questions.joined(connection, &client) {
                            let _ = client.deliver(&event);
                        }
                    }
                    7 if step > 20 => stops[dice.roll(stops.len())].cancel(),
                    8 if step > 20 => tokio::time::advance(std::time::Duration::from_secs(3600)).await,
                    _ => {}
                }
                assert!(step < 100_000, "seed {seed}: no end");
            }
            let mut ends = Vec::new();
            for asking in asking {
                ends.push(asking.await.unwrap());
            }
            ends
        });
        let told = told.lock().unwrap();
        // As many answers count as questions were answered, each with the value that counts.
        let mut won: Vec<bool> = told.won.iter().map(|(_, ok)| *ok).collect();
        let mut accepted: Vec<bool> = ends
            .iter()
            .filter_map(|end| match end {
                Resolution::Accepted { answer: Answer::Confirm(ok), .. } => Some(*ok),
                _ => None,
            })
            .collect();
        won.sort();
        accepted.sort();
        assert_eq!(won, accepted, "seed {seed}: {ends:?}");
        let names: std::collections::BTreeSet<&String> = told.won.iter().map(|(id, _)| id).collect();
        assert_eq!(names.len(), told.won.len(), "seed {seed}: one question, one answer");
        assert!(told.lost.iter().all(|code| *code == ErrorCode::InteractionAlreadyAnswered), "seed {seed}");
        check_queues(&people, seed);
    }
    assert_eq!(audit::verify(&audit::path(dir.path())).unwrap(), asked, "one record for each question");
}

#[test]
fn last_client_may_return_within_grace_period() {
    use std::time::Duration;
    let dir = tempfile::tempdir().unwrap();
    let executor =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for comes_back in [true, false] {
        let people = people(1);
        let questions = Arc::new(PendingQuestions::new(people.clone(), dir.path(), Arc::new(SystemClock)));
        questions.set_orphan_grace(Duration::from_secs(10));
        let person = &people.0[0];
        let client: Arc<dyn Client> = person.clone();
        let shown = || person.shown.lock().unwrap().first().map(|(_, id)| id.clone());
        let end = executor.block_on(async {
            let asking = tokio::spawn({
                let questions = questions.clone();
                async move { questions.ask(question(), &CancellationToken::new()).await }
            });
            tokio::task::yield_now().await;
            let leave = || {
                person.here.store(false, Ordering::SeqCst);
                questions.left(0);
            };
            leave();
            tokio::time::sleep(Duration::from_secs(9)).await;
            assert!(!asking.is_finished());
            person.here.store(true, Ordering::SeqCst);
            let event = questions.joined(0, &client).pop().expect("it is shown again");
            let _ = client.deliver(&event);
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert!(!asking.is_finished(), "somebody is there");
            if comes_back {
                respond(&questions, 0, &shown().unwrap(), true, &Arc::default());
            } else {
                leave();
            }
            asking.await.unwrap()
        });
        match end {
            Resolution::Accepted { .. } => assert!(comes_back),
            end => assert!(matches!(end, Resolution::Headless) && !comes_back, "{end:?}"),
        }
    }
}

#[test]
fn question_is_shown_again_to_whoever_was_refused_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let people = people(1);
    let questions = Arc::new(PendingQuestions::new(people.clone(), dir.path(), Arc::new(SystemClock)));
    let shown = || people.0[0].shown.lock().unwrap().clone();
    let told = Arc::new(Mutex::new(Told::default()));
    let end = executor.block_on(async {
        let asking = tokio::spawn({
            let questions = questions.clone();
            async move { questions.ask(question(), &CancellationToken::new()).await }
        });
        tokio::task::yield_now().await;
        let id = shown()[0].1.clone();
        // An answer that is taken back, as one that could not be written down is.
        drop(questions.hold(0, ClientAnswer::Response(Box::new(answer(&id, true)))).unwrap());
        assert_eq!(shown().len(), 1, "nobody was told of it");
        let held = questions.hold(0, ClientAnswer::Response(Box::new(answer(&id, true)))).unwrap();
        respond(&questions, 0, &id, false, &told);
        assert_eq!(told.lock().unwrap().lost, [ErrorCode::InteractionAlreadyAnswered]);
        drop(held);
        assert_eq!(
            shown(),
            [(Topic::InteractionRequested, id.clone()), (Topic::InteractionRequested, id.clone())]
        );
        respond(&questions, 0, &id, false, &told);
        asking.await.unwrap()
    });
    assert!(matches!(end, Resolution::Accepted { answer: Answer::Confirm(false), .. }), "{end:?}");
    assert_eq!(audit::verify(&audit::path(dir.path())).unwrap(), 1);
}

#[test]
fn of_two_answers_in_the_same_instant_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let executor =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for round in 0..300 {
        let people = people(2);
        let questions = Arc::new(PendingQuestions::new(people.clone(), dir.path(), Arc::new(SystemClock)));
        let asking = {
            let questions = questions.clone();
            executor.spawn(async move { questions.ask(question(), &CancellationToken::new()).await })
        };
        let id = loop {
            if let Some((_, id)) = people.0[1].shown.lock().unwrap().first() {
                break id.clone();
            }
            std::thread::yield_now();
        };
        let told = Arc::new(Mutex::new(Told::default()));
        let barrier = Arc::new(Barrier::new(2));
        let answering: Vec<_> = (0..2u64)
            .map(|connection| {
                let (questions, told, id, barrier) =
                    (questions.clone(), told.clone(), id.clone(), barrier.clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    respond(&questions, connection, &id, connection == 0, &told);
                })
            })
            .collect();
        for thread in answering {
            thread.join().unwrap();
        }
        let Resolution::Accepted { answer: Answer::Confirm(ok), .. } = executor.block_on(asking).unwrap()
        else {
            panic!()
        };
        let told = told.lock().unwrap();
        assert_eq!(told.won.len(), 1, "round {round}");
        assert_eq!(ok, told.won[0].1);
        assert_eq!(told.lost, [ErrorCode::InteractionAlreadyAnswered]);
        for person in &people.0 {
            let shown = person.shown.lock().unwrap();
            let topics: Vec<Topic> = shown.iter().map(|(topic, _)| *topic).collect();
            assert_eq!(topics, [Topic::InteractionRequested, Topic::InteractionAnswered]);
        }
    }
}
