//! How many candidates a second are simulated.
fn main() {
    divan::main();
}
