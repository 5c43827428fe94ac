//! `vramfit top`: the GPUs and their processes, full screen.

mod cards;
mod dialogs;
mod draw;
mod input;
mod kill;
mod rows;
mod state;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};
use vramfit_monitor::sample::Sample;
use vramfit_monitor::sampler::Cpu;

use self::input::Action;
use self::state::State;
use self::terminal::Screen;
use self::theme::Theme;
use crate::arguments::monitor::Top;
use crate::arguments::{Output, When};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::feed::{Samples, interval};
use crate::interrupt;
use crate::platform::{ControlSignal, WatchedSignals};

/// What the drawing thread receives.
enum Message {
    Sample(Box<Sample>, usize),
    /// The end of a recording.
    End,
    Failed(Failure),
    Event(Event),
    Signal(ControlSignal),
}

/// Runs until the user quits.
pub fn run(options: &Top, output: &Output) -> Result<ExitStatus, Failure> {
    if output.json {
        return Err(Failure::new("top has no --json").with_hint(Some("`vramfit gpus --json -i` streams samples")));
    }
    let pause = interval(options.interval)?;
    let mut samples = Samples::open(&options.machine, Cpu::SinceLastSample)?;
    // The first sample is taken before the screen is entered, so that an error is printed in plain text.
    let Some(first) = samples.next()? else { return Ok(ExitStatus::Good) };
    let may_kill = !options.readonly && samples.is_live();
    let mut state = State::new(pause, may_kill, options.mine, samples.is_live());
    state.add(first, samples.stuck_count());

    let (sender, received) = mpsc::channel();
    let signals = sender.clone();
    interrupt::watch(WatchedSignals::All, move |signal| signals.send(Message::Signal(signal)).is_ok())?;
    let mut screen = Screen::enter()?;
    keep_sampling(samples, pause, sender.clone());
    read_events(sender);
    let theme = Theme::new(output.no_color || output.color == When::Never, output.color == When::Always);
    show(&mut screen, &mut state, &theme, &received)
}

fn show(
    screen: &mut Screen,
    state: &mut State,
    theme: &Theme,
    received: &Receiver<Message>,
) -> Result<ExitStatus, Failure> {
    loop {
        screen.draw(|frame| draw::draw(frame, state, theme))?;
        // Redraw without a message too: the age of the sample is shown when it is late.
        let message = match received.recv_timeout(Duration::from_secs(2)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(ExitStatus::Good),
        };
        for message in std::iter::once(message).chain(received.try_iter()) {
            match message {
                Message::Sample(sample, stuck) => state.add(*sample, stuck),
                Message::End => state.is_over = true,
                Message::Failed(failure) => return Err(failure),
                Message::Signal(ControlSignal::Resume) => screen.resume(),
                Message::Signal(ControlSignal::Pause) => screen.suspend()?,
                Message::Signal(ControlSignal::End) => return Ok(ExitStatus::Good),
                Message::Event(event) => match input::handle(&event, state) {
                    Action::Nothing => {}
                    Action::Quit => return Ok(ExitStatus::Good),
                    Action::Suspend => screen.suspend()?,
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
