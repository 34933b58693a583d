//! Problem: what chooses a kernel.
use crate::error::Result;
use crate::{context, Args, Dtype};
use attune_sys as sys;
use std::ffi::CString;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    None,
    /// Keys up to the diagonal.
    Causal,
    /// That many keys on each side of the diagonal, inclusive; None: all on that side.
    Window {
        left: Option<u32>,
        right: Option<u32>,
    },
}

impl Mask {
    pub(crate) fn raw(self) -> sys::attune_mask {
        match self {
            Mask::None => sys::ATTUNE_MASK_NONE,
            Mask::Causal => sys::ATTUNE_MASK_CAUSAL,
            Mask::Window { .. } => sys::ATTUNE_MASK_WINDOW,
        }
    }
}

/// Where the diagonal is anchored when there are not as many queries as keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// As the set's spec has it; an error when none named it and the lengths may differ.
    Unnamed,
    /// Row i sees keys up to i.
    TopLeft,
    /// The last row sees the last key.
    BottomRight,
}

impl Corner {
    pub(crate) fn raw(self) -> sys::attune_corner {
        match self {
            Corner::Unnamed => 0,
            Corner::TopLeft => sys::ATTUNE_CORNER_TOP_LEFT,
            Corner::BottomRight => sys::ATTUNE_CORNER_BOTTOM_RIGHT,
        }
    }
}

/// How rows are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Pointers and strides of Q, K, V and O are multiples of 16 bytes.
    Rows16,
    /// They are multiples of an element.
    Element,
}

/// What a kernel must do, and the shape that picks among its tiles.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) raw: sys::attune_problem, // pins are set by with_raw
    pins: Vec<(CString, f64)>,
}

// SAFETY: the one pointer in raw is NULL but within with_raw.
unsafe impl Send for Problem {}
unsafe impl Sync for Problem {}

impl Problem {
    /// Forward attention over one dtype and head dim, no mask, 16-byte rows, of no shape yet.
    pub fn new(dtype: Dtype, head_dim: i32) -> Problem {
        let mut raw = sys::attune_problem::init();
        raw.op = sys::ATTUNE_OP_ATTN_FWD;
        raw.dtype_q = dtype.raw();
        raw.dtype_kv = raw.dtype_q;
        raw.dtype_out = raw.dtype_q;
        raw.head_dim_qk = head_dim;
        raw.head_dim_v = head_dim;
        raw.mask = sys::ATTUNE_MASK_NONE;
        raw.align = sys::ATTUNE_ALIGN_16B;
        Problem {
            raw,
            pins: Vec::new(),
        }
    }

    /// The problem that arguments pose.
    pub fn of(args: &Args<'_>) -> Problem {
        Problem {
            raw: args.problem,
            pins: Vec::new(),
        }
    }

    /// Elements of a row of V and O, where they are not those of Q and K.
    pub fn head_dim_v(mut self, dim: i32) -> Self {
        self.raw.head_dim_v = dim;
        self
    }

    /// Elements of K and V, and of O, where they are not those of Q.
    pub fn dtypes(mut self, kv: Dtype, out: Dtype) -> Self {
        self.raw.dtype_kv = kv.raw();
        self.raw.dtype_out = out.raw();
        self
    }

    /// The mask's kind: a window's bounds are arguments.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.raw.mask = mask.raw();
        self
    }

    pub fn align(mut self, align: Align) -> Self {
        self.raw.align = match align {
            Align::Rows16 => sys::ATTUNE_ALIGN_16B,
            Align::Element => sys::ATTUNE_ALIGN_ELEM,
        };
        self
    }

    /// Bits of `sys::ATTUNE_FEATURE_*`.
    pub fn features(mut self, features: u32) -> Self {
        self.raw.features = features;
        self
    }

    /// Query heads packed as rows of one tile.
    pub fn group(mut self, group: i32) -> Self {
        self.raw.group = group;
        self
    }

    /// A scalar that launches keep at one value, so that a kernel with it compiled in may serve.
    pub fn pin(mut self, name: &str, value: f64) -> Result<Self> {
        self.pins.push((context::c_string(name)?, value));
        Ok(self)
    }

    /// batch, heads and lengths: they pick a tile and are never compiled in.
    pub fn shape(mut self, batch: i32, heads: (i32, i32), lengths: (i32, i32)) -> Self {
        self.raw.batch = batch;
        (self.raw.heads_q, self.raw.heads_kv) = heads;
        (self.raw.len_q, self.raw.len_k) = lengths;
        self
    }

    pub(crate) fn with_raw<T>(&self, ask: impl FnOnce(&sys::attune_problem) -> T) -> T {
        let pin = |(name, value): &(CString, f64)| sys::attune_pin {
            name: name.as_ptr(),
            value: *value,
        };
        let pins: Vec<sys::attune_pin> = self.pins.iter().map(pin).collect();
        let mut raw = self.raw;
        if !pins.is_empty() {
            raw.pins = pins.as_ptr();
            raw.pin_count = pins.len() as u32;
        }
        ask(&raw)
    }
}
