/* attune.h - the public interface of the attune runtime: open kernel sets, look up, launch.
 *
 * What a deployed program links is this header and libattune. It needs no Lua, YAML, NVRTC or CUDA
 * toolkit; the CUDA driver is found at run time, and without one everything but launching works.
 *
 *   level 1   attune_open, attune_open_set, attune_launch_problem, attune_close
 *   level 2   attune_find / attune_prepare once, attune_launch often: nothing but the launch
 *   level 3   attune_supports, attune_info, attune_each, attune_on_miss; attune_open_memory for a
 *             set that the program carries; attune_alloc and its like
 *
 * Rules that hold for every call:
 *   - Returns a status; ATTUNE_OK is 0. attune_error() then says what was wanted, what was found
 * and what would work. The library never prints, exits or aborts.
 *   - Structs that callers fill begin with their size, so that they can grow: zero them, then set
 *     .size = sizeof the struct (attune_*_init() do both). Fields left 0 mean "default".
 *   - Shapes are [batch, seq, head, dim] with the dim stride 1 and the other three strides in
 *     elements, so BSHD, BHSD and views of them are all the same call. Stride 0 is legal on inputs.
 *   - Consecutive query heads share a key/value head: kv head = q head / (heads_q / heads_kv).
 *   - LSE is the natural logarithm, fp32. A row that sees no key gives O = 0 and LSE = -inf.
 *   - Thread rule: attune_open and attune_close by one thread; everything else on a context from
 * any thread at any time. Programs live until their context is closed.
 */
#ifndef ATTUNE_H
#define ATTUNE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "axes.def"
#include "status.def"

#ifdef __cplusplus
extern "C" {
#endif

#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0
#define ATTUNE_VERSION_TEXT  "0.1.0"

#if defined(__GNUC__)
#define ATTUNE_API __attribute__((visibility("default")))
#else
#define ATTUNE_API
#endif

/* "0.1.0"; static. */
ATTUNE_API const char *attune_version(void);

/* ---- status and errors ------------------------------------------------------------------- */

typedef enum attune_status {
#define X(name, code, text) ATTUNE_##name = code,
  ATTUNE_STATUSES(X)
#undef X
} attune_status;

/* "ATTUNE_NOT_FOUND"; "ATTUNE_?" for a number that is none. Static. */
ATTUNE_API const char *attune_status_name(attune_status status);
/* "no kernel for this problem". Static. */
ATTUNE_API const char *attune_status_text(attune_status status);
/* The message of the last call that failed on this thread; "" before the first. Valid until the
 * next failing call on this thread. */
ATTUNE_API const char *attune_error(void);

typedef enum attune_level {
  ATTUNE_LEVEL_WARN = 1, /* served, but not as well as it could be: said once each */
  ATTUNE_LEVEL_INFO = 2  /* a compile, a load: with its time */
} attune_level;
typedef void (*attune_message_fn)(void *user, attune_level level, const char *text);

/* attune_problem_init() and its like: a zeroed struct with its size set. */
#define ATTUNE__INIT(type)                                                                         \
  static inline type type##_init(void) {                                                           \
    type zeroed;                                                                                   \
    memset(&zeroed, 0, sizeof zeroed);                                                             \
    zeroed.size = sizeof zeroed;                                                                   \
    return zeroed;                                                                                 \
  }

/* ---- what a caller asks: the problem ------------------------------------------------------- */

/* Enums of axes.def. 0 is "unset" and stands for the default that the field names. */
typedef enum attune_op {
#define X(name, id, text, doc) ATTUNE_OP_##name = id,
  ATTUNE_OPS(X)
#undef X
} attune_op;

typedef enum attune_dtype {
#define X(name, id, text, bytes) ATTUNE_DTYPE_##name = id,
  ATTUNE_DTYPES(X)
#undef X
} attune_dtype;

typedef enum attune_mask {
#define X(name, id, text, lower, upper) ATTUNE_MASK_##name = id,
  ATTUNE_MASKS(X)
#undef X
} attune_mask;

typedef enum attune_align {
#define X(name, id, text, doc) ATTUNE_ALIGN_##name = id,
  ATTUNE_ALIGNS(X)
#undef X
} attune_align;

