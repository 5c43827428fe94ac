//! `vramfit man`: manual pages from the definition of the command line.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::arguments::{Arguments, Man};
use crate::commands::{print, print_raw};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::whole_file;

/// Prints the page of `vramfit`, or writes it and a page for each command.
pub fn run(options: &Man) -> Result<ExitStatus, Failure> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &options.folder else {
        print_raw(&rendered(&page(&command))?)?;
        return Ok(ExitStatus::Good);
    };
    let refused =
        |path: &Path, error: std::io::Error| Failure::new(format!("{}: cannot write it: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| refused(folder, error))?;
    let pages: Vec<Page> = std::iter::once(&command).chain(command.get_subcommands()).map(page).collect();
    for page in &pages {
        let path = folder.join(page.get_filename());
        whole_file::write(&path, &rendered(page)?).map_err(|error| refused(&path, error))?;
    }
    print(&format!("{} pages in {}\n", pages.len(), folder.display()))?;
    Ok(ExitStatus::Good)
}

fn page(command: &Command) -> Page {
    Page::new(command.clone()).source(concat!("vramfit ", env!("CARGO_PKG_VERSION"))).manual("vramfit manual")
}

fn rendered(page: &Page) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    page.render(&mut bytes).map_err(|error| Failure::new(format!("the manual: {error}")))?;
    Ok(bytes)
}
