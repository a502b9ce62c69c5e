// SPDX-License-Identifier: GPL-2.0

// Prints what procfs, a library of Rust, reads from /proc/pressure.
use procfs::{CpuPressure, IoPressure, MemoryPressure, PressureRecord};

fn print(resource: &str, kind: &str, line: &PressureRecord) {
    println!("{} {} {} {} {} {}", resource, kind, line.avg10, line.avg60, line.avg300, line.total);
}

fn main() {
    print("cpu", "some", &CpuPressure::new().unwrap().some);
    let memory = MemoryPressure::new().unwrap();
    print("memory", "some", &memory.some);
    print("memory", "full", &memory.full);
    let io = IoPressure::new().unwrap();
    print("io", "some", &io.some);
    print("io", "full", &io.full);
}
