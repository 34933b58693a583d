//! Views: tensors in device memory, of up to four dimensions with strides in elements.
use crate::error::{invalid, Result};
use crate::Buffer;
use attune_sys as sys;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr;

/// Type of an element. Attention is over F32, F16 and Bf16; the others are of masks and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    F32,
    F16,
    Bf16,
    I32,
    U32,
    U8,
}

impl Dtype {
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::U8 => 1,
        }
    }

    /// The library's number; 0 for what no Q, K, V or O can be.
    pub(crate) fn raw(self) -> sys::attune_dtype {
        match self {
            Dtype::F32 => sys::ATTUNE_DTYPE_FP32,
            Dtype::F16 => sys::ATTUNE_DTYPE_FP16,
            Dtype::Bf16 => sys::ATTUNE_DTYPE_BF16,
            _ => 0,
        }
    }
}

pub(crate) const DIMS: usize = 4;

/// A tensor that is read. Leading dimensions that it does not have are of extent 1.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) pointer: *mut c_void,
    pub(crate) dtype: Dtype,
    pub(crate) shape: [usize; DIMS],
    pub(crate) strides: [i64; DIMS],
    pub(crate) context: *mut sys::attune_context, // NULL: from_raw, whose caller knows
    borrow: PhantomData<&'a ()>,
}

// SAFETY: an address; who reads or writes there is the lifetime's business.
unsafe impl Send for View<'_> {}
unsafe impl Sync for View<'_> {}

fn dense_strides(shape: [usize; DIMS]) -> [i64; DIMS] {
    let mut strides = [1i64; DIMS];
    for axis in (0..DIMS - 1).rev() {
        strides[axis] = strides[axis + 1].saturating_mul(shape[axis + 1].max(1) as i64);
    }
    strides
}

/// Up to four extents or strides, filled up in front.
fn padded<T: Copy>(values: &[T], filler: T) -> Result<[T; DIMS]> {
    if values.len() > DIMS {
        return invalid(format!(
            "{} dimensions, at most {DIMS} are known",
            values.len()
        ));
    }
    let mut out = [filler; DIMS];
    out[DIMS - values.len()..].copy_from_slice(values);
    Ok(out)
}

/// Bytes from the first element to behind the last one; None: not countable, or below the first.
fn span(dtype: Dtype, shape: [usize; DIMS], strides: [i64; DIMS]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let mut last = 0usize;
    for (extent, stride) in shape.into_iter().zip(strides) {
        let steps = usize::try_from(stride).ok()?.checked_mul(extent - 1)?;
        last = last.checked_add(steps)?;
    }
    last.checked_add(1)?.checked_mul(dtype.bytes())
}

