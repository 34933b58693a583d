// The C interface of attune. Made by runtime/bindings.py from runtime/abi.txt: edit neither by
// hand; `make abi` writes both. The tests at the end hold what the C compiler made of each struct.
use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const ATTUNE_VERSION_TEXT: &str = "0.1.0";

pub type attune_status = c_uint;
pub const ATTUNE_OK: attune_status = 0;
pub const ATTUNE_INVALID: attune_status = 1;
pub const ATTUNE_NO_MEMORY: attune_status = 2;
pub const ATTUNE_NO_DEVICE: attune_status = 3;
pub const ATTUNE_NOT_FOUND: attune_status = 4;
pub const ATTUNE_UNSUPPORTED: attune_status = 5;
pub const ATTUNE_NO_FIT: attune_status = 6;
pub const ATTUNE_BAD_FILE: attune_status = 7;
pub const ATTUNE_IO: attune_status = 8;
pub const ATTUNE_BAD_SPEC: attune_status = 9;
pub const ATTUNE_TEMPLATE: attune_status = 10;
pub const ATTUNE_NO_COMPILER: attune_status = 11;
pub const ATTUNE_COMPILE: attune_status = 12;
pub const ATTUNE_DRIVER: attune_status = 13;
pub const ATTUNE_WORKSPACE: attune_status = 14;
pub const ATTUNE_MISMATCH: attune_status = 15;
pub const ATTUNE_BUSY: attune_status = 16;

pub type attune_level = c_uint;
pub const ATTUNE_LEVEL_WARN: attune_level = 1;
pub const ATTUNE_LEVEL_INFO: attune_level = 2;

pub type attune_op = c_uint;
pub const ATTUNE_OP_ATTN_FWD: attune_op = 1;
pub const ATTUNE_OP_ATTN_STANDARD: attune_op = 2;
pub const ATTUNE_OP_ATTN_DEMO: attune_op = 3;

pub type attune_dtype = c_uint;
pub const ATTUNE_DTYPE_FP32: attune_dtype = 1;
pub const ATTUNE_DTYPE_FP16: attune_dtype = 2;
pub const ATTUNE_DTYPE_BF16: attune_dtype = 3;

pub type attune_mask = c_uint;
pub const ATTUNE_MASK_NONE: attune_mask = 1;
pub const ATTUNE_MASK_CAUSAL: attune_mask = 2;
pub const ATTUNE_MASK_WINDOW: attune_mask = 3;

pub type attune_align = c_uint;
pub const ATTUNE_ALIGN_16B: attune_align = 1;
pub const ATTUNE_ALIGN_ELEM: attune_align = 2;

pub type attune_corner = c_uint;
pub const ATTUNE_CORNER_TOP_LEFT: attune_corner = 1;
pub const ATTUNE_CORNER_BOTTOM_RIGHT: attune_corner = 2;

pub type attune_feature = c_uint;
pub const ATTUNE_FEATURE_SOFTCAP: attune_feature = 1;
pub const ATTUNE_FEATURE_ALIBI: attune_feature = 2;
pub const ATTUNE_FEATURE_BIAS: attune_feature = 4;
pub const ATTUNE_FEATURE_SINK: attune_feature = 8;
pub const ATTUNE_FEATURE_BITMASK: attune_feature = 16;
pub const ATTUNE_FEATURE_VARLEN: attune_feature = 32;
pub const ATTUNE_FEATURE_PAGED: attune_feature = 64;
pub const ATTUNE_FEATURE_NORESCALE: attune_feature = 65536;
pub const ATTUNE_FEATURE_NOMAX: attune_feature = 131072;
pub const ATTUNE_FEATURE_FA1: attune_feature = 262144;
pub const ATTUNE_DEFAULT_SCALE: c_uint = 1;
pub const ATTUNE_BITMASK_BLOCK: c_uint = 64;
pub const ATTUNE_MAX_PARTS: c_uint = 4;
pub const ATTUNE_CPU_TENSORS: c_uint = 16;

pub type attune_block_class = c_uint;
pub const ATTUNE_BLOCK_EMPTY: attune_block_class = 0;
pub const ATTUNE_BLOCK_PARTIAL: attune_block_class = 1;
pub const ATTUNE_BLOCK_FULL: attune_block_class = 2;

pub type attune_cpu_landing = c_uint;
pub const ATTUNE_CPU_LAND_LATE: attune_cpu_landing = 0;
pub const ATTUNE_CPU_LAND_EARLY: attune_cpu_landing = 1;
pub const ATTUNE_CPU_LAND_RANDOM: attune_cpu_landing = 2;