typedef enum attune_corner {
#define X(name, id, text, doc) ATTUNE_CORNER_##name = id,
  ATTUNE_CORNERS(X)
#undef X
} attune_corner;

typedef enum attune_feature {
#define X(name, bit, text, generated) ATTUNE_FEATURE_##name = 1 << (bit),
  ATTUNE_FEATURES(X)
#undef X
} attune_feature;

/* A run-time scalar that the caller promises to keep at one value, so that a kernel with the value
 * compiled in may serve. name is a pinnable scalar of params.def, such as "window_left". */
typedef struct attune_pin {
  const char *name;
  double value;
} attune_pin;

/* What to compute. The first part chooses the kernel, the shape chooses among its tiles and is
 * never compiled in. */
typedef struct attune_problem {
  size_t size;            /* sizeof(attune_problem) */
  attune_op op;           /* required */
  attune_dtype dtype_q;   /* required: elements of Q */
  attune_dtype dtype_kv;  /* elements of K and V; 0: like Q */
  attune_dtype dtype_out; /* elements of O; 0: like Q */
  int32_t head_dim_qk;    /* required: elements of a row of Q and K */
  int32_t head_dim_v;     /* elements of a row of V and O; 0: like head_dim_qk */
  attune_mask mask;       /* 0: none */
  attune_align align;     /* 0: 16-byte rows */
  uint32_t features;      /* bits of attune_feature */
  int32_t group;          /* query heads packed as rows of one tile; 0: 1 */
  const attune_pin *pins; /* pin_count of them; borrowed for the call */
  uint32_t pin_count;
  /* shape */
  int32_t batch, heads_q, heads_kv, len_q, len_k; /* 0 .. 2^29 - 1 */
} attune_problem;
ATTUNE__INIT(attune_problem)

/* ---- what a launch gets: the arguments ----------------------------------------------------- */

/* A device tensor [batch, seq, head, dim]; dim stride 1, the others in elements, 0 allowed. */
typedef struct attune_tensor {
  void *data;
  int64_t stride_batch, stride_seq, stride_head;
} attune_tensor;

/* Strides of the two usual dense layouts, for convenience. */
static inline attune_tensor attune_bshd(void *data, int64_t seq, int64_t heads, int64_t dim) {
  attune_tensor t;
  t.data = data, t.stride_batch = seq * heads * dim, t.stride_seq = heads * dim,
  t.stride_head = dim;
  return t;
}
static inline attune_tensor attune_bhsd(void *data, int64_t seq, int64_t heads, int64_t dim) {
  attune_tensor t;
  t.data = data, t.stride_batch = heads * seq * dim, t.stride_seq = dim, t.stride_head = seq * dim;
  return t;
}

enum { ATTUNE_DEFAULT_SCALE = 1 }; /* flag: scale = 1 / sqrt(head_dim_qk), .scale is ignored */

/* Block classes of a bit mask: what it leaves of ATTUNE_BITMASK_BLOCK queries x as many keys, of
 * the pairs that exist. */
enum { ATTUNE_BITMASK_BLOCK = 64 };
typedef enum attune_block_class {
  ATTUNE_BLOCK_EMPTY = 0,   /* no pair; its keys are not loaded */
  ATTUNE_BLOCK_PARTIAL = 1, /* some */
  ATTUNE_BLOCK_FULL = 2     /* all; its bits are not read */
} attune_block_class;

/* Arguments of attn_fwd and attn_standard. Pointers are device pointers. What belongs to a feature
 * that the program lacks must be 0 or NULL (strides of nothing are not looked at): a call that the
 * kernel would not compute as asked is ATTUNE_INVALID. Tensors may be NULL where they have no
 * element. Lengths on the device are not seen by a launch; kernels take those out of range as the
 * nearest in range, so that they never leave the tensors.
 *
 * The score of query i and key j of a sequence is, in this order, with what the problem's features
 * name:
 *   s = scale q . k
 *   s = softcap tanh(s / softcap)             softcap
 *   s = s + bias[i][j]                        bias; -inf masks the pair
 *   s = s - slope |j - i - offset|            alibi; offset 0, or len_k - len_q at bottom_right
 * over the pairs that the mask and, with bitmask, the bits keep. With sink, each row's denominator
 * has exp(sink) of its head beside the keys' (LSE includes it; a row that sees no key gives O = 0
 * and LSE = sink). */
