//! Args: one call, built from views.
use crate::error::{invalid, Result};
use crate::view::DIMS;
use crate::{Buffer, Corner, Dtype, Mask, View, ViewMut};
use attune_sys as sys;
use std::marker::PhantomData;

/// Tensors, mask and scalars of a launch. Shapes are checked as they come in; the rest by the launch.
#[derive(Debug)]
pub struct Args<'a> {
    pub(crate) raw: sys::attune_attn_args,
    pub(crate) problem: sys::attune_problem,
    pub(crate) contexts: Vec<*mut sys::attune_context>, // of the buffers, without repetition
    dtype: Dtype,
    borrow: PhantomData<&'a mut ()>,
}

// SAFETY: addresses only; what they point to is borrowed for 'a.
unsafe impl Send for Args<'_> {}
unsafe impl Sync for Args<'_> {}

fn int(what: &str, value: usize) -> Result<i32> {
    i32::try_from(value).or_else(|_| invalid(format!("{what} is {value}, must be below 2^31")))
}

fn attended(name: &str, view: &View<'_>) -> Result<()> {
    if view.dtype.raw() == 0 {
        return invalid(format!(
            "{name} is {:?}, must be F32, F16 or Bf16",
            view.dtype
        ));
    }
    if view.shape[DIMS - 1] > 1 && view.strides[DIMS - 1] != 1 {
        let stride = view.strides[DIMS - 1];
        return invalid(format!(
            "{name} has stride {stride} in its last dimension, must be 1"
        ));
    }
    Ok(())
}

fn same(what: &str, a: usize, b: usize) -> Result<()> {
    if a == b {
        return Ok(());
    }
    invalid(format!("{what} are {a} and {b}, must be the same"))
}

fn ceil_div(length: i32, unit: usize) -> usize {
    (length as usize + unit - 1) / unit
}

