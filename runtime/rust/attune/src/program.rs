//! Program: what serves a problem, ready to launch.
use crate::error::{check, invalid, text, Result};
use crate::{Args, Context, Problem};
use attune_sys as sys;
use std::os::raw::c_void;
use std::ptr;

/// One compiled kernel of a program.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    /// Per block; 0, as the numbers below, until the program was prepared.
    pub threads: i32,
    /// Dynamic shared memory per block.
    pub smem_bytes: i32,
    /// Per thread.
    pub registers: i32,
    pub spill_bytes: i32,
}

/// What a program is made of.
#[derive(Clone, Debug)]
pub struct Info {
    /// Such as "attn_fwd_sm80_fp16_d64".
    pub variant: String,
    pub shape_class: String,
    /// Path of its set, or "jit".
    pub origin: String,
    /// attune_launch will launch.
    pub prepared: bool,
    pub kernels: Vec<Kernel>,
}

/// A handle that lives as long as its context. Copies are the same program.
#[derive(Clone, Copy)]
pub struct Program<'c> {
    context: &'c Context,
    handle: *mut sys::attune_program,
    problem: sys::attune_problem, // what it was asked for, without pins
}

// SAFETY: as Context; the handle is not written through but by the library, which locks.
unsafe impl Send for Program<'_> {}
unsafe impl Sync for Program<'_> {}

impl<'c> Program<'c> {
    pub(crate) fn new(
        context: &'c Context,
        handle: *mut sys::attune_program,
        problem: &Problem,
    ) -> Program<'c> {
        Program {
            context,
            handle,
            problem: problem.raw,
        }
    }

    /// For calls of the C library that this crate does not wrap.
    pub fn as_ptr(&self) -> *mut sys::attune_program {
        self.handle
    }

    pub fn info(&self) -> Result<Info> {
        let mut raw = sys::attune_program_info::init();
        // SAFETY: the program lives; its strings live as long as the context and are copied.
        unsafe {
            check(sys::attune_info(self.handle, &mut raw))?;
            let kernels = raw.kernels[..raw.kernel_count as usize].iter();
            Ok(Info {
                variant: text(raw.variant).to_owned(),
                shape_class: text(raw.shape_class).to_owned(),
                origin: text(raw.origin).to_owned(),
                prepared: raw.prepared != 0,
                kernels: kernels
                    .map(|kernel| Kernel {
                        name: text(kernel.name).to_owned(),
                        threads: kernel.threads,
                        smem_bytes: kernel.smem_bytes,
                        registers: kernel.registers,
                        spill_bytes: kernel.spill_bytes,
                    })
                    .collect(),
            })
        }
    }

    /// Bytes of workspace that a launch of these arguments needs; 0 for most programs.
    pub fn workspace_bytes(&self, args: &Args<'_>) -> Result<usize> {
        let (a, mut bytes) = (&args.raw, 0);
        // SAFETY: bytes is a place for a number.
        check(unsafe {
            sys::attune_workspace(
                self.handle,
                a.batch,
                a.heads_q,
                a.len_q,
                a.len_k,
                &mut bytes,
            )
        })?;
        Ok(bytes)
    }

    /// The kernel reads memory by the problem's types and dims: the arguments must pose the same. Rows
    /// of 16 bytes will do for a program that asks for elements.
    fn check(&self, args: &Args<'_>) -> Result<()> {
        let (have, want) = (&args.problem, &self.problem);
        let aligned = want.align == sys::ATTUNE_ALIGN_ELEM || have.align == want.align;
        let facts = |p: &sys::attune_problem| {
            let types = [p.dtype_q, p.dtype_kv, p.dtype_out, p.mask];
            (types, p.head_dim_qk, p.head_dim_v, p.features)
        };
        if facts(have) != facts(want) || !aligned {
            return invalid(format!(
                "the arguments pose another problem (dtypes, mask {:?}, dims {} and {}, features {:#x}, \
                 align {}) than the program serves ({:?}, {} and {}, {:#x}, {}): prepare Problem::of them",
                facts(have).0, have.head_dim_qk, have.head_dim_v, have.features, have.align,
                facts(want).0, want.head_dim_qk, want.head_dim_v, want.features, want.align,
            ));
        }
        let here = self.context.as_ptr();
        if args.contexts.iter().any(|&context| context != here) {
            return invalid("a view is of another context's buffer than the program");
        }
        Ok(())
    }

    /// Launches on the default stream: [`Buffer::download`](crate::Buffer::download) waits for it. No
    /// allocation, lock or compile. On the CPU device it has run when this returns.
    pub fn launch(&self, args: &mut Args<'_>) -> Result<()> {
        // SAFETY: the default stream is in order with uploads, downloads and frees of buffers.
        unsafe { self.launch_on(args, ptr::null_mut()) }
    }

    /// Launches on a CUstream.
    ///
    /// # Safety
    /// `stream` is a stream of the context's device (NULL: the legacy default stream), and the views'
    /// memory stays as it is until the launch is done there: dropping a buffer waits for it, but
    /// uploads and downloads of buffers wait for the default stream only.
    pub unsafe fn launch_on(&self, args: &mut Args<'_>, stream: *mut c_void) -> Result<()> {
        self.check(args)?;
        let raw: *const sys::attune_attn_args = &args.raw;
        check(sys::attune_launch(self.handle, raw.cast(), stream))
    }
}
