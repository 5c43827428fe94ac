//! `vramfit top`: the GPUs and their processes, full screen.

mod cards;
mod dialogs;
mod draw;
mod input;
mod kill;
mod look;
mod rows;
mod state;
mod table;
mod terminal;
#[cfg(test)]
mod tests;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};
use vramfit_monitor::sample::Sample;
use vramfit_monitor::sampler::Cpu;

use self::input::Wish;
use self::look::Look;
use self::state::State;
use self::terminal::Screen;
use crate::Verdict;
use crate::arguments::monitor::Top;
use crate::arguments::{Output, When};
use crate::failure::Failure;
use crate::feed::{Samples, interval};
use crate::interrupt;
use crate::platform::{Asked, Watched};

/// What the screen reacts to.
enum Message {
    Sample(Box<Sample>, usize),
    /// A recording is over.
    End,
    Failed(Failure),
    Event(Event),
    Asked(Asked),
}

/// Shows the screen until it is left.
pub fn run(options: &Top, output: &Output) -> Result<Verdict, Failure> {
    if output.json {
        return Err(Failure::new("top has no --json").with_hint(Some("`vramfit gpus --json -i` streams samples")));
    }
    let pause = interval(options.interval)?;
    let mut samples = Samples::open(&options.machine, Cpu::SinceLastSample)?;
    // The first sample comes before the screen, so that what is wrong is said in plain text.
    let Some(first) = samples.next()? else { return Ok(Verdict::Good) };
    let may_kill = !options.readonly && samples.is_live();
    let mut state = State::new(pause, may_kill, options.mine, samples.is_live());
    state.add(first, samples.stuck_count());

    let (sender, received) = mpsc::channel();
    let wishes = sender.clone();
    interrupt::watch(Watched::All, move |asked| wishes.send(Message::Asked(asked)).is_ok())?;
    let mut screen = Screen::enter()?;
    keep_sampling(samples, pause, sender.clone());
    read_events(sender);
    let look = Look::new(output.no_color || output.color == When::Never, output.color == When::Always);
    show(&mut screen, &mut state, &look, &received)
}

fn show(screen: &mut Screen, state: &mut State, look: &Look, received: &Receiver<Message>) -> Result<Verdict, Failure> {
    loop {
        screen.draw(|frame| draw::draw(frame, state, look))?;
        // Without a message for long, the age of the sample is worth showing.
        let message = match received.recv_timeout(Duration::from_secs(2)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(Verdict::Good),
        };
        for message in std::iter::once(message).chain(received.try_iter()) {
            match message {
                Message::Sample(sample, stuck) => state.add(*sample, stuck),
                Message::End => state.is_over = true,
                Message::Failed(failure) => return Err(failure),
                Message::Asked(Asked::Resume) => screen.resume(),
                Message::Asked(Asked::Pause) => screen.suspend()?,
                Message::Asked(Asked::End) => return Ok(Verdict::Good),
                Message::Event(event) => match input::handle(&event, state) {
                    Wish::Nothing => {}
                    Wish::Quit => return Ok(Verdict::Good),
                    Wish::Suspend => screen.suspend()?,
                },
            }
        }
    }
}

fn keep_sampling(mut samples: Samples, interval: Duration, sender: Sender<Message>) {
    thread::spawn(move || {
        let mut next = Instant::now();
        loop {
            next = (next + samples.pause(interval)).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let message = match samples.next() {
                Ok(Some(sample)) => Message::Sample(Box::new(sample), samples.stuck_count()),
                Ok(None) => Message::End,
                Err(failure) => Message::Failed(failure),
            };
            let is_last = !matches!(message, Message::Sample(..));
            if sender.send(message).is_err() || is_last {
                return;
            }
        }
    });
}

fn read_events(sender: Sender<Message>) {
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(Message::Event(event)).is_err() {
                return;
            }
        }
    });
}
