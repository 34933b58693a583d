//-- standalone.c - `attune embed --standalone`: everything behind the cubins' arrays in the C file:
//-- tables, argument checks, dispatch, the driver.
//--
//-- Sees what api.c sees, and kernels {name, threads, smem, block_m, block_n, grid}, rows {values by
//-- field, cc, exact, class, kernel}, grids {name, text}, class_rule {id, condition}, length_limit.
//-- Lists come from params.def, fields.def and axes.def: a parameter's type, the brackets and the feature in its
//-- note say how it is checked; a grid rule's text is its code.
//@ local known = {}
//@ for _, f in ipairs(features) do known[f.name] = true end
//@ local varlen = known.varlen
//@ local function has(name) return known[name] and "(s->features & " .. upper .. "_" .. name:upper() .. ")" end
//@ local function feature_of(p) return p.note:match("^(%l+): ") end
//@ local by_name = {}
//@ for _, p in ipairs(params) do by_name[p.name] = true end
//@ local dtype_of = {IN_Q = "dtype_q", IN_KV = "dtype_kv", OUT = "dtype_out"}
/* ---- kernels ------------------------------------------------------------------------------- */

typedef struct kernel {
  const char *name; /* its symbol */
  const void *cubin;
  int threads, smem_bytes; /* of a block */
  double (*blocks)(const struct kernel *k, const $(prefix)_problem *s, const $(prefix)_params *p);
  int block_m, block_n;
} kernel;

/* Grids as attune states them; exact, since all numbers stay below 2^53. */
//@ local uses = {}
//@ for _, g in ipairs(grids) do
//@   uses.up = uses.up or g.text:find("ceil", 1, true)
//@   uses.down = uses.down or g.text:find("floor", 1, true)
//@ end
//@ if uses.down or uses.up then
static double whole_down(double x) {
  return (double)(int64_t)x;
}
//@ end
//@ if uses.up then
static double whole_up(double x) {
  return whole_down(x) < x ? whole_down(x) + 1 : whole_down(x);
}
//@ end
//@ for _, g in ipairs(grids) do
static double blocks_$(g.name)(const kernel *k, const $(prefix)_problem *s, const $(prefix)_params *p) {
//@   local seen, uses_s = {}, false
//@   for word in g.text:gmatch("[%a_][%w_]*") do
//@     if not seen[word] and word ~= "ceil" and word ~= "floor" then
//@       seen[word] = true
//@       local from = (word:find("^block_") and "k->") or (word == "group" and "s->") or "p->"
//@       uses_s = uses_s or from == "s->"
  const double $(word) = $(from)$(word);
//@     end
//@   end
//@   if not uses_s then
  (void)s;
//@   end
  return $((g.text:gsub("ceil", "whole_up"):gsub("floor", "whole_down")));
}
//@ end