pub type attune_cpu_sums = c_uint;
pub const ATTUNE_CPU_SUMS_FLOAT: attune_cpu_sums = 0;
pub const ATTUNE_CPU_SUMS_HARDWARE: attune_cpu_sums = 1;

pub type attune_tune_mode = c_uint;
pub const ATTUNE_TUNE_OFF: attune_tune_mode = 0;
pub const ATTUNE_TUNE_ONCE: attune_tune_mode = 1;
pub const ATTUNE_TUNE_BACKGROUND: attune_tune_mode = 2;

pub type attune_message_fn =
    Option<unsafe extern "C" fn(*mut c_void, attune_level, *const c_char)>;
pub type attune_visit_fn =
    Option<unsafe extern "C" fn(*mut c_void, *mut attune_program) -> c_int>;
pub type attune_miss_fn =
    Option<unsafe extern "C" fn(*mut c_void, *const attune_problem, *const c_char, c_int, *mut attune_miss_result) -> attune_status>;
pub type attune_free_entries_fn =
    Option<unsafe extern "C" fn(*mut attune_miss_result)>;

#[repr(C)]
pub struct attune_context {
    _private: [u8; 0],
}

#[repr(C)]
pub struct attune_program {
    _private: [u8; 0],
}

#[repr(C)]
pub struct attune_jit {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_pin {
    pub name: *const c_char,
    pub value: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_problem {
    pub size: usize,
    pub op: attune_op,
    pub dtype_q: attune_dtype,
    pub dtype_kv: attune_dtype,
    pub dtype_out: attune_dtype,
    pub head_dim_qk: i32,
    pub head_dim_v: i32,
    pub mask: attune_mask,
    pub align: attune_align,
    pub features: u32,
    pub group: i32,
    pub pins: *const attune_pin,
    pub pin_count: u32,
    pub batch: i32,
    pub heads_q: i32,
    pub heads_kv: i32,
    pub len_q: i32,
    pub len_k: i32,
}

impl attune_problem {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_tensor {
    pub data: *mut c_void,
    pub stride_batch: i64,
    pub stride_seq: i64,
    pub stride_head: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_attn_args {
    pub size: usize,
    pub q: attune_tensor,
    pub k: attune_tensor,
    pub v: attune_tensor,
    pub o: attune_tensor,
    pub lse: *mut f32,
    pub lse_stride_batch: i64,
    pub lse_stride_head: i64,
    pub lse_stride_seq: i64,
    pub seqused_q: *const i32,
    pub seqused_k: *const i32,
    pub batch: i32,
    pub heads_q: i32,
    pub heads_kv: i32,
    pub len_q: i32,
    pub len_k: i32,
    pub scale: f32,
    pub flags: u32,
    pub corner: attune_corner,
    pub window_left: i32,
    pub window_right: i32,
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
    pub cu_seqlens_q: *const i32,
    pub cu_seqlens_k: *const i32,
    pub total_q: i32,
    pub total_k: i32,
    pub softcap: f32,
    pub alibi_slopes: *const f32,
    pub alibi_stride_batch: i64,
    pub bias: *const c_void,
    pub bias_stride_batch: i64,
    pub bias_stride_head: i64,
    pub bias_stride_q: i64,
    pub bias_stride_k: i64,
    pub sinks: *const f32,
    pub bitmask: *const u32,
    pub bitmask_stride_batch: i64,
    pub bitmask_stride_head: i64,
    pub bitmask_stride_q: i64,
    pub bitmask_classes: *const u8,
    pub bitmask_classes_stride_batch: i64,
    pub bitmask_classes_stride_head: i64,
    pub bitmask_classes_stride_q: i64,
}

impl attune_attn_args {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_options {
    pub size: usize,
    pub device: i32,
    pub arch: *const c_char,
    pub message: attune_message_fn,
    pub message_user: *mut c_void,
}

impl attune_options {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_kernel_facts {
    pub name: *const c_char,
    pub threads: i32,
    pub smem_bytes: i32,
    pub registers: i32,
    pub spill_bytes: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_program_info {
    pub size: usize,
    pub variant: *const c_char,
    pub shape_class: *const c_char,
    pub origin: *const c_char,
    pub corner: attune_corner,
    pub prepared: i32,
    pub kernel_count: i32,
    pub kernels: [attune_kernel_facts; 4],
}

impl attune_program_info {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_miss_result {
    pub count: i32,
    pub entries: [*const c_void; 4],
    pub entry_bytes: [usize; 4],
    pub free_entries: attune_free_entries_fn,
    pub owner: *mut c_void,
    pub shape_class: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_cpu_options {
    pub size: usize,
    pub arch: *const c_char,
    pub unchecked: i32,
    pub schedule_seed: u64,
    pub landing: attune_cpu_landing,
    pub sums: attune_cpu_sums,
    pub threads: i32,
    pub message: attune_message_fn,
    pub message_user: *mut c_void,
}

impl attune_cpu_options {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_cpu_tensor {
    pub name: *const c_char,
    pub requested_read: u64,
    pub requested_write: u64,
    pub compulsory_read: u64,
    pub compulsory_write: u64,
    pub sectors_read: u64,
    pub sectors_write: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_cpu_counters {
    pub size: usize,
    pub tensor: [attune_cpu_tensor; 16],
    pub tensors: i32,
    pub blocks: u64,
    pub warps: u64,
    pub instructions: u64,
    pub smem_read: u64,
    pub smem_write: u64,
    pub smem_phases: u64,
    pub smem_phases_least: u64,
    pub fma: u64,
    pub mma_macs: u64,
    pub exp2: u64,
    pub barriers: u64,
    pub async_bytes: u64,
}

impl attune_cpu_counters {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_jit_options {
    pub size: usize,
    pub store: *const c_char,
    pub no_jit: i32,
    pub message: attune_message_fn,
    pub message_user: *mut c_void,
    pub tune: attune_tune_mode,
    pub tune_budget: f64,
    pub tune_share: f64,
    pub tune_program: *const c_char,
}

impl attune_jit_options {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_tune_options {
    pub size: usize,
    pub budget: f64,
    pub seed: u64,
    pub max_trials: i32,
}

impl attune_tune_options {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct attune_tune_result {
    pub size: usize,
    pub program: *mut attune_program,
    pub planned: f64,
    pub winner: f64,
    pub gain: f64,
    pub gain_low: f64,
    pub gain_high: f64,
    pub tried: i32,
    pub changed: i32,
    pub provisional: i32,
}

impl attune_tune_result {
    /// Zeroed, with its size set.
    pub fn init() -> Self {
        // SAFETY: integers, floats, null pointers and None are all zero bytes.
        let zeroed: Self = unsafe { core::mem::zeroed() };
        Self { size: core::mem::size_of::<Self>(), ..zeroed }
    }
}

#[link(name = "attune")]
extern "C" {
    pub fn attune_alloc(context: *mut attune_context, bytes: usize, out: *mut *mut c_void) -> attune_status;
    pub fn attune_bitmask_classes(bits: *const u32, stride: i64, rows: i32, keys: i32, classes: *mut u8) -> attune_status;
    pub fn attune_download(context: *mut attune_context, to: *mut c_void, from: *const c_void, bytes: usize) -> attune_status;
    pub fn attune_each(context: *mut attune_context, visit: attune_visit_fn, user: *mut c_void) -> attune_status;
    pub fn attune_find(context: *mut attune_context, problem: *const attune_problem, out: *mut *mut attune_program) -> attune_status;
    pub fn attune_info(program: *const attune_program, out: *mut attune_program_info) -> attune_status;
    pub fn attune_launch(program: *mut attune_program, args: *const c_void, stream: *mut c_void) -> attune_status;
    pub fn attune_launch_problem(context: *mut attune_context, problem: *const attune_problem, args: *const c_void, stream: *mut c_void) -> attune_status;
    pub fn attune_open(options: *const attune_options, out: *mut *mut attune_context) -> attune_status;
    pub fn attune_open_memory(context: *mut attune_context, pack: *const c_void, bytes: usize, name: *const c_char) -> attune_status;
    pub fn attune_open_set(context: *mut attune_context, path: *const c_char) -> attune_status;
    pub fn attune_prepare(context: *mut attune_context, problem: *const attune_problem, out: *mut *mut attune_program) -> attune_status;
    pub fn attune_supports(context: *mut attune_context, problem: *const attune_problem) -> attune_status;
    pub fn attune_synchronize(context: *mut attune_context) -> attune_status;
    pub fn attune_upload(context: *mut attune_context, to: *mut c_void, from: *const c_void, bytes: usize) -> attune_status;
    pub fn attune_workspace(program: *const attune_program, batch: i32, heads_q: i32, len_q: i32, len_k: i32, bytes: *mut usize) -> attune_status;
    pub fn attune_context_arch(context: *const attune_context) -> *const c_char;
    pub fn attune_context_device(context: *const attune_context) -> *const c_char;
    pub fn attune_error() -> *const c_char;
    pub fn attune_status_name(status: attune_status) -> *const c_char;
    pub fn attune_status_text(status: attune_status) -> *const c_char;
    pub fn attune_version() -> *const c_char;
    pub fn attune_close(context: *mut attune_context);
    pub fn attune_free(context: *mut attune_context, memory: *mut c_void);
    pub fn attune_on_miss(context: *mut attune_context, handler: attune_miss_fn, user: *mut c_void);
}

#[cfg(feature = "cpu")]
#[link(name = "attune_cpu")]
extern "C" {
    pub fn attune_cpu_configure(context: *mut attune_context, options: *const attune_cpu_options) -> attune_status;
    pub fn attune_cpu_count(context: *mut attune_context, part: i32, out: *mut attune_cpu_counters) -> attune_status;
    pub fn attune_cpu_open(options: *const attune_cpu_options, out: *mut *mut attune_context) -> attune_status;
}

#[cfg(feature = "jit")]
#[link(name = "attune_gen")]
extern "C" {
    pub fn attune_jit_install(context: *mut attune_context, options: *const attune_jit_options, out: *mut *mut attune_jit) -> attune_status;
    pub fn attune_tune(jit: *mut attune_jit, problem: *const attune_problem, options: *const attune_tune_options, out: *mut attune_tune_result) -> attune_status;
    pub fn attune_jit_close(jit: *mut attune_jit);
}

#[cfg(test)]
mod layout {
    use super::*;