typedef struct attune_attn_args {
  size_t size;     /* sizeof(attune_attn_args) */
  attune_tensor q; /* [batch, len_q, heads_q, head_dim_qk] */
  attune_tensor k; /* [batch, len_k, heads_kv, head_dim_qk]; may hold NaN where masked */
  attune_tensor v; /* [batch, len_k, heads_kv, head_dim_v]; may hold NaN at keys outside the
                      mask's bounds of every query of the sequence; at those within that have no
                      bit, or a bias of -inf, it must be finite, as it is multiplied by 0 */
  attune_tensor o; /* [batch, len_q, heads_q, head_dim_v], every row in use is written */
  float *lse;      /* [batch, heads_q, len_q], natural log; NULL: not wanted */
  int64_t lse_stride_batch, lse_stride_head, lse_stride_seq; /* in floats */
  const int32_t *seqused_q; /* [batch], queries in use, 0 .. the sequence's; NULL: all. The others'
                               rows of Q are not read, their rows of O and LSE not written */
  const int32_t *seqused_k; /* [batch], keys in use, 0 .. the sequence's; NULL: all */
  int32_t batch, heads_q, heads_kv;
  int32_t len_q, len_k; /* per sequence; varlen: of the longest or about that, for the choice of a
                           tile alone. len_q times the program's group is below 2^31 - 2^17 */
  float scale;          /* any finite number: 0 and negative are legal */
  uint32_t flags;       /* ATTUNE_DEFAULT_SCALE */
  attune_corner corner; /* for masks and alibi; required unless len_q == len_k and there is no
                           varlen, seqused_q and seqused_k, or the set's spec named one. The
                           diagonal follows the lengths in use */
  int32_t window_left;  /* mask window: keys kept left of the diagonal, inclusive; -1: all */
  int32_t window_right; /* mask window: keys kept right of the diagonal, inclusive; -1: all */
  void *workspace;      /* attune_workspace() bytes, 256-byte aligned; NULL when that is 0 */
  size_t workspace_bytes;
  /* Feature varlen: sequences of any length, 0 too, packed one behind the other: q and o
   * [total_q, heads_q, dim], k and v [total_k, heads_kv, dim], lse [heads_q, total_q]; stride_batch
   * is not read. int32 [batch + 1], first 0, growing: sequence b has rows cu[b] .. cu[b + 1] - 1 */
  const int32_t *cu_seqlens_q, *cu_seqlens_k;
  int32_t total_q, total_k; /* rows of the packed tensors, at least cu[batch]; those behind it are
                               not touched. total_q times the group is below 2^31 - 2^17 */
  /* Feature softcap: over 0 and finite, and scale / softcap is finite too. */
  float softcap;
  /* Feature alibi: slopes [batch, heads_q], head stride 1; stride_batch 0: the same for all. */
  const float *alibi_slopes;
  int64_t alibi_stride_batch;
  /* Feature bias: [batch, heads_q, len_q, len_k] in dtype_q, strides in elements, each may be 0;
   * with varlen i and j count within the sequence. Finite numbers below -1e38 count as -1e38, so
   * that a row of them is no empty row. Element aligned. */
  const void *bias;
  int64_t bias_stride_batch, bias_stride_head, bias_stride_q, bias_stride_k;
  /* Feature sink: [heads_q]; -inf: none. */
  const float *sinks;
  /* Feature bitmask: key j of a row is kept when bit j % 32 (of value 1 << j % 32) of word j / 32
   * is set; [batch, heads_q, len_q, ceil(len_k / 32)], strides in words, each may be 0. */
  const uint32_t *bitmask;
  int64_t bitmask_stride_batch, bitmask_stride_head, bitmask_stride_q;
  /* Classes of its blocks, attune_block_class, [batch, heads_q, ceil(len_q / 64), ceil(len_k /
   * 64)]; strides in bytes, each may be 0. They must agree with the bits: attune_bitmask_classes()
   * makes them. NULL: every block is loaded. */
  const uint8_t *bitmask_classes;
  int64_t bitmask_classes_stride_batch, bitmask_classes_stride_head, bitmask_classes_stride_q;
} attune_attn_args;
ATTUNE__INIT(attune_attn_args)