static const kernel kernels[] = {
//@ for i, k in ipairs(kernels) do
    {"$(k.name)", cubin_$(i - 1), $(k.threads), $(k.smem), blocks_$(k.grid), $(k.block_m), $(k.block_n)},
//@ end
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* What serves what: problem, compute capability (exact: that one alone; else newer minors, too), class of
 * shapes (0: all), kernel. */
typedef struct row {
  $(prefix)_problem serves;
  int cc, exact, shape_class, kernel;
} row;

static const row rows[] = {
//@ local head = {}
//@ for _, f in ipairs(fields) do head[#head + 1] = f.name end
    /* $(table.concat(head, ", ")) */
//@ for _, r in ipairs(rows) do
//@   local values = {}
//@   for _, f in ipairs(fields) do values[#values + 1] = tostring(r[f.name]) end
    {{$(table.concat(values, ", "))}, $(r.cc), $(r.exact), $(r.class), $(r.kernel)},
//@ end
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static int shape_class(const $(prefix)_params *p) {
  const int64_t batch = p->batch, heads_q = p->heads_q, len_q = p->len_q;
//@ for _, c in ipairs(class_rule) do
//@   if c.condition == "1" then
  return $(c.id);
//@   else
  if ($(c.condition)) return $(c.id);
//@   end
//@ end
}

/* ---- messages ------------------------------------------------------------------------------ */

static __thread char message[512];

__attribute__((format(printf, 2, 3))) static $(prefix)_status fail($(prefix)_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

const char *$(prefix)_error(void) {
  return message;
}

/* ---- arguments ----------------------------------------------------------------------------- */

$(prefix)_params $(prefix)_params_init(void) {
  $(prefix)_params p;
  memset(&p, 0, sizeof p);
  p.size = (uint32_t)sizeof p;
  p.abi = $(abi);
//@ for _, p in ipairs(params) do
//@   if p.type == "I32" and (p.note:find("-1", 1, true) or p.name == "bottom_right") then
  p.$(p.name) = -1;
//@   elseif p.type == "F32" and not feature_of(p) then
  p.$(p.name) = __builtin_nanf("");
//@   end
//@ end
  return p;
}

enum { LENGTH_LIMIT = $(length_limit), GRID_MAX = 0x7fffffff, ROWS_MAX = 0x7fffffff - 2 * 0xffff };

static int dtype_bytes(uint32_t dtype) {
  switch (dtype) {
//@ for _, d in ipairs(dtypes) do
    case $(upper)_$(d.name:upper()):
      return $(d.bytes);
//@ end
  }
  return 1;
}

static $(prefix)_status check_range(const char *name, int32_t value, int32_t low, int32_t high) {
  if (value >= low && value <= high) return $(upper)_OK;
  return fail($(upper)_INVALID, "%s is %d, must be %d .. %d", name, (int)value, (int)low, (int)high);
}

static $(prefix)_status check_finite(const char *name, float value) {
  if (value - value == 0) return $(upper)_OK;
  return fail($(upper)_INVALID, "%s is not set, or not finite", name);
}

/* A set argument that the kernel would ignore. */
static $(prefix)_status refuse(const char *name, const char *feature) {
  return fail($(upper)_INVALID, "%s is set, but the problem has no feature %s: leave it 0, or ask for the feature",
              name, feature);
}

/* A tensor; a stride counts only where its extent is over 1, nothing where one is 0. */
typedef struct operand {
  const char *name;
  const void *data;
  int output, element_bytes, unit_bytes; /* unit: what address and strides are multiples of */
  int64_t stride[3];
  int32_t extent[3];
} operand;

static $(prefix)_status check_operand(const operand *t) {
  if (!t->extent[0] || !t->extent[1] || !t->extent[2]) return $(upper)_OK;
  if (!t->data) return fail($(upper)_INVALID, "%s is NULL, must be a device pointer", t->name);
  if ((uintptr_t)t->data % (uintptr_t)t->unit_bytes != 0)
    return fail($(upper)_INVALID, "%s is %p, not a multiple of %d bytes", t->name, t->data, t->unit_bytes);
  for (int i = 0; i < 3; i++) {
    if (t->extent[i] <= 1) continue;
    if (t->output && t->stride[i] == 0)
      return fail($(upper)_INVALID, "a stride of %s is 0: the rows of an output must not overlap", t->name);
    if (t->stride[i] % (t->unit_bytes / t->element_bytes) != 0)
      return fail($(upper)_INVALID, "a stride of %s is %lld elements of %d bytes, not a multiple of %d bytes",
                  t->name, (long long)t->stride[i], t->element_bytes, t->unit_bytes);
  }
  return $(upper)_OK;
}

static $(prefix)_status check_pointer(const char *name, const void *pointer, int bytes, int needed) {
  if (!pointer && needed) return fail($(upper)_INVALID, "%s is NULL, must be a device pointer", name);
  if ((uintptr_t)pointer % (uintptr_t)bytes == 0) return $(upper)_OK;
  return fail($(upper)_INVALID, "%s is %p, not a multiple of %d bytes", name, pointer, bytes);
}

/* Returns what is not ok. */
#define MUST(call) \
  do { \
    $(prefix)_status must_status = (call); \
    if (must_status != $(upper)_OK) return must_status; \
  } while (0)

static $(prefix)_status check_scalars(const $(prefix)_problem *s, const $(prefix)_params *p) {
//@ for _, p in ipairs(params) do
//@   local own = feature_of(p)
//@   if p.type == "I32" then
//@     local low = (p.note:find("-1", 1, true) or p.name == "bottom_right") and -1 or 0
//@     local high = p.name == "bottom_right" and "1" or "LENGTH_LIMIT - 1"
  MUST(check_range("$(p.name)", p->$(p.name), $(low), $(high)));
//@   elseif p.type == "F32" then
  MUST(check_finite("$(p.name)", p->$(p.name)));
//@   end
//@   local is_stride = p.name:find("_stride_", 1, true)
//@   if own and not is_stride then
//@     local absent = p.ctype:sub(-1) == "*" and "p->" .. p.name or "p->" .. p.name .. " != 0"
//@     if has(own) then
  if (!$(has(own)) && $(absent)) return refuse("$(p.name)", "$(own)");
//@     else
  if ($(absent)) return refuse("$(p.name)", "$(own)");
//@     end
//@   end
//@ end
//@ if has("softcap") then
  if ($(has("softcap")) && (p->softcap <= 0 || !(p->scale / p->softcap - p->scale / p->softcap == 0)))
    return fail($(upper)_INVALID, "softcap must be over 0, and scale / softcap finite");
//@ end
  if (p->heads_q == 0) return $(upper)_OK;
  if (p->heads_kv == 0 || p->heads_q % p->heads_kv != 0)
    return fail($(upper)_INVALID, "heads_q %d is not a multiple of heads_kv %d", (int)p->heads_q, (int)p->heads_kv);
  if (p->heads_q / p->heads_kv % (int32_t)s->group != 0)
    return fail($(upper)_INVALID, "heads_q / heads_kv is %d, must be a multiple of group %d",
                (int)(p->heads_q / p->heads_kv), (int)s->group);
  if ((int64_t)$(varlen and "(" .. has("varlen") .. " ? p->total_q : p->len_q)" or "p->len_q") * s->group > ROWS_MAX)
    return fail($(upper)_INVALID, "more than %d rows in a kernel of group %d: launch fewer at once", ROWS_MAX,
                (int)s->group);
  return $(upper)_OK;
}

//@ local function packed_or(name) return varlen and "packed ? p->" .. name:gsub("^len_", "total_") .. " : p->" .. name or "p->" .. name end
static $(prefix)_status check_tensors(const $(prefix)_problem *s, const $(prefix)_params *p) {
//@ if varlen then
  const int packed = $(has("varlen")) != 0; /* sequences one behind the other: no batch axis */
//@ end
//@ if known.bias or known.bitmask then
  const int keys = $(varlen and "(packed ? p->total_k : p->len_k)" or "p->len_k") > 0; /* else no pairs */
//@ end
  const int aligned = s->align == $(align_16b) ? 16 : 0; /* bytes; 0: of an element */
//@ for _, p in ipairs(params) do
//@   local own = feature_of(p)
//@   local dtype = dtype_of[p.type]
//@   local pointer = p.ctype:sub(-1) == "*"
//@   if pointer and not own and by_name[p.name .. "_stride_seq"] then
//@     local inside = p.note:match("%[(.-)%]")
//@     local len, heads = inside:match("len_%l"), inside:match("heads_%l+")
//@     local optional = p.note:find("null", 1, true)
//@     local bytes = dtype and "dtype_bytes(s->" .. dtype .. ")" or "(int)sizeof(float)"
  {
    const int bytes = $(bytes);
    const operand t = {"$(p.name)", p->$(p.name), $(p.type:find("^OUT") and 1 or 0), bytes, $(dtype and "aligned ? aligned : bytes" or "bytes"),
                       {p->$(p.name)_stride_batch, p->$(p.name)_stride_seq, p->$(p.name)_stride_head},
                       {$(varlen and "packed ? 1 : p->batch" or "p->batch"), $(packed_or(len)), p->$(heads)}};
    $(optional and "if (t.data) " or "")MUST(check_operand(&t));
  }
//@   elseif pointer then
//@     local bytes = dtype and "dtype_bytes(s->" .. dtype .. ")" or p.type:find("U8") and "1" or "4"
//@     local needed = own and not p.note:find("null", 1, true) and has(own)
//@     if needed or not own then
//@       needed = needed and needed .. (p.note:find("len_k", 1, true) and " && keys" or " != 0") or "0"
  MUST(check_pointer("$(p.name)", p->$(p.name), $(bytes), $(needed)));
//@     end
//@   end
//@ end
  return $(upper)_OK;
}

/* The block as kernels want it: the mask's bounds, the corner. */
static $(prefix)_status finish(const $(prefix)_problem *s, $(prefix)_params *p) {
//@ local lower, upper_bound = {}, {}
//@ for _, m in ipairs(masks) do
//@   if m.lower then lower[#lower + 1] = "s->mask == " .. upper .. "_" .. m.name:upper() end
//@   if m.upper then upper_bound[#upper_bound + 1] = "s->mask == " .. upper .. "_" .. m.name:upper() end
//@ end
  const int lower = $(#lower > 0 and table.concat(lower, " || ") or "0");
  const int upper = $(#upper_bound > 0 and table.concat(upper_bound, " || ") or "0");
//@ local differ = {"p->len_q != p->len_k"}
//@ for _, p in ipairs(params) do
//@   if p.name:find("^seqused_") then differ[#differ + 1] = "p->" .. p.name end
//@ end
//@ if varlen then differ[#differ + 1] = has("varlen") end
  const int diagonal = lower || upper$(has("alibi") and " || " .. has("alibi") or "");
  if (diagonal && p->bottom_right < 0 && ($(table.concat(differ, " || "))))
    return fail($(upper)_INVALID, "bottom_right is not named, but lengths may differ (len_q %d, len_k %d): 1 or 0",
                (int)p->len_q, (int)p->len_k);
  p->bottom_right = diagonal && p->bottom_right == 1;
  if (!lower) p->window_left = -1, p->window_right = upper ? 0 : -1;
//@ if varlen then
  if ($(has("varlen"))) {
//@   for _, p in ipairs(params) do
//@     if not feature_of(p) and by_name[p.name .. "_stride_seq"] then
    p->$(p.name)_stride_batch = 0;
//@     end
//@   end
  }
//@ end
  return $(upper)_OK;
}

/* ---- the driver ---------------------------------------------------------------------------- */

/* Declared here, not taken from cuda.h: names and numbers are the driver's binary interface (CUDA 12). */
enum { CC_MAJOR = 75, CC_MINOR = 76, SMEM_OPTIN = 97, MAX_DYNAMIC_SMEM = 8, CAPTURE_RELAXED = 2, DEVICES = 64 };

static struct {
  int (*init)(unsigned flags);
  int (*error_text)(int result, const char **text);
  int (*current_device)(int *device);
  int (*attribute)(int *value, int attribute, int device);
  int (*library_load)(void **library, const void *image, const int *, void *const *, unsigned, const int *,
                      void *const *, unsigned);
  int (*library_kernel)(void **kernel, void *library, const char *name);
  int (*kernel_attribute)(int attribute, int value, void *kernel, int device);
  int (*kernel_function)(void **function, void *kernel);
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned smem, void *stream, void **params, void **extra);
  int (*function_load)(void *function);  /* may be NULL: CUDA 12.4 */
  int (*exchange_capture_mode)(int *mode);
} cuda;
static const struct {
  const char *name;
  void *place;
  int required;
} symbols[] = {{"cuInit", &cuda.init, 1},
               {"cuGetErrorString", &cuda.error_text, 1},
               {"cuCtxGetDevice", &cuda.current_device, 1},
               {"cuDeviceGetAttribute", &cuda.attribute, 1},
               {"cuLibraryLoadData", &cuda.library_load, 1},
               {"cuLibraryGetKernel", &cuda.library_kernel, 1},
               {"cuKernelSetAttribute", &cuda.kernel_attribute, 1},
               {"cuKernelGetFunction", &cuda.kernel_function, 1},
               {"cuLaunchKernel", &cuda.launch, 1},
               {"cuFuncLoad", &cuda.function_load, 0},
               {"cuThreadExchangeStreamCaptureMode", &cuda.exchange_capture_mode, 1}};

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static char driver_failure[320]; /* why there is no driver; "" when there is */

static void find_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    snprintf(driver_failure, sizeof driver_failure, "no CUDA driver: %s", reason ? reason : "libcuda.so.1 not found");
    return;
  }
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *found = dlsym(library, symbols[i].name);
    memcpy(symbols[i].place, &found, sizeof found);
    if (found || !symbols[i].required) continue;
    snprintf(driver_failure, sizeof driver_failure, "libcuda.so.1 has no %s: the driver is older than CUDA 12",
             symbols[i].name);
    return;
  }
  const int result = cuda.init(0);
  const char *text = NULL;
  if (result == 0) return;
  cuda.error_text(result, &text);
  snprintf(driver_failure, sizeof driver_failure, "no CUDA device: error %d: %s", result, text ? text : "no text");
}

static $(prefix)_status check_driver(int result, const char *what, const char *name) {
  const char *text = NULL;
  if (result == 0) return $(upper)_OK;
  cuda.error_text(result, &text);
  return fail($(upper)_DRIVER, "%s %s: CUDA error %d: %s", what, name, result, text ? text : "no text");
}

/* The device of the current context, and its compute capability. */
static $(prefix)_status find_device(int *device, int *cc) {
  int major = 0, minor = 0;
  pthread_once(&driver_once, find_driver);
  if (driver_failure[0]) return fail($(upper)_NO_DEVICE, "%s", driver_failure);
  if (cuda.current_device(device) != 0)
    return fail($(upper)_NO_DEVICE, "no CUDA context is current: call cudaSetDevice and any CUDA call, or cuCtxSetCurrent");
  int result = cuda.attribute(&major, CC_MAJOR, *device);
  if (result == 0) result = cuda.attribute(&minor, CC_MINOR, *device);
  *cc = 10 * major + minor;
  return check_driver(result, "asking", "the device");
}

/* ---- loading ------------------------------------------------------------------------------- */

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static void *loaded[KERNELS];                 /* CUkernel; good in every context */
static unsigned char ready[KERNELS][DEVICES]; /* 1: its limits are set there, nothing is left to the launch */

static $(prefix)_status load_here(int index, int device) {
  const kernel *k = &kernels[index];
  void *library = NULL, *function = NULL;
  int most = 0;
  if (!loaded[index]) {
    MUST(check_driver(cuda.library_load(&library, k->cubin, NULL, NULL, 0, NULL, NULL, 0), "loading", k->name));
    MUST(check_driver(cuda.library_kernel(&loaded[index], library, k->name), "finding", k->name));
  }
  MUST(check_driver(cuda.attribute(&most, SMEM_OPTIN, device), "asking", "the device"));
  if (k->smem_bytes > most)
    return fail($(upper)_NOT_FOUND, "%s needs %d bytes of shared memory per block, the device has %d", k->name,
                k->smem_bytes, most);
  MUST(check_driver(cuda.kernel_attribute(MAX_DYNAMIC_SMEM, k->smem_bytes, loaded[index], device),
                    "raising the shared memory of", k->name));
  MUST(check_driver(cuda.kernel_function(&function, loaded[index]), "loading", k->name));
  if (cuda.function_load) MUST(check_driver(cuda.function_load(function), "loading", k->name));
  return $(upper)_OK;
}

/* In relaxed mode loading is legal while another stream of this process is being captured. */
static $(prefix)_status load_kernel(int index, int device) {
  if (device < DEVICES && __atomic_load_n(&ready[index][device], __ATOMIC_ACQUIRE)) return $(upper)_OK;
  int mode = CAPTURE_RELAXED;
  pthread_mutex_lock(&load_lock);
  cuda.exchange_capture_mode(&mode);
  $(prefix)_status status = load_here(index, device);
  cuda.exchange_capture_mode(&mode);
  if (status == $(upper)_OK && device < DEVICES) __atomic_store_n(&ready[index][device], 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&load_lock);
  return status;
}

static int runs(const row *r, int cc) {
  return r->exact ? r->cc == cc : r->cc / 10 == cc / 10 && r->cc <= cc;
}

$(prefix)_status $(prefix)_load(void) {
  int device = 0, cc = 0;
  MUST(find_device(&device, &cc));
  for (int i = 0; i < ROWS; i++)
    if (runs(&rows[i], cc)) MUST(load_kernel(rows[i].kernel, device));
  return $(upper)_OK;
}

/* ---- dispatch ------------------------------------------------------------------------------ */

/* The row that serves the problem there, or for cc 0 any that serves it somewhere; NULL: none. The newer
 * arch fits better, then the row for this very class of shapes. */
static const row *find_row(const $(prefix)_problem *s, int cls, int cc) {
  const row *best = NULL;
  int best_rank = -1;
  for (int i = 0; i < ROWS; i++) {
    const row *r = &rows[i];
    int rank = (2 * r->cc + r->exact) * 2 + (r->shape_class != 0);
    if (memcmp(&r->serves, s, sizeof *s) != 0 || (r->shape_class && r->shape_class != cls)) continue;
    if ((cc && !runs(r, cc)) || rank <= best_rank) continue;
    best = r, best_rank = rank;
  }
  return best;
}

/* 0 becomes what it stands for. */
static $(prefix)_problem completed(const $(prefix)_problem *problem) {
  $(prefix)_problem s = *problem;
//@ for _, f in ipairs(fields) do
//@   if f.kind == "DTYPE" and f.name ~= "dtype_q" then
  if (!s.$(f.name)) s.$(f.name) = s.dtype_q;
//@   elseif f.kind == "DIM" and f.name ~= "head_dim_qk" then
  if (!s.$(f.name)) s.$(f.name) = s.head_dim_qk;
//@   elseif f.kind == "MASK" or f.kind == "ALIGN" or f.kind == "COUNT" then
  if (!s.$(f.name)) s.$(f.name) = $(defaults[f.kind]);
//@   end
//@ end
  return s;
}

/* An aligned problem that has only an element-aligned row is served by it. */
static const row *find_row_for($(prefix)_problem *s, int cls, int cc) {
  const row *found = find_row(s, cls, cc);
  if (found || s->align != $(align_16b)) return found;
  s->align = $(align_elem);
  found = find_row(s, cls, cc);
  if (!found) s->align = $(align_16b);
  return found;
}

static $(prefix)_status no_kernel(const $(prefix)_problem *s, int cc) {
//@ local format, values = {}, {}
//@ for _, f in ipairs(fields) do
//@   format[#format + 1] = f.name .. " %u"
//@   values[#values + 1] = "(unsigned)s->" .. f.name
//@ end
  if (cc)
    return fail($(upper)_NOT_FOUND, "this file has no kernel for compute capability %d.%d, only for $(archs)", cc / 10,
                cc % 10);
  return fail($(upper)_NOT_FOUND,
              "this file has no kernel for $(table.concat(format, ", "))",
              $(table.concat(values, ", ")));
}

/* Of arguments that passed. */
static $(prefix)_status launch(int index, const $(prefix)_problem *s, $(prefix)_params *block, void *stream) {
  const kernel *k = &kernels[index];
  void *arguments[] = {block};
  const double blocks = k->blocks(k, s, block);
  if (blocks > GRID_MAX)
    return fail($(upper)_INVALID, "more than %d blocks of %d rows: launch fewer sequences at once", GRID_MAX, k->block_m);
  return check_driver(cuda.launch(loaded[index], (unsigned)blocks, 1, 1, (unsigned)k->threads, 1, 1,
                                  (unsigned)k->smem_bytes, stream, arguments, NULL),
                      "launching", k->name);
}

$(prefix)_status $(prefix)_attn_fwd(const $(prefix)_problem *problem, const $(prefix)_params *params, void *stream) {
  int device = 0, cc = 0;
  if (!problem || !params) return fail($(upper)_INVALID, "%s is NULL", problem ? "params" : "problem");
  if (params->size != sizeof *params || params->abi != $(abi))
    return fail($(upper)_INVALID, "begin with $(prefix)_params_init() of the file that has this function");
  $(prefix)_problem s = completed(problem);
  $(prefix)_params block = *params;
  const int cls = shape_class(&block);
  if (!find_row_for(&s, cls, 0)) return no_kernel(&s, 0);
  MUST(check_scalars(&s, &block));
  MUST(finish(&s, &block));
  if (block.batch == 0 || block.heads_q == 0 || $(varlen and "((s.features & " .. upper .. "_VARLEN) ? block.total_q : block.len_q)" or "block.len_q") == 0) return $(upper)_OK;
  MUST(check_tensors(&s, &block));
  MUST(find_device(&device, &cc));
  const row *r = find_row_for(&s, cls, cc);
  if (!r) return no_kernel(&s, cc);
  MUST(load_kernel(r->kernel, device));
  return launch(r->kernel, &s, &block, stream);
}
