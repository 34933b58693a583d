//-- api.c - `attune embed --standalone`: the declarations, for the C file itself and for --header.
//--
//-- Sees, from gen/embed_alone.c: prefix, upper (the prefix in capitals), abi, and of the kernels in
//-- the file dtypes, masks, aligns {name, id}, features {name, bit}; fields {name, kind} of a problem
//-- (fields.def); params {type, ctype, name, note} of the block (params.def); statuses {name, code,
//-- text}.
//@ local notes = {DIM = "elements of a row", DTYPE = "element type", MASK = "0: none", ALIGN = "0: " .. upper .. "_16B",
//@   COUNT = "query heads packed as rows of one tile; 0: 1", FEATURES = "bits of " .. upper .. "_...; 0: none"}
//@ local required = {dtype_q = "element type of Q; required", head_dim_qk = "elements of a row of Q and K; required",
//@   dtype_kv = "of K and V; 0: like dtype_q", dtype_out = "of O; 0: like dtype_q",
//@   head_dim_v = "elements of a row of V and O; 0: like head_dim_qk"}
#ifdef __cplusplus
extern "C" {
#endif

typedef enum $(prefix)_status {
//@ for _, s in ipairs(statuses) do
  $(upper)_$(s.name) = $(s.code), /* $(s.text) */
//@ end
} $(prefix)_status;

/* What the kernels of this file have; a name that is missing here has no kernel. */
enum {
//@ for _, list in ipairs({dtypes, masks, aligns}) do
//@   for _, x in ipairs(list) do
  $(upper)_$(x.name:upper()) = $(x.id), /* $(x.note) */
//@   end
//@ end
//@ for _, f in ipairs(features) do
  $(upper)_$(f.name:upper()) = 1 << $(f.bit), /* feature */
//@ end
};

/* Chooses the kernel. Zero it, then set what is needed. */
typedef struct $(prefix)_problem {
//@ for _, f in ipairs(fields) do
  uint32_t $(f.name); /* $(required[f.name] or notes[f.kind]) */
//@ end
} $(prefix)_problem;

/* What the kernel reads. Begin with $(prefix)_params_init(). Pointers are device pointers; strides count
 * elements, the stride of head_dim is 1, stride 0 is legal on inputs: [batch, seq, heads, dim] and
 * [batch, heads, seq, dim] are both views of it. Consecutive query heads share a key/value head. */
typedef struct $(prefix)_params {
//@ for _, p in ipairs(params) do
//@   local space = p.ctype:sub(-1) == "*" and "" or " "
//@   local note = p.note == "" and "" or " /* " .. p.note .. " */"
  $(p.ctype)$(space)$(p.name);$(note)
//@ end
} $(prefix)_params;

/* A zeroed block with its size and version; scale is not a number until you set it (1 / sqrt(head_dim_qk)
 * is usual), windows are open, and bottom_right is -1: not named, which is refused where it matters. */
$(prefix)_params $(prefix)_params_init(void);

/* O = softmax(scale Q K^T) V on a CUstream or cudaStream_t (NULL: the legacy default stream), in the calling
 * thread's current CUDA context. Only launches: no allocation, no synchronisation, usable under stream
 * capture once the kernel is loaded. The first call for a kernel on a device loads it. A row that sees no
 * key gives O = 0 and LSE = -inf. Arguments are checked first, without a driver. Any thread. */
$(prefix)_status $(prefix)_attn_fwd(const $(prefix)_problem *problem, const $(prefix)_params *params, void *stream);

/* Loads every kernel of this file that runs on the current context's device. */
$(prefix)_status $(prefix)_load(void);

/* The message of this thread's last call that failed; "" before the first. */
const char *$(prefix)_error(void);

#ifdef __cplusplus
}
#endif