    macro_rules! at {
        ($kind:ty, $field:ident) => {{
            let whole = core::mem::MaybeUninit::<$kind>::uninit();
            let base = whole.as_ptr();
            // SAFETY: only the address of a field is taken, inside of the value.
            let field = unsafe { core::ptr::addr_of!((*base).$field) };
            field as usize - base as usize
        }};
    }

    #[test]
    fn attune_pin_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_pin>(), 16);
        assert_eq!(at!(attune_pin, name), 0);
        assert_eq!(at!(attune_pin, value), 8);
    }

    #[test]
    fn attune_problem_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_problem>(), 80);
        assert_eq!(at!(attune_problem, size), 0);
        assert_eq!(at!(attune_problem, op), 8);
        assert_eq!(at!(attune_problem, dtype_q), 12);
        assert_eq!(at!(attune_problem, dtype_kv), 16);
        assert_eq!(at!(attune_problem, dtype_out), 20);
        assert_eq!(at!(attune_problem, head_dim_qk), 24);
        assert_eq!(at!(attune_problem, head_dim_v), 28);
        assert_eq!(at!(attune_problem, mask), 32);
        assert_eq!(at!(attune_problem, align), 36);
        assert_eq!(at!(attune_problem, features), 40);
        assert_eq!(at!(attune_problem, group), 44);
        assert_eq!(at!(attune_problem, pins), 48);
        assert_eq!(at!(attune_problem, pin_count), 56);
        assert_eq!(at!(attune_problem, batch), 60);
        assert_eq!(at!(attune_problem, heads_q), 64);
        assert_eq!(at!(attune_problem, heads_kv), 68);
        assert_eq!(at!(attune_problem, len_q), 72);
        assert_eq!(at!(attune_problem, len_k), 76);
    }

