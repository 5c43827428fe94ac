//! The screen drawn into memory, and keys pressed.

use std::process::{Command, Stdio};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use vramfit_monitor::platform::ProcessReader;
use vramfit_monitor::reading::Missing;
use vramfit_monitor::sample::{Gpu, Memory, Process, Sample, Use, Vendor};

use super::draw::draw;
use super::input::{Action, handle};
use super::rows::Sort;
use super::state::{Dialog, State};
use super::theme::Theme;

fn process(pid: u32, memory: u64) -> Process {
    let host = ProcessReader::default().read(pid).map(|(host, _)| host);
    Process { pid, usage: Use::Compute, gpu_memory: Ok(memory), gpu_utilization: Ok(3), gpu_instance: None, host }
}

fn gpu(index: usize, processes: Vec<Process>) -> Gpu {
    let mut gpu = Gpu::without_readings(index, Vendor::Nvidia, &Missing::NotSupported);
    gpu.unavailable = None;
    gpu.name = Ok(format!("NVIDIA H100 number {index}"));
    gpu.memory = Ok(Memory { total: 80 << 30, used: 40 << 30, free: 39 << 30, reserved: 1 << 30 });
    gpu.utilization = Ok(70);
    gpu.processes = Ok(processes);
    gpu
}

fn state(gpus: Vec<Gpu>, may_kill: bool) -> State {
    let mut state = State::new(Duration::from_secs(1), may_kill, false, true);
    state.add(
        Sample {
            taken_at: 0,
            took: 0,
            hostname: "host".to_owned(),
            driver_version: Ok("1.2".to_owned()),
            host_memory: Ok(1),
            gpus,
        },
        0,
    );
    state
}

fn screen(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, &Theme::new(true, false))).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>() + "\n";
    (0..height).map(line).collect()
}

fn press(state: &mut State, key: KeyCode) -> Action {
    handle(&Event::Key(KeyEvent::new(key, KeyModifiers::NONE)), state)
}

#[test]
fn any_number_of_gpus_is_drawn_at_any_size() {
    for count in [0, 1, 4, 16, 40] {
        let own = std::process::id();
        let gpus = (0..count).map(|index| gpu(index, vec![process(own, 1 << 30), process(u32::MAX, 5)])).collect();
        let mut state = state(gpus, true);
        for (width, height) in [(1, 1), (19, 3), (20, 4), (39, 10), (40, 12), (80, 24), (120, 40), (300, 90)] {
            let gpus = if count == 0 { "no GPU" } else { "[0]" };
            let details = if count == 0 { gpus } else { " Process " };
            for (dialog, expected) in [
                (None, gpus),
                (Some(Dialog::Help), " Keys "),
                (Some(Dialog::Details), details),
                (Some(Dialog::Note("x".repeat(500))), " Note "),
            ] {
                state.dialog = dialog;
                let text = screen(&mut state, width, height);
                assert!(!text.trim().is_empty(), "{count} GPUs at {width} × {height}");
                if width >= 40 {
                    assert!(text.contains(expected), "{count} GPUs at {width} × {height}: no {expected} in\n{text}");
                }
            }
        }
    }
}

#[test]
fn cards_processes_and_reasons_are_on_the_screen() {
    let mut lost = gpu(1, Vec::new());
    lost.unavailable = Some(Missing::Lost);
    let mut state =
        state(vec![gpu(0, vec![process(std::process::id(), 3 << 30), process(u32::MAX, 1 << 20)]), lost], true);
    let text = screen(&mut state, 100, 30);
    for expected in [
        "[0] NVIDIA H100 number 0",
        "40.0 GiB of 80.0 GiB 50 %",
        "gpu 70 %",
        "GPU is lost",
        "3072 MiB",
        "hidden",
        "(hidden process)",
    ] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
    let narrow = screen(&mut state, 40, 10);
    assert!(narrow.contains("[1]") && narrow.contains("COMMAND"), "{narrow}");
}

#[test]
fn keys_sort_filter_and_quit() {
    let own = std::process::id();
    let mut state = state(vec![gpu(0, vec![process(u32::MAX, 9 << 30), process(own, 1 << 30)])], true);
    assert_eq!(state.rows[0].process.pid, u32::MAX, "the most memory comes first");
    press(&mut state, KeyCode::Char('m'));
    assert_eq!(state.rows[0].process.pid, own, "the same key turns the order round");
    press(&mut state, KeyCode::Char('p'));
    assert_eq!(state.view.sort, Sort::Pid);
    press(&mut state, KeyCode::Char('/'));
    for letter in format!("{own}").chars() {
        press(&mut state, KeyCode::Char(letter));
    }
    assert_eq!(state.rows.len(), 1);
    press(&mut state, KeyCode::Enter);
    press(&mut state, KeyCode::Esc);
    assert_eq!(state.rows.len(), 2);
    press(&mut state, KeyCode::Char('o'));
    assert_eq!(state.rows.len(), 1, "a hidden process is nobody's");
    press(&mut state, KeyCode::Char('?'));
    assert!(matches!(state.dialog, Some(Dialog::Help)));
    press(&mut state, KeyCode::Char('q'));
    assert!(state.dialog.is_none(), "a key closes the help first");
    assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
}

