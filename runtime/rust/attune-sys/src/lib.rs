//! Raw bindings to libattune, whose headers (`attune.h`, `attune_cpu.h`, `jit.h`) are the manual.
//!
//! Features: `cpu` links libattune_cpu (the CPU device), `jit` libattune_gen (compiles at the first
//! call); both are on unless switched off. `build.rs` says where the libraries are looked for. The
//! crate `attune` wraps this safely.
#![allow(non_camel_case_types)]

#[rustfmt::skip] // generated
mod abi;
pub use abi::*;
