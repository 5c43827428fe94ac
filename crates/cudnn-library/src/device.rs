//! The properties of a GPU, as cuDNN reads them.

use serde::Serialize;
use vramfit_catalogue::Gpu;

/// What cuDNN wants to know about a GPU, under the names that it uses.
///
/// Of all these only the compute capability was seen to change an answer: 180 questions to cuDNN 9.19 about an RTX 3060 had
/// the same answers with other clocks, caches, memory and numbers of multiprocessors.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceProperties {
    device_ver: u32,
    driver_ver: u32,
    cuda_device_id: u32,
    max_grid_size: [u32; 3],
    max_block_size: [u32; 3],
    regs_per_block: u32,
    multi_processor_count: u32,
    warp_size: u32,
    max_shared_memory_per_block: u32,
    max_shared_memory_per_block_optin: u32,
    reserved_shared_memory_per_block: u32,
    #[serde(rename = "maxRegistersPerSM")]
    max_registers_per_multiprocessor: u32,
    #[serde(rename = "maxCtasPerSM")]
    max_blocks_per_multiprocessor: u32,
    max_threads_per_block: u32,
    #[serde(rename = "maxThreadsPerSM")]
    max_threads_per_multiprocessor: u32,
    pci_device_id: u32,
    is_tcc_driver: u32,
    support_coop_launch: u32,
    #[serde(rename = "smClockRateKHz")]
    clock_rate: u32,
    #[serde(rename = "memClockRateKHz")]
    memory_clock_rate: u32,
    l2_cache_size: u64,
    device_name: String,
    total_global_mem: u64,
}

/// Clocks in kHz where the catalogue has none. cuDNN's choice does not depend on them.
const CLOCK: u32 = 1_700_000;
const MEMORY_CLOCK: u32 = 7_000_000;

impl From<&Gpu> for DeviceProperties {
    fn from(gpu: &Gpu) -> DeviceProperties {
        let capability = (gpu.compute.major, gpu.compute.minor);
        // CUDA C++ programming guide, technical specifications per compute capability.
        let (shared_memory, blocks) = match capability {
            (7, 5) => (64 << 10, 16),
            (8, 0) => (163 << 10, 32),
            (8, 6 | 7) => (99 << 10, 16),
            (8, 9) | (12, _) => (99 << 10, 24),
            _ => (227 << 10, 32),
        };
        DeviceProperties {
            device_ver: u32::from(gpu.compute.major) * 100 + u32::from(gpu.compute.minor) * 10,
            driver_ver: 13_000,
            cuda_device_id: 0,
            max_grid_size: [i32::MAX as u32, 65_535, 65_535],
            max_block_size: [1024, 1024, 64],
            regs_per_block: 65_536,
            multi_processor_count: gpu.multiprocessors,
            warp_size: 32,
            max_shared_memory_per_block: 48 << 10,
            max_shared_memory_per_block_optin: shared_memory,
            reserved_shared_memory_per_block: if gpu.compute.major >= 8 { 1024 } else { 0 },
            max_registers_per_multiprocessor: 65_536,
            max_blocks_per_multiprocessor: blocks,
            max_threads_per_block: 1024,
            max_threads_per_multiprocessor: gpu.compute.threads_per_multiprocessor(),
            pci_device_id: 0,
            is_tcc_driver: 0,
            support_coop_launch: 1,
            clock_rate: CLOCK,
            memory_clock_rate: MEMORY_CLOCK,
            l2_cache_size: (gpu.cache.unwrap_or(4.0) * f64::from(1 << 20)) as u64,
            device_name: format!("NVIDIA {}", gpu.name),
            total_global_mem: gpu.seen_by_cuda.unwrap_or(gpu.memory),
        }
    }
}

impl DeviceProperties {
    /// The compute capability as cuDNN writes it, such as 860 for 8.6.
    pub(crate) fn device_version(&self) -> u32 {
        self.device_ver
    }

    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use vramfit_catalogue::Catalogue;

    use super::*;

    #[test]
    fn the_properties_have_the_names_that_cudnn_writes() {
        let catalogue = Catalogue::built_in().unwrap();
        let properties = DeviceProperties::from(catalogue.find("H200").unwrap());
        let json: serde_json::Value = serde_json::from_str(&properties.json()).unwrap();
        // Written by cuDNN 9.19 on an H200; clocks and the PCI slot are not in the catalogue.
        for (name, value) in [
            ("deviceVer", 900_u64),
            ("multiProcessorCount", 132),
            ("maxSharedMemoryPerBlock", 49_152),
            ("maxSharedMemoryPerBlockOptin", 232_448),
            ("reservedSharedMemoryPerBlock", 1024),
            ("maxRegistersPerSM", 65_536),
            ("maxCtasPerSM", 32),
            ("maxThreadsPerSM", 2048),
            ("regsPerBlock", 65_536),
            ("maxThreadsPerBlock", 1024),
        ] {
            assert_eq!(json[name], value, "{name}");
        }
        assert_eq!(json["maxGridSize"], serde_json::json!([2_147_483_647, 65_535, 65_535]));
        assert_eq!(json.as_object().unwrap().len(), 23);
    }
}
