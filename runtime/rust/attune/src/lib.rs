//! Exact attention kernels made to measure: a safe wrapper of libattune.
//!
//! A [`Context`] is one device with its kernel sets and its JIT. [`Args`] are one call: [`View`]s of
//! tensors in device memory, the mask and the scalars. [`Context::prepare`] finds or compiles the
//! [`Program`] that serves a [`Problem`], and [`Program::launch`] only launches.
//!
//! ```
//! use attune::{Args, Context, Corner, Dtype, Mask, Problem, View, ViewMut};
//!
//! # fn main() -> Result<(), attune::Error> {
//! let context = Context::options().in_memory().cpu("sm_80")?; // or Context::cuda(0)
//! let shape = [1, 24, 2, 32]; // batch, sequence, heads, dim
//! let input = vec![0.5f32; shape.iter().product()];
//! let (mut q, mut o) = (context.alloc(input.len() * 4)?, context.alloc(input.len() * 4)?);
//! q.upload(&input)?;
//!
//! let x = View::dense(&q, Dtype::F32, &shape)?;
//! let mut args = Args::new(x, x, x, ViewMut::dense(&mut o, Dtype::F32, &shape)?)?
//!     .mask(Mask::Causal, Corner::TopLeft);
//! let program = context.prepare(&Problem::of(&args))?; // compiles at the first call
//! program.launch(&mut args)?;
//!
//! let mut output = vec![0f32; input.len()];
//! o.download(&mut output)?;
//! assert!(output.iter().all(|x| (x - 0.5).abs() < 1e-6));
//! # Ok(())
//! # }
//! ```
//!
//! # Safety
//! Everything is safe but what takes a pointer or a stream from outside: [`View::from_raw`],
//! [`ViewMut::from_raw`] and [`Program::launch_on`]. Views of a [`Buffer`] are checked against its
//! size, a launch checks that its program was made for such arguments and on the context of its
//! buffers, and an output is borrowed exclusively. What int32 arrays on the device say (lengths,
//! starts of sequences) is read by the kernel alone: values out of range read or write wrong device
//! memory on a GPU, and are a reported fault on the CPU device.
//!
//! # Threads
//! [`Context`], [`Program`] and [`Buffer`] are `Send` and `Sync`: any thread may look up, prepare and
//! launch at any time; the context is closed when it is dropped, which its borrows prevent earlier.
mod args;
mod buffer;
mod context;
mod error;
mod problem;
mod program;
mod view;

pub use args::Args;
pub use attune_sys as sys;
pub use buffer::{Buffer, Plain};
pub use context::{Context, Level, Options};
pub use error::{Error, Result, Status};
pub use problem::{Align, Corner, Mask, Problem};
pub use program::{Info, Kernel, Program};
pub use view::{Dtype, View, ViewMut};

/// The version of libattune, such as "0.1.0".
pub fn version() -> &'static str {
    // SAFETY: returns a static string.
    unsafe { error::text(sys::attune_version()) }
}