#[test]
fn the_mouse_sorts_selects_and_opens_details() {
    let mut state = state(vec![gpu(0, vec![process(u32::MAX, 9 << 30), process(std::process::id(), 1 << 30)])], true);
    screen(&mut state, 100, 30);
    let click = |column: u16, row: u16, state: &mut State| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        handle(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), state);
    };
    let head = state.heads.iter().find(|(_, sort)| *sort == Sort::User).unwrap().0;
    click(head.x, head.y, &mut state);
    assert_eq!(state.view.sort, Sort::User);
    let second = state.table.y + 1;
    click(5, second, &mut state);
    assert_eq!(state.position(), 1);
    click(5, second, &mut state);
    assert!(matches!(state.dialog, Some(Dialog::Details)));
}

/// Run by the test below, as a process of its own.
#[test]
#[ignore = "it waits to be ended"]
fn waits_to_be_ended() {
    std::thread::sleep(Duration::from_secs(60));
}

#[cfg(any(target_os = "linux", windows))]
#[test]
fn a_signal_is_sent_only_after_yes() {
    // Windows has one way to end a process only.
    let (key, name) = if cfg!(windows) { ('K', "KILL") } else { ('k', "TERM") };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "commands::top::tests::waits_to_be_ended"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut state = state(vec![gpu(0, vec![process(child.id(), 1 << 30)])], true);
    press(&mut state, KeyCode::Char(key));
    assert!(matches!(state.dialog, Some(Dialog::Confirm(_))));
    press(&mut state, KeyCode::Enter);
    assert!(state.dialog.is_none());
    assert!(child.try_wait().unwrap().is_none(), "anything but y sends nothing");
    press(&mut state, KeyCode::Char(key));
    press(&mut state, KeyCode::Char('y'));
    assert!(
        matches!(&state.dialog, Some(Dialog::Note(text)) if *text == format!("{name} sent to process {}", child.id()))
    );
    assert!(!child.wait().unwrap().success());
    state.dialog = None;
    press(&mut state, KeyCode::Char('K'));
    assert!(matches!(state.dialog, Some(Dialog::Note(_))), "a process that has ended cannot be aimed at");
}

#[cfg(windows)]
#[test]
fn windows_says_that_it_cannot_ask_a_program_to_end() {
    let mut state = state(vec![gpu(0, vec![process(std::process::id(), 1)])], true);
    press(&mut state, KeyCode::Char('k'));
    assert!(matches!(&state.dialog, Some(Dialog::Note(text)) if text.contains("K does")));
}

#[test]
fn readonly_and_hidden_processes_get_no_signal() {
    let mut readonly = state(vec![gpu(0, vec![process(std::process::id(), 1)])], false);
    press(&mut readonly, KeyCode::Char('K'));
    assert!(matches!(&readonly.dialog, Some(Dialog::Note(text)) if text.contains("--readonly")));
    let mut hidden = state(vec![gpu(0, vec![process(u32::MAX, 1)])], true);
    press(&mut hidden, KeyCode::Char('k'));
    assert!(matches!(&hidden.dialog, Some(Dialog::Note(text)) if text.contains("hidden")));
}

#[test]
fn a_paused_screen_does_not_change() {
    let mut state = state(vec![gpu(0, Vec::new())], true);
    press(&mut state, KeyCode::Char(' '));
    let mut next = state.sample.clone().unwrap();
    next.hostname = "later".to_owned();
    state.add(next, 0);
    assert!(screen(&mut state, 80, 24).starts_with("host"));
    assert!(screen(&mut state, 80, 24).contains("paused"));
}

#[test]
fn the_smallest_screens_show_gpus() {
    let mut state = state((0..4).map(|index| gpu(index, vec![process(std::process::id(), 1 << 30)])).collect(), true);
    for (width, height, count) in [(20, 5, 1), (20, 1, 1), (20, 3, 2), (35, 8, 2), (40, 12, 4)] {
        let text = screen(&mut state, width, height);
        let shown = text.lines().filter(|line| line.starts_with('[') && line.contains("70 %")).count();
        assert_eq!(shown, count, "{width}×{height}:\n{text}");
        assert!(text.contains(if width < 36 { "mem  50 %" } else { "40960/81920 MiB" }), "{width}×{height}:\n{text}");
    }
    press(&mut state, KeyCode::Char(']'));
    assert!(screen(&mut state, 20, 5).contains("[1]"), "the others can be reached");
    assert!(screen(&mut state, 20, 5).contains("q quit"));
}

/// Run by the test below, in a terminal of its own.
#[test]
#[ignore = "it panics on purpose"]
fn panics_on_the_screen() {
    let _screen = super::terminal::Screen::enter().unwrap();
    panic!("on purpose");
}

/// `script` of other systems has other flags.
#[cfg(target_os = "linux")]
#[test]
fn a_panic_restores_the_terminal_before_it_is_reported() {
    let own = std::env::current_exe().unwrap();
    let inner = format!(
        "stty -g; {} --ignored --exact --nocapture commands::top::tests::panics_on_the_screen; stty -g",
        own.display()
    );
    let mut command = Command::new("script");
    command.args(["-qec", &inner, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no `script` to make a terminal with");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let settings: Vec<&str> = text.lines().filter(|line| line.matches(':').count() > 30).map(str::trim).collect();
    assert_eq!(settings.len(), 2, "{text}");
    assert_eq!(settings[0], settings[1], "the terminal's settings are what they were");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is missing: {text:?}"));
    assert!(at("\u{1b}[?1049h") < at("\u{1b}[?1049l"), "{text:?}");
    assert!(at("\u{1b}[?1049l") < at("on purpose"), "the report is on the screen that stays: {text:?}");
    assert!(at("\u{1b}[?1000l") < at("on purpose") && at("\u{1b}[?25h") < at("on purpose"), "{text:?}");
}