impl<'a> View<'a> {
    /// Dense, from the buffer's begin: [batch, sequence, head, dim] for Q, K and V.
    pub fn dense(buffer: &'a Buffer<'_>, dtype: Dtype, shape: &[usize]) -> Result<View<'a>> {
        let strides = dense_strides(padded(shape, 1)?);
        Self::strided(buffer, dtype, shape, &strides[DIMS - shape.len()..], 0)
    }

    /// Strides and offset in elements; a stride of 0 repeats.
    pub fn strided(
        buffer: &'a Buffer<'_>,
        dtype: Dtype,
        shape: &[usize],
        strides: &[i64],
        offset: usize,
    ) -> Result<View<'a>> {
        if shape.len() != strides.len() {
            return invalid(format!(
                "{} extents and {} strides",
                shape.len(),
                strides.len()
            ));
        }
        let (full, steps) = (padded(shape, 1)?, padded(strides, 0)?);
        let begin = offset.checked_mul(dtype.bytes());
        let end = begin
            .zip(span(dtype, full, steps))
            .and_then(|(a, b)| a.checked_add(b));
        match (begin, end) {
            (Some(begin), Some(end)) if end <= buffer.bytes() => Ok(View {
                // SAFETY: inside of the buffer, or at its end when there is no element.
                pointer: unsafe { buffer.as_ptr().cast::<u8>().add(begin) }.cast(),
                dtype,
                shape: full,
                strides: steps,
                context: buffer.context(),
                borrow: PhantomData,
            }),
            _ => invalid(format!(
                "{dtype:?} of shape {shape:?}, strides {strides:?} and offset {offset} is not inside of \
                 a buffer of {} bytes",
                buffer.bytes()
            )),
        }
    }

    /// Memory that something else manages, such as a framework's tensor.
    ///
    /// # Safety
    /// For 'a, every element that shape and strides reach is memory of the device on which the view is
    /// used, and nothing writes there.
    pub unsafe fn from_raw(
        pointer: *const c_void,
        dtype: Dtype,
        shape: &[usize],
        strides: &[i64],
    ) -> Result<View<'a>> {
        if shape.len() != strides.len() {
            return invalid(format!(
                "{} extents and {} strides",
                shape.len(),
                strides.len()
            ));
        }
        Ok(View {
            pointer: pointer as *mut c_void,
            dtype,
            shape: padded(shape, 1)?,
            strides: padded(strides, 0)?,
            context: ptr::null_mut(),
            borrow: PhantomData,
        })
    }

    /// The same elements with the two middle dimensions swapped: [batch, head, sequence, dim] becomes
    /// what [`Args`](crate::Args) take.
    pub fn transposed(mut self) -> Self {
        self.shape.swap(1, 2);
        self.strides.swap(1, 2);
        self
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Four extents, 1 for leading dimensions that are not there.
    pub fn shape(&self) -> [usize; DIMS] {
        self.shape
    }

    pub(crate) fn raw(&self) -> sys::attune_tensor {
        sys::attune_tensor {
            data: self.pointer,
            stride_batch: self.strides[0],
            stride_seq: self.strides[1],
            stride_head: self.strides[2],
        }
    }

    /// Whether rows begin at multiples of 16 bytes. A stride counts where there is more than one row.
    pub(crate) fn is_16b(&self) -> bool {
        let bytes = self.dtype.bytes() as i64;
        let rows = (0..DIMS - 1).filter(|&axis| self.shape[axis] > 1);
        self.pointer as usize % 16 == 0
            && self.shape[DIMS - 1] as i64 * bytes % 16 == 0
            && rows
                .into_iter()
                .all(|axis| self.strides[axis] * bytes % 16 == 0)
    }
}

/// A tensor that is written: its buffer is borrowed exclusively.
#[derive(Debug)]
pub struct ViewMut<'a>(pub(crate) View<'a>);

impl<'a> ViewMut<'a> {
    /// As [`View::dense`].
    pub fn dense(buffer: &'a mut Buffer<'_>, dtype: Dtype, shape: &[usize]) -> Result<ViewMut<'a>> {
        View::dense(buffer, dtype, shape).map(ViewMut)
    }

    /// As [`View::strided`].
    pub fn strided(
        buffer: &'a mut Buffer<'_>,
        dtype: Dtype,
        shape: &[usize],
        strides: &[i64],
        offset: usize,
    ) -> Result<ViewMut<'a>> {
        View::strided(buffer, dtype, shape, strides, offset).map(ViewMut)
    }

    /// As [`View::from_raw`].
    ///
    /// # Safety
    /// For 'a, every element that shape and strides reach is memory of the device on which the view is
    /// used, and nothing else reads or writes there.
    pub unsafe fn from_raw(
        pointer: *mut c_void,
        dtype: Dtype,
        shape: &[usize],
        strides: &[i64],
    ) -> Result<ViewMut<'a>> {
        View::from_raw(pointer, dtype, shape, strides).map(ViewMut)
    }

    /// As [`View::transposed`].
    pub fn transposed(self) -> Self {
        ViewMut(self.0.transposed())
    }
}