/* Block classes of `rows` rows of `keys` bits on the host: classes [ceil(rows / 64)][ceil(keys /
 * 64)], row-major. stride: words from a row of bits to the next. ATTUNE_INVALID. */
ATTUNE_API attune_status attune_bitmask_classes(const uint32_t *bits, int64_t stride, int32_t rows,
                                                int32_t keys, uint8_t *classes);

/* ---- contexts and sets --------------------------------------------------------------------- */

typedef struct attune_context attune_context; /* one device, its sets and its loaded kernels */
typedef struct attune_program attune_program; /* what a lookup returns: launches in order */

typedef struct attune_options {
  size_t size;      /* sizeof(attune_options) */
  int32_t device;   /* CUDA device ordinal; 0 is the first */
  const char *arch; /* NULL: the device's own. "sm_90a": look up for that arch, without a device if
                       there is none (then nothing can be launched) */
  attune_message_fn message; /* may be NULL */
  void *message_user;
} attune_options;
ATTUNE__INIT(attune_options)

/* Opens a context. options may be NULL. ATTUNE_NO_DEVICE when there is no driver or device and no
 * arch was named; the message says what was looked for. */
ATTUNE_API attune_status attune_open(const attune_options *options, attune_context **out);
/* Adds the kernels of a set: a folder (attune build SPEC -o DIR) or a pack (attune pack DIR -o
 * FILE), which is mapped until the context is closed. Reads the manifest; entries are read at the
 * first prepare. Rows for archs that the context cannot run are skipped. Later sets win. A pack is
 * replaced by renaming a new file over it, never by writing into it. */
ATTUNE_API attune_status attune_open_set(attune_context *context, const char *path);
/* The same for a pack in memory, such as the array that `attune embed` writes. pack is 16-byte
 * aligned, borrowed, and stays as it is until the context is closed. name stands for the path in
 * messages and in attune_info; NULL: "memory". */
ATTUNE_API attune_status attune_open_memory(attune_context *context, const void *pack, size_t bytes,
                                            const char *name);
/* Frees the context, its programs and loaded kernels. No launch may be in flight or under way. */
ATTUNE_API void attune_close(attune_context *context);
/* The arch looked up for, such as "sm_90a"; the device's name, "" without one. */
ATTUNE_API const char *attune_context_arch(const attune_context *context);
ATTUNE_API const char *attune_context_device(const attune_context *context);

/* ---- lookup and launch --------------------------------------------------------------------- */

/* Looks the problem up in memory. Never compiles, loads, locks or allocates: about 20 ns (with pins
 * about a microsecond, they are digested). ATTUNE_NOT_FOUND: attune_error() names the field that
 * caused the miss. The program may still be unloaded: attune_launch then says ATTUNE_BUSY until
 * attune_prepare was called. */
ATTUNE_API attune_status attune_find(attune_context *context, const attune_problem *problem,
                                     attune_program **out);
/* Finds and makes ready to launch: loads the binaries, sets attributes; on a miss asks the miss
 * handler, which may compile. Cheap when all that was done before. An entry that is damaged counts
 * as a miss. Under stream capture only with what is loaded: else the driver may make it
 * ATTUNE_BUSY. In a context without a device the entries are only read and checked. A program may
 * be for the class of the problem's shape alone, and some take few keys and no more (a launch with
 * more is ATTUNE_INVALID): look up by the shape of the launch. */
ATTUNE_API attune_status attune_prepare(attune_context *context, const attune_problem *problem,
                                        attune_program **out);
/* Launches on a CUstream / cudaStream_t (NULL: the legacy default stream). args is the op's
 * argument struct. Only launches: no allocation, lock, synchronisation or compile; usable under
 * capture. Arguments are copied before it returns. Batch, heads or lengths of 0 are legal.
 *
 * From compute capability 9.0 on kernels wait themselves for what is ahead of them in the stream,
 * and are launched so that they may be placed before that has ended (programmatic dependent launch,
 * CUDA programming guide; drivers from CUDA 12.3 on). Nothing is read or written before the wait:
 * the stream's order holds. Whoever reads edges of captured graphs by calls that know no edge data
 * sets the environment variable ATTUNE_EARLY_LAUNCH to 0 before attune_open. */
