//! Buffer: device memory that a context owns, filled from and read into slices.
use crate::error::{check, invalid, Result};
use crate::Context;
use attune_sys as sys;
use std::mem::size_of_val;
use std::os::raw::c_void;
use std::ptr;

/// Elements that any bytes are one of: fp16 and bf16 travel as their bits in u16.
///
/// # Safety
/// No padding, no forbidden bytes.
pub unsafe trait Plain: Copy {}
unsafe impl Plain for u8 {}
unsafe impl Plain for u16 {}
unsafe impl Plain for u32 {}
unsafe impl Plain for i32 {}
unsafe impl Plain for f32 {}

/// Memory on a context's device. Freed when dropped, after the work that uses it.
pub struct Buffer<'c> {
    context: &'c Context,
    pointer: *mut c_void,
    bytes: usize,
}

// SAFETY: a pointer to device memory, used through the context, which is Sync.
unsafe impl Send for Buffer<'_> {}
unsafe impl Sync for Buffer<'_> {}

impl<'c> Buffer<'c> {
    pub(crate) fn new(context: &'c Context, bytes: usize) -> Result<Buffer<'c>> {
        let mut pointer = ptr::null_mut();
        // SAFETY: pointer is a place for one.
        check(unsafe { sys::attune_alloc(context.as_ptr(), bytes, &mut pointer) })?;
        Ok(Buffer {
            context,
            pointer,
            bytes,
        })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device pointer.
    pub fn as_ptr(&self) -> *mut c_void {
        self.pointer
    }

    pub(crate) fn context(&self) -> *mut sys::attune_context {
        self.context.as_ptr()
    }

    fn fits(&self, bytes: usize) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        invalid(format!(
            "{bytes} bytes do not fit a buffer of {}",
            self.bytes
        ))
    }

    /// Copies host elements to the buffer's begin; returns when they are there.
    pub fn upload<T: Plain>(&mut self, from: &[T]) -> Result<()> {
        self.fits(size_of_val(from))?;
        let (context, bytes) = (self.context(), size_of_val(from));
        // SAFETY: both sides hold that many bytes.
        check(unsafe { sys::attune_upload(context, self.pointer, from.as_ptr().cast(), bytes) })
    }

    /// Copies the buffer's begin to host elements, after the launches on the default stream.
    pub fn download<T: Plain>(&self, to: &mut [T]) -> Result<()> {
        self.fits(size_of_val(to))?;
        let (context, bytes) = (self.context(), size_of_val(to));
        // SAFETY: both sides hold that many bytes, and any bytes are a T.
        check(unsafe { sys::attune_download(context, to.as_mut_ptr().cast(), self.pointer, bytes) })
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by this context; no view borrows it any more.
        unsafe { sys::attune_free(self.context.as_ptr(), self.pointer) }
    }
}