    #[test]
    fn attune_tensor_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_tensor>(), 32);
        assert_eq!(at!(attune_tensor, data), 0);
        assert_eq!(at!(attune_tensor, stride_batch), 8);
        assert_eq!(at!(attune_tensor, stride_seq), 16);
        assert_eq!(at!(attune_tensor, stride_head), 24);
    }

    #[test]
    fn attune_attn_args_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_attn_args>(), 400);
        assert_eq!(at!(attune_attn_args, size), 0);
        assert_eq!(at!(attune_attn_args, q), 8);
        assert_eq!(at!(attune_attn_args, k), 40);
        assert_eq!(at!(attune_attn_args, v), 72);
        assert_eq!(at!(attune_attn_args, o), 104);
        assert_eq!(at!(attune_attn_args, lse), 136);
        assert_eq!(at!(attune_attn_args, lse_stride_batch), 144);
        assert_eq!(at!(attune_attn_args, lse_stride_head), 152);
        assert_eq!(at!(attune_attn_args, lse_stride_seq), 160);
        assert_eq!(at!(attune_attn_args, seqused_q), 168);
        assert_eq!(at!(attune_attn_args, seqused_k), 176);
        assert_eq!(at!(attune_attn_args, batch), 184);
        assert_eq!(at!(attune_attn_args, heads_q), 188);
        assert_eq!(at!(attune_attn_args, heads_kv), 192);
        assert_eq!(at!(attune_attn_args, len_q), 196);
        assert_eq!(at!(attune_attn_args, len_k), 200);
        assert_eq!(at!(attune_attn_args, scale), 204);
        assert_eq!(at!(attune_attn_args, flags), 208);
        assert_eq!(at!(attune_attn_args, corner), 212);
        assert_eq!(at!(attune_attn_args, window_left), 216);
        assert_eq!(at!(attune_attn_args, window_right), 220);
        assert_eq!(at!(attune_attn_args, workspace), 224);
        assert_eq!(at!(attune_attn_args, workspace_bytes), 232);
        assert_eq!(at!(attune_attn_args, cu_seqlens_q), 240);
        assert_eq!(at!(attune_attn_args, cu_seqlens_k), 248);
        assert_eq!(at!(attune_attn_args, total_q), 256);
        assert_eq!(at!(attune_attn_args, total_k), 260);
        assert_eq!(at!(attune_attn_args, softcap), 264);
        assert_eq!(at!(attune_attn_args, alibi_slopes), 272);
        assert_eq!(at!(attune_attn_args, alibi_stride_batch), 280);
        assert_eq!(at!(attune_attn_args, bias), 288);
        assert_eq!(at!(attune_attn_args, bias_stride_batch), 296);
        assert_eq!(at!(attune_attn_args, bias_stride_head), 304);
        assert_eq!(at!(attune_attn_args, bias_stride_q), 312);
        assert_eq!(at!(attune_attn_args, bias_stride_k), 320);
        assert_eq!(at!(attune_attn_args, sinks), 328);
        assert_eq!(at!(attune_attn_args, bitmask), 336);
        assert_eq!(at!(attune_attn_args, bitmask_stride_batch), 344);
        assert_eq!(at!(attune_attn_args, bitmask_stride_head), 352);
        assert_eq!(at!(attune_attn_args, bitmask_stride_q), 360);
        assert_eq!(at!(attune_attn_args, bitmask_classes), 368);
        assert_eq!(at!(attune_attn_args, bitmask_classes_stride_batch), 376);
        assert_eq!(at!(attune_attn_args, bitmask_classes_stride_head), 384);
        assert_eq!(at!(attune_attn_args, bitmask_classes_stride_q), 392);
    }