ATTUNE_API attune_status attune_launch(attune_program *program, const void *args, void *stream);
/* prepare and launch in a row; the shape is taken from the problem's twin fields in args. */
ATTUNE_API attune_status attune_launch_problem(attune_context *context,
                                               const attune_problem *problem, const void *args,
                                               void *stream);
/* Bytes of workspace that a launch of the shape needs; 0 for most programs. ATTUNE_BUSY before the
 * program was prepared. */
ATTUNE_API attune_status attune_workspace(const attune_program *program, int32_t batch,
                                          int32_t heads_q, int32_t len_q, int32_t len_k,
                                          size_t *bytes);

/* ---- questions ----------------------------------------------------------------------------- */

/* ATTUNE_OK when prepare would find or be able to make a program; otherwise the reason, in
 * attune_error(). Asks the rows, then the miss handler where one is installed; compiles nothing. */
ATTUNE_API attune_status attune_supports(attune_context *context, const attune_problem *problem);

typedef struct attune_kernel_facts {
  const char *name; /* the kernel's name, static for the context's life */
  /* 0 until the program was prepared: */
  int32_t threads;    /* per block */
  int32_t smem_bytes; /* dynamic shared memory per block */
  int32_t registers;  /* per thread */
  int32_t spill_bytes;
} attune_kernel_facts;

enum { ATTUNE_MAX_PARTS = 4 };
typedef struct attune_program_info {
  size_t size;             /* sizeof(attune_program_info) */
  const char *variant;     /* the row's variant, e.g. "attn_fwd_sm80_fp16_d64" */
  const char *shape_class; /* "any", ... */
  const char *origin;      /* path or name of the set, or "jit" */
  attune_corner corner;    /* the spec's default, 0 when it named none */
  int32_t prepared;        /* 1: attune_launch will launch */
  int32_t kernel_count;
  attune_kernel_facts kernels[ATTUNE_MAX_PARTS];
} attune_program_info;
ATTUNE__INIT(attune_program_info)
ATTUNE_API attune_status attune_info(const attune_program *program, attune_program_info *out);

/* Calls visit for every program that the context knows, in name order, until it returns nonzero.
 * visit may call anything but attune_close. */
typedef int (*attune_visit_fn)(void *user, attune_program *program);
ATTUNE_API attune_status attune_each(attune_context *context, attune_visit_fn visit, void *user);

/* Device memory for tests and examples, synchronous; bytes may be 0. Programs with an allocator of
 * their own (cudaMalloc, PyTorch) hand its pointers to attune_launch instead. attune_free takes
 * NULL. */
ATTUNE_API attune_status attune_alloc(attune_context *context, size_t bytes, void **out);
ATTUNE_API void attune_free(attune_context *context, void *memory);
ATTUNE_API attune_status attune_upload(attune_context *context, void *to, const void *from,
                                       size_t bytes);
ATTUNE_API attune_status attune_download(attune_context *context, void *to, const void *from,
                                         size_t bytes);
/* Waits for all work on the context's device. */
ATTUNE_API attune_status attune_synchronize(attune_context *context);

/* ---- misses -------------------------------------------------------------------------------- */

/* What a miss handler hands back: the entries (whole entry files, see entry.h) of one program, in
 * launch order. free_entries is called once they were copied. */
typedef struct attune_miss_result {
  int32_t count;
  const void *entries[ATTUNE_MAX_PARTS];
  size_t entry_bytes[ATTUNE_MAX_PARTS];
  void (*free_entries)(struct attune_miss_result *result);
  void *owner;
  int32_t shape_class; /* whose shapes it is for: an id of ATTUNE_CLASSES; 0: all */
} attune_miss_result;

/* Called by prepare (dry_run 0) and supports (dry_run 1, result NULL) when no row serves the
 * problem; any thread. Returns ATTUNE_OK, or the reason through attune_fail(). */
typedef attune_status (*attune_miss_fn)(void *user, const attune_problem *problem, const char *arch,
                                        int dry_run, attune_miss_result *result);
/* Installs the handler; NULL removes it. attune_jit_install (gen/jit.h) is one. */
ATTUNE_API void attune_on_miss(attune_context *context, attune_miss_fn handler, void *user);
/* Sets this thread's attune_error() text and returns status: for miss handlers. */
ATTUNE_API attune_status attune_fail(attune_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#ifdef __cplusplus
}
#endif
#endif