impl<'a> Args<'a> {
    /// q [batch, len_q, heads_q, dim], k [batch, len_k, heads_kv, dim], v [batch, len_k, heads_kv,
    /// dim_v], o [batch, len_q, heads_q, dim_v]; consecutive query heads share a key/value head. The
    /// scale is 1 / sqrt(dim), there is no mask.
    pub fn new(q: View<'a>, k: View<'a>, v: View<'a>, o: ViewMut<'a>) -> Result<Args<'a>> {
        let o = o.0;
        for (name, view) in [("q", &q), ("k", &k), ("v", &v), ("o", &o)] {
            attended(name, view)?;
        }
        same("batch of q and k", q.shape[0], k.shape[0])?;
        same(
            "batch, length or heads of k and v",
            0,
            usize::from(k.shape[..3] != v.shape[..3]),
        )?;
        same(
            "batch, length or heads of q and o",
            0,
            usize::from(q.shape[..3] != o.shape[..3]),
        )?;
        same("dims of q and k", q.shape[3], k.shape[3])?;
        same("dims of v and o", v.shape[3], o.shape[3])?;
        if k.dtype != v.dtype {
            return invalid(format!(
                "k is {:?} and v {:?}, must be the same",
                k.dtype, v.dtype
            ));
        }
        let mut args = Args {
            raw: sys::attune_attn_args::init(),
            problem: sys::attune_problem::init(),
            contexts: Vec::new(),
            dtype: q.dtype,
            borrow: PhantomData,
        };
        args.set_tensors(&q, &k, &v, &o)?;
        Ok(args)
    }

    fn set_tensors(&mut self, q: &View, k: &View, v: &View, o: &View) -> Result<()> {
        let (a, p) = (&mut self.raw, &mut self.problem);
        (a.q, a.k, a.v, a.o) = (q.raw(), k.raw(), v.raw(), o.raw());
        a.batch = int("batch", q.shape[0])?;
        (a.len_q, a.heads_q) = (int("len_q", q.shape[1])?, int("heads_q", q.shape[2])?);
        (a.len_k, a.heads_kv) = (int("len_k", k.shape[1])?, int("heads_kv", k.shape[2])?);
        a.flags = sys::ATTUNE_DEFAULT_SCALE;
        p.op = sys::ATTUNE_OP_ATTN_FWD;
        (p.dtype_q, p.dtype_kv, p.dtype_out) = (q.dtype.raw(), k.dtype.raw(), o.dtype.raw());
        p.head_dim_qk = int("dim of q", q.shape[3])?;
        p.head_dim_v = int("dim of v", v.shape[3])?;
        p.mask = sys::ATTUNE_MASK_NONE;
        p.align = if [q, k, v, o].iter().all(|view| view.is_16b()) {
            sys::ATTUNE_ALIGN_16B
        } else {
            sys::ATTUNE_ALIGN_ELEM
        };
        self.set_shape();
        for view in [q, k, v, o] {
            self.remember(view);
        }
        Ok(())
    }

    /// The problem's shape is that of the arguments.
    fn set_shape(&mut self) {
        let (a, p) = (&self.raw, &mut self.problem);
        (p.batch, p.heads_q, p.heads_kv) = (a.batch, a.heads_q, a.heads_kv);
        (p.len_q, p.len_k) = (a.len_q, a.len_k);
    }

    fn remember(&mut self, view: &View<'_>) {
        if !view.context.is_null() && !self.contexts.contains(&view.context) {
            self.contexts.push(view.context);
        }
    }

    /// Takes a view whose shape must be `extents`, or 1 where `may_be_1` says so: strides, 0 there.
    fn extra(
        &mut self,
        name: &str,
        view: &View<'_>,
        dtypes: &[Dtype],
        extents: [usize; DIMS],
        may_be_1: [bool; DIMS],
    ) -> Result<[i64; DIMS]> {
        let fits = (0..DIMS).all(|axis| {
            view.shape[axis] == extents[axis] || (view.shape[axis] == 1 && may_be_1[axis])
        });
        if !fits || !dtypes.contains(&view.dtype) {
            return invalid(format!(
                "{name} is {:?} of shape {:?}, must be {dtypes:?} of {extents:?}{}",
                view.dtype,
                view.shape,
                if may_be_1.contains(&true) {
                    " or 1"
                } else {
                    ""
                }
            ));
        }
        let last = DIMS - 1;
        if !may_be_1[last] && view.shape[last] > 1 && view.strides[last] != 1 {
            let stride = view.strides[last];
            return invalid(format!(
                "{name} has stride {stride} in its last dimension, must be 1"
            ));
        }
        self.remember(view);
        let mut strides = view.strides;
        for axis in 0..DIMS {
            if view.shape[axis] == 1 && may_be_1[axis] {
                strides[axis] = 0;
            }
        }
        Ok(strides)
    }

    fn vector(&mut self, name: &str, view: &View<'_>, dtype: Dtype, count: i32) -> Result<()> {
        let extents = [1, 1, 1, count as usize];
        self.extra(name, view, &[dtype], extents, [false; DIMS])?;
        Ok(())
    }

    fn is_packed(&self) -> bool {
        self.problem.features & sys::ATTUNE_FEATURE_VARLEN != 0
    }

    // ---- mask and scalars

    /// Which keys a query sees, and where the diagonal is when the lengths differ.
    pub fn mask(mut self, mask: Mask, corner: Corner) -> Self {
        self.problem.mask = mask.raw();
        self.raw.corner = corner.raw();
        if let Mask::Window { left, right } = mask {
            let bound =
                |keys: Option<u32>| keys.map_or(-1, |n| i32::try_from(n).unwrap_or(i32::MAX));
            (self.raw.window_left, self.raw.window_right) = (bound(left), bound(right));
        }
        self
    }

    /// Multiplies Q K^T, instead of 1 / sqrt(dim). 0 and negative numbers are legal.
    pub fn scale(mut self, scale: f32) -> Self {
        self.raw.scale = scale;
        self.raw.flags &= !sys::ATTUNE_DEFAULT_SCALE;
        self
    }

    /// Scores become softcap * tanh(score / softcap).
    pub fn softcap(mut self, softcap: f32) -> Self {
        self.raw.softcap = softcap;
        self.problem.features |= sys::ATTUNE_FEATURE_SOFTCAP;
        self
    }

    // ---- further tensors

    /// Packed sequences: q, k, v and o are [1, total, heads, dim], starts are I32 [batch + 1], first 0.
    /// longest: of the queries' and of the keys' sequences, or anything larger. Comes before what
    /// depends on the batch.
    pub fn packed(mut self, starts: (View<'a>, View<'a>), longest: (i32, i32)) -> Result<Self> {
        if self.raw.batch != 1 {
            let batch = self.raw.batch;
            return invalid(format!(
                "batch of q is {batch}: packed tensors are [1, total, heads, dim]"
            ));
        }
        let count = int("starts", starts.0.shape[DIMS - 1])?;
        if count < 1 {
            return invalid("starts of packed sequences are batch + 1 numbers, found none");
        }
        self.vector("starts of queries", &starts.0, Dtype::I32, count)?;
        self.vector("starts of keys", &starts.1, Dtype::I32, count)?;
        let a = &mut self.raw;
        (a.total_q, a.total_k, a.batch) = (a.len_q, a.len_k, count - 1);
        (a.len_q, a.len_k) = longest;
        a.cu_seqlens_q = starts.0.pointer as *const i32;
        a.cu_seqlens_k = starts.1.pointer as *const i32;
        self.problem.features |= sys::ATTUNE_FEATURE_VARLEN;
        self.set_shape();
        Ok(self)
    }

    /// I32 [batch]: keys in use.
    pub fn seqused_k(mut self, used: View<'a>) -> Result<Self> {
        self.vector("seqused_k", &used, Dtype::I32, self.raw.batch)?;
        self.raw.seqused_k = used.pointer as *const i32;
        Ok(self)
    }

    /// I32 [batch]: queries in use; rows of the others are not written.
    pub fn seqused_q(mut self, used: View<'a>) -> Result<Self> {
        self.vector("seqused_q", &used, Dtype::I32, self.raw.batch)?;
        self.raw.seqused_q = used.pointer as *const i32;
        Ok(self)
    }

    /// F32 [batch, heads_q, len_q], packed [heads_q, total_q]: the rows' natural-log sum of exponentials
    /// is written there.
    pub fn lse(mut self, lse: ViewMut<'a>) -> Result<Self> {
        let (a, packed) = (&self.raw, self.is_packed());
        let rows = if packed { a.total_q } else { a.len_q } as usize;
        let batch = if packed { 1 } else { a.batch as usize };
        let extents = [1, batch, a.heads_q as usize, rows];
        let strides = self.extra("lse", &lse.0, &[Dtype::F32], extents, [false; DIMS])?;
        self.raw.lse = lse.0.pointer as *mut f32;
        (self.raw.lse_stride_batch, self.raw.lse_stride_head) = (strides[1], strides[2]);
        self.raw.lse_stride_seq = strides[3];
        Ok(self)
    }

    /// F32 [heads_q] or [batch, heads_q]: slope times the distance from the diagonal is subtracted.
    pub fn alibi_slopes(mut self, slopes: View<'a>) -> Result<Self> {
        let extents = [1, 1, self.raw.batch as usize, self.raw.heads_q as usize];
        let may_be_1 = [false, false, true, false];
        let strides = self.extra("alibi_slopes", &slopes, &[Dtype::F32], extents, may_be_1)?;
        self.raw.alibi_slopes = slopes.pointer as *const f32;
        self.raw.alibi_stride_batch = strides[2];
        self.problem.features |= sys::ATTUNE_FEATURE_ALIBI;
        Ok(self)
    }

    /// [batch, heads_q, len_q, len_k] in q's dtype, any extent may be 1: added to the scores.
    pub fn bias(mut self, bias: View<'a>) -> Result<Self> {
        let extents = self.pairs(1, 1);
        let strides = self.extra("bias", &bias, &[self.dtype], extents, [true; DIMS])?;
        let a = &mut self.raw;
        a.bias = bias.pointer;
        (a.bias_stride_batch, a.bias_stride_head) = (strides[0], strides[1]);
        (a.bias_stride_q, a.bias_stride_k) = (strides[2], strides[3]);
        self.problem.features |= sys::ATTUNE_FEATURE_BIAS;
        Ok(self)
    }

    /// F32 [heads_q]: a logit in each row's denominator.
    pub fn sinks(mut self, sinks: View<'a>) -> Result<Self> {
        self.vector("sinks", &sinks, Dtype::F32, self.raw.heads_q)?;
        self.raw.sinks = sinks.pointer as *const f32;
        self.problem.features |= sys::ATTUNE_FEATURE_SINK;
        Ok(self)
    }

    /// U32 [batch, heads_q, len_q, ceil(len_k / 32)], the first three may be 1: bit j % 32 of word
    /// j / 32 set keeps key j. classes: U8 [batch, heads_q, ceil(len_q / 64), ceil(len_k / 64)].
    pub fn bitmask(mut self, bits: View<'a>, classes: Option<View<'a>>) -> Result<Self> {
        const BLOCK: usize = sys::ATTUNE_BITMASK_BLOCK as usize;
        let may_be_1 = [true, true, true, false];
        let extents = self.pairs(1, 32);
        let strides = self.extra("bitmask", &bits, &[Dtype::U32], extents, may_be_1)?;
        let a = &mut self.raw;
        a.bitmask = bits.pointer as *const u32;
        (a.bitmask_stride_batch, a.bitmask_stride_head) = (strides[0], strides[1]);
        a.bitmask_stride_q = strides[2];
        self.problem.features |= sys::ATTUNE_FEATURE_BITMASK;
        if let Some(classes) = classes {
            let extents = self.pairs(BLOCK, BLOCK);
            let of = self.extra("classes", &classes, &[Dtype::U8], extents, may_be_1)?;
            let a = &mut self.raw;
            a.bitmask_classes = classes.pointer as *const u8;
            (
                a.bitmask_classes_stride_batch,
                a.bitmask_classes_stride_head,
            ) = (of[0], of[1]);
            a.bitmask_classes_stride_q = of[2];
        }
        Ok(self)
    }

    /// Extents of what says something of each pair, in units of queries and keys.
    fn pairs(&self, queries: usize, keys: usize) -> [usize; DIMS] {
        let a = &self.raw;
        let (rows, columns) = (ceil_div(a.len_q, queries), ceil_div(a.len_k, keys));
        [a.batch as usize, a.heads_q as usize, rows, columns]
    }

    /// Scratch memory of at least [`Program::workspace_bytes`](crate::Program::workspace_bytes).
    pub fn workspace(mut self, buffer: &'a mut Buffer<'_>) -> Self {
        self.raw.workspace = buffer.as_ptr();
        self.raw.workspace_bytes = buffer.bytes();
        if !self.contexts.contains(&buffer.context()) {
            self.contexts.push(buffer.context());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::raw::c_void;

    const BASE: usize = 0x1000;

    fn view(dtype: Dtype, shape: &[usize], strides: &[i64]) -> View<'static> {
        // SAFETY: nothing is launched.
        unsafe { View::from_raw(BASE as *const c_void, dtype, shape, strides) }.unwrap()
    }

    fn out(shape: &[usize], strides: &[i64]) -> ViewMut<'static> {
        ViewMut(view(Dtype::F32, shape, strides))
    }

    /// batch 2, 5 queries x 70 keys, 4 heads over 2, dim 32.
    fn args() -> Args<'static> {
        let (shape, strides) = ([2, 5, 4, 32], [640, 128, 32, 1]);
        let q = view(Dtype::F32, &shape, &strides);
        let kv = view(Dtype::F32, &[2, 70, 2, 32], &[4480, 64, 32, 1]);
        Args::new(q, kv, kv, out(&shape, &strides)).unwrap()
    }

    #[test]
    fn tensors_arrive() {
        let args = args();
        let (a, p) = (&args.raw, &args.problem);
        assert_eq!(
            (a.batch, a.len_q, a.len_k, a.heads_q, a.heads_kv),
            (2, 5, 70, 4, 2)
        );
        assert_eq!(
            (a.k.stride_batch, a.k.stride_seq, a.k.stride_head),
            (4480, 64, 32)
        );
        assert_eq!(
            (p.len_k, p.head_dim_qk, p.head_dim_v, p.features),
            (70, 32, 32, 0)
        );
        assert_eq!(
            (p.align, a.flags),
            (sys::ATTUNE_ALIGN_16B, sys::ATTUNE_DEFAULT_SCALE)
        );
        let scaled = args.scale(0.5).mask(
            Mask::Window {
                left: None,
                right: Some(3),
            },
            Corner::TopLeft,
        );
        let a = &scaled.raw;
        assert_eq!(
            (a.scale, a.flags, a.window_left, a.window_right),
            (0.5, 0, -1, 3)
        );
        assert_eq!(scaled.problem.mask, sys::ATTUNE_MASK_WINDOW);
    }

    #[test]
    fn alignment_is_found() {
        let (shape, strides) = ([1, 5, 4, 32], [7, 132, 33, 1]); // rows of 132 bytes
        let kv = view(Dtype::F32, &shape, &[7, 128, 32, 1]); // a stride that one sequence never takes
        let o = out(&shape, &[640, 128, 32, 1]);
        assert!(kv.is_16b());
        let args = Args::new(view(Dtype::F32, &shape, &strides), kv, kv, o).unwrap();
        assert_eq!(args.problem.align, sys::ATTUNE_ALIGN_ELEM);
    }

    #[test]
    fn features_arrive() {
        let bias = view(Dtype::F32, &[4, 1, 70], &[70, 70, 1]);
        let bits = view(Dtype::U32, &[5, 3], &[3, 1]);
        let classes = view(Dtype::U8, &[4, 1, 2], &[2, 2, 1]);
        let slopes = view(Dtype::F32, &[2, 4], &[4, 1]);
        let heads = view(Dtype::F32, &[4], &[1]);
        let args = args()
            .softcap(30.0)
            .bias(bias)
            .unwrap()
            .bitmask(bits, Some(classes))
            .unwrap();
        let args = args.alibi_slopes(slopes).unwrap().sinks(heads).unwrap();
        let a = &args.raw;
        let strides = [
            a.bias_stride_batch,
            a.bias_stride_head,
            a.bias_stride_q,
            a.bias_stride_k,
        ];
        assert_eq!(strides, [0, 70, 0, 1]);
        assert_eq!((a.bitmask_stride_head, a.bitmask_stride_q), (0, 3));
        assert_eq!(
            (a.bitmask_classes_stride_head, a.bitmask_classes_stride_q),
            (2, 0)
        );
        assert_eq!(
            (a.alibi_stride_batch, a.softcap, a.sinks as usize),
            (4, 30.0, BASE)
        );
        let want = sys::ATTUNE_FEATURE_SOFTCAP
            | sys::ATTUNE_FEATURE_BIAS
            | sys::ATTUNE_FEATURE_BITMASK
            | sys::ATTUNE_FEATURE_ALIBI
            | sys::ATTUNE_FEATURE_SINK;
        assert_eq!(args.problem.features, want);
        let shared = self::args().alibi_slopes(heads).unwrap();
        assert_eq!(shared.raw.alibi_stride_batch, 0);
    }

    #[test]
    fn packed_sequences_arrive() {
        let (shape, strides) = ([1, 12, 4, 32], [0, 128, 32, 1]);
        let starts = view(Dtype::I32, &[4], &[1]);
        let q = view(Dtype::F32, &shape, &strides);
        let args = Args::new(q, q, q, out(&shape, &strides)).unwrap();
        let args = args.packed((starts, starts), (7, 9)).unwrap();
        let args = args.lse(out(&[4, 12], &[12, 1])).unwrap();
        let (a, p) = (&args.raw, &args.problem);
        assert_eq!(
            (a.batch, a.total_q, a.total_k, a.len_q, a.len_k),
            (3, 12, 12, 7, 9)
        );
        assert_eq!(
            (p.batch, p.len_q, p.features),
            (3, 7, sys::ATTUNE_FEATURE_VARLEN)
        );
        assert_eq!((a.lse_stride_head, a.lse_stride_seq), (12, 1));
        assert!(self::args().packed((starts, starts), (1, 1)).is_err()); // batch 2
    }
}