    #[test]
    fn attune_options_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_options>(), 40);
        assert_eq!(at!(attune_options, size), 0);
        assert_eq!(at!(attune_options, device), 8);
        assert_eq!(at!(attune_options, arch), 16);
        assert_eq!(at!(attune_options, message), 24);
        assert_eq!(at!(attune_options, message_user), 32);
    }

    #[test]
    fn attune_kernel_facts_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_kernel_facts>(), 24);
        assert_eq!(at!(attune_kernel_facts, name), 0);
        assert_eq!(at!(attune_kernel_facts, threads), 8);
        assert_eq!(at!(attune_kernel_facts, smem_bytes), 12);
        assert_eq!(at!(attune_kernel_facts, registers), 16);
        assert_eq!(at!(attune_kernel_facts, spill_bytes), 20);
    }

    #[test]
    fn attune_program_info_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_program_info>(), 144);
        assert_eq!(at!(attune_program_info, size), 0);
        assert_eq!(at!(attune_program_info, variant), 8);
        assert_eq!(at!(attune_program_info, shape_class), 16);
        assert_eq!(at!(attune_program_info, origin), 24);
        assert_eq!(at!(attune_program_info, corner), 32);
        assert_eq!(at!(attune_program_info, prepared), 36);
        assert_eq!(at!(attune_program_info, kernel_count), 40);
        assert_eq!(at!(attune_program_info, kernels), 48);
    }

