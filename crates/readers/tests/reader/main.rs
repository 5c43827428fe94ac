//! The reader of captures: good files are read, bad ones refused with their place and reason.

mod bad_container;
mod bad_functions;
mod bad_references;
mod bad_shapes;
mod bad_steps;
mod bad_structure;
mod good;
mod hostile;
mod small;
