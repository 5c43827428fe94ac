//! DeepSpeed's configuration file in the place of flags.

use clap::ArgMatches;
use clap::parser::ValueSource;
use vramfit_engine::deepspeed_config::{Around, apply};
use vramfit_engine::plan::cluster::count_gpus;

use super::{Arguments, Command};
use crate::failure::Failure;

impl Arguments {
    /// Reads the file of `--deepspeed-config` into the flags, which `matches` are of.
    pub fn read_deepspeed_config(&mut self, matches: &ArgMatches) -> Result<(), Failure> {
        let Some((_, matches)) = matches.subcommand() else { return Ok(()) };
        let is_given = |flag: &str| matches.value_source(&flag.replace('-', "_")) == Some(ValueSource::CommandLine);
        let around = Around { world: None, tries_batches: false, is_given: &is_given };
        match &mut self.command {
            Command::Estimate(given) => {
                let world = given.run.ranks.world;
                apply(&mut given.run, Around { world, ..around })
            }
            Command::Plan(given) => {
                count_gpus(given);
                let world = given.run.ranks.world;
                apply(&mut given.run, Around { world, ..around })
            }
            Command::MaxBatch(given) => {
                let world = given.run.ranks.world;
                apply(&mut given.run, Around { world, tries_batches: true, ..around })
            }
            _ => Ok(()),
        }
    }
}