    #[test]
    fn attune_miss_result_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_miss_result>(), 96);
        assert_eq!(at!(attune_miss_result, count), 0);
        assert_eq!(at!(attune_miss_result, entries), 8);
        assert_eq!(at!(attune_miss_result, entry_bytes), 40);
        assert_eq!(at!(attune_miss_result, free_entries), 72);
        assert_eq!(at!(attune_miss_result, owner), 80);
        assert_eq!(at!(attune_miss_result, shape_class), 88);
    }

    #[test]
    fn attune_cpu_options_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_cpu_options>(), 64);
        assert_eq!(at!(attune_cpu_options, size), 0);
        assert_eq!(at!(attune_cpu_options, arch), 8);
        assert_eq!(at!(attune_cpu_options, unchecked), 16);
        assert_eq!(at!(attune_cpu_options, schedule_seed), 24);
        assert_eq!(at!(attune_cpu_options, landing), 32);
        assert_eq!(at!(attune_cpu_options, sums), 36);
        assert_eq!(at!(attune_cpu_options, threads), 40);
        assert_eq!(at!(attune_cpu_options, message), 48);
        assert_eq!(at!(attune_cpu_options, message_user), 56);
    }

    #[test]
    fn attune_cpu_tensor_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_cpu_tensor>(), 56);
        assert_eq!(at!(attune_cpu_tensor, name), 0);
        assert_eq!(at!(attune_cpu_tensor, requested_read), 8);
        assert_eq!(at!(attune_cpu_tensor, requested_write), 16);
        assert_eq!(at!(attune_cpu_tensor, compulsory_read), 24);
        assert_eq!(at!(attune_cpu_tensor, compulsory_write), 32);
        assert_eq!(at!(attune_cpu_tensor, sectors_read), 40);
        assert_eq!(at!(attune_cpu_tensor, sectors_write), 48);
    }

    #[test]
    fn attune_cpu_counters_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_cpu_counters>(), 1008);
        assert_eq!(at!(attune_cpu_counters, size), 0);
        assert_eq!(at!(attune_cpu_counters, tensor), 8);
        assert_eq!(at!(attune_cpu_counters, tensors), 904);
        assert_eq!(at!(attune_cpu_counters, blocks), 912);
        assert_eq!(at!(attune_cpu_counters, warps), 920);
        assert_eq!(at!(attune_cpu_counters, instructions), 928);
        assert_eq!(at!(attune_cpu_counters, smem_read), 936);
        assert_eq!(at!(attune_cpu_counters, smem_write), 944);
        assert_eq!(at!(attune_cpu_counters, smem_phases), 952);
        assert_eq!(at!(attune_cpu_counters, smem_phases_least), 960);
        assert_eq!(at!(attune_cpu_counters, fma), 968);
        assert_eq!(at!(attune_cpu_counters, mma_macs), 976);
        assert_eq!(at!(attune_cpu_counters, exp2), 984);
        assert_eq!(at!(attune_cpu_counters, barriers), 992);
        assert_eq!(at!(attune_cpu_counters, async_bytes), 1000);
    }

    #[test]
    fn attune_jit_options_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_jit_options>(), 72);
        assert_eq!(at!(attune_jit_options, size), 0);
        assert_eq!(at!(attune_jit_options, store), 8);
        assert_eq!(at!(attune_jit_options, no_jit), 16);
        assert_eq!(at!(attune_jit_options, message), 24);
        assert_eq!(at!(attune_jit_options, message_user), 32);
        assert_eq!(at!(attune_jit_options, tune), 40);
        assert_eq!(at!(attune_jit_options, tune_budget), 48);
        assert_eq!(at!(attune_jit_options, tune_share), 56);
        assert_eq!(at!(attune_jit_options, tune_program), 64);
    }

    #[test]
    fn attune_tune_options_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_tune_options>(), 32);
        assert_eq!(at!(attune_tune_options, size), 0);
        assert_eq!(at!(attune_tune_options, budget), 8);
        assert_eq!(at!(attune_tune_options, seed), 16);
        assert_eq!(at!(attune_tune_options, max_trials), 24);
    }

    #[test]
    fn attune_tune_result_is_the_c_compilers() {
        assert_eq!(core::mem::size_of::<attune_tune_result>(), 72);
        assert_eq!(at!(attune_tune_result, size), 0);
        assert_eq!(at!(attune_tune_result, program), 8);
        assert_eq!(at!(attune_tune_result, planned), 16);
        assert_eq!(at!(attune_tune_result, winner), 24);
        assert_eq!(at!(attune_tune_result, gain), 32);
        assert_eq!(at!(attune_tune_result, gain_low), 40);
        assert_eq!(at!(attune_tune_result, gain_high), 48);
        assert_eq!(at!(attune_tune_result, tried), 56);
        assert_eq!(at!(attune_tune_result, changed), 60);
        assert_eq!(at!(attune_tune_result, provisional), 64);
    }
}
