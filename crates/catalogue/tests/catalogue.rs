//! The table of GPUs and lookups in it.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeSet;

use vramfit_catalogue::{Calibration, Catalogue, ComputeCapability, ContextBasis, ContextBytes};

fn catalogue() -> Catalogue {
    Catalogue::built_in().unwrap()
}

#[test]
fn the_table_has_more_than_a_hundred_gpus_from_pascal_to_blackwell() {
    let catalogue = catalogue();
    assert!(catalogue.gpus().len() >= 100);
    let architectures: BTreeSet<&str> = catalogue.gpus().iter().map(|gpu| gpu.architecture.as_str()).collect();
    let expected = ["Ada", "Ampere", "Blackwell", "Hopper", "Pascal", "Turing", "Volta"];
    assert_eq!(architectures.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn every_name_and_alias_finds_its_own_row() {
    let catalogue = catalogue();
    let mut seen = BTreeSet::new();
    for gpu in catalogue.gpus() {
        for name in std::iter::once(&gpu.name).chain(&gpu.aliases) {
            assert_eq!(catalogue.find(name).unwrap().name, gpu.name, "{name}");
            assert!(seen.insert(name.to_lowercase()), "{name} is used twice");
        }
    }
}

#[test]
fn names_from_the_driver_are_found() {
    let catalogue = catalogue();
    for (driver, name) in [
        ("NVIDIA GeForce RTX 3060", "RTX 3060"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("rtx 4060 ti", "RTX 4060 Ti 8GB"),
    ] {
        assert_eq!(catalogue.find(driver).unwrap().name, name);
    }
}

#[test]
fn an_unknown_gpu_is_an_error_that_lists_similar_names() {
    let error = catalogue().find("RTX 3065").unwrap_err();
    assert!(error.nearest.contains(&"RTX 3060".to_owned()), "{error}");
    assert_eq!(error.nearest.len(), 5);
    let error = catalogue().find("3065").unwrap_err();
    assert!(error.nearest.len() == 5, "{error}");
    // Without the series, too.
    assert!(catalogue().find("3061").unwrap_err().nearest.contains(&"RTX 3060".to_owned()));
    let error = catalogue().find("GTX 1060").unwrap_err();
    assert_eq!(error.nearest[..2], ["GTX 1060 3GB", "GTX 1060 6GB"]);
    assert!(catalogue().find("").is_err());
}

#[test]
fn cuda_reports_at_most_the_memory_sold_and_not_much_less() {
    for gpu in catalogue().gpus() {
        let capacity = gpu.capacity();
        assert!(capacity.low <= capacity.high && capacity.high <= gpu.memory, "{}", gpu.name);
        assert!(capacity.low as f64 >= gpu.memory as f64 * 0.909, "{}", gpu.name);
        assert_eq!(gpu.seen_by_cuda.is_some(), gpu.seen_by_cuda_source.is_some(), "{}", gpu.name);
    }
}

#[test]
fn half_precision_is_faster_than_single_and_single_than_double() {
    for gpu in catalogue().gpus() {
        let rates = gpu.flop_rates;
        assert_eq!(rates.bf16.is_some(), gpu.compute.has_bfloat16(), "{}", gpu.name);
        assert_eq!(rates.tf32.is_some(), gpu.compute.has_bfloat16(), "{}", gpu.name);
        if gpu.compute >= ComputeCapability::new(7, 0) {
            assert!(rates.fp16 > rates.fp32, "{}", gpu.name);
        }
        assert!(rates.fp32 > rates.fp64, "{}", gpu.name);
    }
}

#[test]
fn only_the_h200_has_been_measured() {
    let catalogue = catalogue();
    let measured: Vec<&str> =
        catalogue.gpus().iter().filter(|gpu| gpu.is_measured()).map(|gpu| gpu.name.as_str()).collect();
    assert_eq!(measured, ["H200"]);
    let h200 = catalogue.find("H200").unwrap();
    assert_eq!((h200.workspaces().blas, h200.workspaces().blas_lt), (33_554_432, 1_048_576));
}

#[test]
fn volta_is_the_newest_architecture_without_cuda_13() {
    for gpu in catalogue().gpus() {
        let newest = gpu.newest.as_ref().unwrap();
        let is_old = gpu.compute < ComputeCapability::new(7, 5);
        assert_eq!(newest.torch.as_deref(), is_old.then_some("2.14"), "{}", gpu.name);
        assert_eq!(newest.cuda, if is_old { "12.6" } else { "13.2" }, "{}", gpu.name);
        assert_eq!(gpu.compute.runs_cuda_13(), !is_old, "{}", gpu.name);
    }
}

#[test]
fn capacity_is_a_range_where_it_depends_on_ecc() {
    // PyTorch has reported 44.43 GiB with ECC and 47.48 GiB without.
    let capacity = catalogue().find("RTX 6000 Ada").unwrap().capacity();
    let gib = |gib: f64| (gib * f64::from(1 << 30)) as u64;
    assert!(capacity.low <= gib(44.43) && gib(47.48) <= capacity.high);
}

fn calibration(name: &str) -> Calibration {
    serde_json::from_value(serde_json::json!({
        "name": name, "compute_capability": "8.6", "multiprocessors": 28, "threads_per_multiprocessor": 1536,
        "capacity": 12_622_233_600_u64, "context": 200 << 20, "blas_context": 10 << 20, "blas_backward_context": 12 << 20,
        "dnn_context": 6 << 20, "dnn_backward_context": 4 << 20, "blas_workspace": 8_519_680, "blas_lt_workspace": 1 << 20,
    }))
    .unwrap()
}

#[test]
fn a_calibrated_gpu_counts_as_measured() {
    let mut catalogue = catalogue();
    catalogue.calibrate(&calibration("NVIDIA GeForce RTX 3060"));
    let gpu = catalogue.find("rtx 3060").unwrap();
    assert!(gpu.is_measured());
    assert_eq!(gpu.seen_by_cuda, Some(12_622_233_600));
    assert_eq!(gpu.context.unwrap().bytes(2, 1), (200 + 24 + 6) << 20);
}

#[test]
fn calibrating_an_unknown_gpu_adds_it_to_the_table() {
    let mut catalogue = catalogue();
    catalogue.calibrate(&calibration("NVIDIA Imaginary 1"));
    let gpu = catalogue.find("imaginary 1").unwrap();
    assert_eq!(gpu.multiprocessors, 28);
    // Its bandwidth is unknown; the wheels follow from its compute capability.
    assert_eq!(gpu.bandwidth, None);
    assert_eq!(gpu.newest, catalogue.find("RTX 3060").unwrap().newest);
}

#[test]
fn a_measured_context_has_no_spread_and_depends_on_the_libraries() {
    let h200 = catalogue().find("H200").unwrap().clone();
    let bytes = (614 + 2 * 64 + 8) << 20;
    assert_eq!(h200.context_bytes(2, 1), ContextBytes { low: bytes, expected: bytes, high: bytes });
}

#[test]
fn every_gpu_has_a_context_with_bounds_that_grows_with_its_resident_threads() {
    let catalogue = catalogue();
    for gpu in catalogue.gpus() {
        let ContextBytes { low, expected, high } = gpu.estimated_context.bytes;
        assert!(low < expected && expected < high, "{}", gpu.name);
        let threads = u64::from(gpu.multiprocessors) * u64::from(gpu.compute.threads_per_multiprocessor());
        let per_thread = (expected - (32 << 20)) / threads;
        assert!((1_500..3_500).contains(&per_thread), "{}: {per_thread} bytes a thread", gpu.name);
    }
}

#[test]
fn published_figures_count_for_every_gpu_with_the_same_multiprocessors() {
    let catalogue = catalogue();
    let context = |name: &str| catalogue.find(name).unwrap().estimated_context;
    let mebibytes = |name: &str| context(name).bytes.expected >> 20;
    assert_eq!(context("RTX A6000").basis, ContextBasis::PublishedFigures { count: 10 });
    assert_eq!(context("RTX A6000"), context("A40"));
    assert_eq!((mebibytes("RTX 3060"), mebibytes("T4"), mebibytes("A100")), (114, 139, 522));
    assert_eq!(context("RTX 4070").basis, ContextBasis::Multiprocessors);
    // 33 MiB and 2,323 bytes for each of 46 × 1,536 threads.
    assert_eq!(mebibytes("RTX 4070"), 189);
}

#[test]
fn displays_are_connected_to_geforce_and_titan_cards() {
    let catalogue = catalogue();
    let is_consumer = |name: &str| catalogue.find(name).unwrap().is_consumer();
    for name in ["GTX 1080 Ti", "RTX 2060 SUPER", "RTX 3060", "RTX 5090", "TITAN V", "TITAN RTX"] {
        assert!(is_consumer(name), "{name}");
    }
    for name in ["T4", "A100", "RTX A6000", "RTX 6000 Ada", "RTX PRO 6000 Blackwell", "Quadro P6000", "H200"] {
        assert!(!is_consumer(name), "{name}");
    }
}

#[test]
fn a_calibration_gives_a_row_that_the_table_reads() {
    let catalogue = catalogue();
    let read = |row: &str| Catalogue::read(row).unwrap().gpus()[0].clone();
    let known = read(&catalogue.row(&calibration("NVIDIA GeForce RTX 3060")));
    let mut expected = catalogue.find("RTX 3060").unwrap().clone();
    expected.seen_by_cuda = Some(12_622_233_600);
    expected.seen_by_cuda_source = Some("measured".to_owned());
    expected.context = known.context;
    expected.measured_workspaces = Some(expected.workspaces());
    assert_eq!(known, expected);
    assert_eq!(known.context.unwrap().bytes(2, 1), (200 + 24 + 6) << 20);

    let unknown = read(&catalogue.row(&calibration("NVIDIA GeForce Imaginary 1")));
    assert_eq!((unknown.name.as_str(), unknown.architecture.as_str()), ("Imaginary 1", "Ampere"));
    assert_eq!((unknown.memory, unknown.bandwidth), (12 << 30, None));
    assert!(unknown.is_measured());
}

#[test]
fn a_row_of_a_calibration_without_a_context_has_none() {
    let mut calibration = calibration("NVIDIA GeForce RTX 3060");
    calibration.context = None;
    let row = catalogue().row(&calibration);
    assert!(row.contains("| 12622233600 B | - | - | - |"), "{row}");
    assert!(!Catalogue::read(&row).unwrap().gpus()[0].is_measured());
}

#[test]
fn a_number_alone_is_a_geforce_and_laptops_are_gpus_of_their_own() {
    let catalogue = catalogue();
    let name = |text: &str| catalogue.find(text).map(|gpu| gpu.name.as_str()).ok();
    assert_eq!(name("3060"), Some("RTX 3060"));
    assert_eq!(name("1080 ti"), Some("GTX 1080 Ti"));
    assert_eq!(name("4090laptop"), Some("RTX 4090 Laptop"));
    assert_eq!(name("NVIDIA GeForce RTX 3060 Laptop GPU"), Some("RTX 3060 Laptop"));
    assert_eq!(name("RTX 3060 Mobile"), Some("RTX 3060 Laptop"));
    assert_eq!((name("3"), name(""), name("60")), (None, None, None));
    assert!(catalogue.find("RTX 3060 Laptop").unwrap().is_laptop() && !catalogue.find("RTX 3060").unwrap().is_laptop());
}

#[test]
fn a_name_that_could_mean_several_gpus_says_which_others() {
    let catalogue = catalogue();
    let others = |text: &str| catalogue.other_meanings(text).iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>();
    assert!(others("A100").contains(&"A100 SXM4 80GB"), "{:?}", others("A100"));
    assert!(!others("A100").contains(&catalogue.find("A100").unwrap().name.as_str()));
    for clear in ["RTX 3060", "A100 SXM4 80GB", "3060", "H200", "no such GPU"] {
        assert!(others(clear).is_empty(), "{clear}: {:?}", others(clear));
    }
}

#[test]
fn gpus_are_found_as_people_type_them() {
    let catalogue = catalogue();
    for (typed, name) in [
        ("a100-80g", "A100 PCIe 80GB"),
        ("A100 80", "A100 PCIe 80GB"),
        ("A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("a100 sxm 80g", "A100 SXM4 80GB"),
        ("A100 80GB SXM", "A100 SXM4 80GB"),
        ("A100 SXM", "A100 SXM4 40GB"),
        ("v100 32g", "V100 PCIe 32GB"),
        ("V100-SXM2-32G", "V100 SXM2 32GB"),
        ("Tesla T4 16GB", "T4"),
        ("h100 pcie", "H100 PCIe"),
        ("h100 sxm5", "H100 SXM"),
        ("h100-80g", "H100 SXM"),
        ("H100 94GB", "H100 NVL"),
        ("4090 laptop", "RTX 4090 Laptop"),
        ("RTX 3060 notebook", "RTX 3060 Laptop"),
        ("rtx3060ti", "RTX 3060 Ti"),
        ("3060 (12 GB)", "RTX 3060"),
        ("3060 8g", "RTX 3060 8GB"),
        ("4090 24GB", "RTX 4090"),
        ("4090D", "RTX 4090 D"),
        ("4060ti 16g", "RTX 4060 Ti 16GB"),
        ("4080s", "RTX 4080 SUPER"),
        ("4070 TiS", "RTX 4070 Ti SUPER"),
        ("a4000", "RTX A4000"),
        ("6000 ada", "RTX 6000 Ada"),
        ("RTX 8000", "Quadro RTX 8000"),
        ("L40S 48GB", "L40S"),
    ] {
        assert_eq!(catalogue.find(typed).map(|gpu| gpu.name.as_str()).ok(), Some(name), "{typed}");
    }
    for none in ["2080ti 22g", "RTX 24GB", "80", "80GB", "GTX 1060", "RTX 3065", "4090 48GB", "titan 12"] {
        assert!(catalogue.find(none).is_err(), "{none}: {:?}", catalogue.find(none).map(|gpu| &gpu.name));
    }
    let others = |text: &str| catalogue.other_meanings(text).iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>();
    assert_eq!(others("a100-80g"), ["A100 SXM4 80GB"]);
    assert_eq!(others("RTX 6000"), ["RTX 6000 Ada"]);
    assert!(others("a100 sxm 80g").is_empty() && others("4090 24GB").is_empty());
}

#[test]
fn a_gpu_of_another_maker_is_called_that() {
    let error = catalogue().find("mi300x").unwrap_err().to_string();
    assert!(error.starts_with("found `mi300x`, a GPU of AMD, needed one of NVIDIA"), "{error}");
}
