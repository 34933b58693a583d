/* gmem.c - global memory: the tensors of a launch, what may be done to them, and what was.
 *
 * Input: tagged addresses. Output: host pointers, or faults; bytes per tensor, requested and
 * distinct. An access must hit elements of its tensor: rows between those of a strided view are out
 * of bounds even where the allocation goes on. Maps of touched bytes are shared by the host
 * threads. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { AXES = ATTUNE__TENSOR_AXES };

/* A tensor with what locating an address needs. */
typedef struct entry {
  attune__tensor tensor;
  uint32_t index;     /* in the launch */
  uint64_t tagged;    /* its base, tagged */
  uint64_t row_bytes; /* of what lies side by side: the last axis, or one element */
  int axis[AXES];     /* the others of several elements and a stride, largest stride first */
  int axes;
  uint64_t span[AXES + 1]; /* span[k]: bytes from the first to behind the last of axes k and on */
  uint64_t dense[AXES];    /* bytes from one index to the next when packed; 0: broadcast */
  uint64_t bytes;          /* when packed */
  uint64_t use_bytes;      /* of them, those that one element of in_use is for */
  atomic_ullong *read, *written; /* a bit per byte of the packed tensor */
  attune_cpu_tensor count;
} entry;

struct attune__gmem {
  entry entry[ATTUNE_CPU_TENSORS];
  uint32_t count;
  int checks;
};

/* ---- making ------------------------------------------------------------------------------------
 */

static int is_dense(const attune__tensor *t) {
  return t->stride[AXES - 1] == 1 || t->extent[AXES - 1] <= 1;
}

static void sort_axes(entry *x) {
  const attune__tensor *t = &x->tensor;
  for (int a = 0; a < AXES - is_dense(t); a++) {
    if (t->extent[a] <= 1 || t->stride[a] == 0) continue;
    int k = x->axes++;
    for (; k > 0 && t->stride[x->axis[k - 1]] < t->stride[a]; k--) x->axis[k] = x->axis[k - 1];
    x->axis[k] = a;
  }
}

static void measure(entry *x) {
  const attune__tensor *t = &x->tensor;
  x->row_bytes = (is_dense(t) ? (uint64_t)t->extent[AXES - 1] : 1) * t->element_bytes;
  x->span[x->axes] = x->row_bytes;
  for (int k = x->axes; k-- > 0;)
    x->span[k] = x->span[k + 1] + (uint64_t)(t->extent[x->axis[k]] - 1) *
                                      (uint64_t)t->stride[x->axis[k]] * t->element_bytes;
  x->bytes = t->element_bytes;
  for (int a = AXES; a-- > 0;) {
    if (a == 1) x->use_bytes = x->bytes;
    if (t->extent[a] > 1 && t->stride[a] == 0) continue;
    x->dense[a] = x->bytes;
    x->bytes *= (uint64_t)t->extent[a];
  }
}

static attune_status make_entry(const attune__tensor *tensor, uint32_t index, int checks,
                                entry *x) {
  x->tensor = *tensor;
  x->index = index;
  x->tagged = (uint64_t)(index + 1) << ATTUNE__TAG_SHIFT | (uint64_t)(uintptr_t)tensor->base;
  for (int a = 0; a < AXES; a++)
    if (tensor->extent[a] < 0 || tensor->stride[a] < 0)
      return attune_fail(ATTUNE_INVALID,
                         "%s has a negative extent or stride: the CPU device "
                         "wants views that go upwards",
                         tensor->name);
  sort_axes(x);
  measure(x);
  if (!checks) return ATTUNE_OK;
  x->read = calloc(x->bytes / 64 + 1, sizeof *x->read);
  x->written = calloc(x->bytes / 64 + 1, sizeof *x->written);
  if (x->read && x->written) return ATTUNE_OK;
  return attune_fail(ATTUNE_NO_MEMORY, "no memory to follow the %llu bytes of %s",
                     (unsigned long long)x->bytes, tensor->name);
}

attune_status attune__gmem_make(const attune__tensor *tensors, uint32_t count, int checks,
                                attune__gmem **out) {
  *out = NULL;
  if (count > ATTUNE_CPU_TENSORS)
    return attune_fail(ATTUNE_INVALID, "%u tensors, the CPU device counts %d", count,
                       ATTUNE_CPU_TENSORS);
  attune__gmem *g = calloc(1, sizeof *g);
  if (!g) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a list of tensors");
  g->checks = checks;
  g->count = count;
  attune_status status = ATTUNE_OK;
  for (uint32_t t = 0; t < count && !status; t++)
    status = make_entry(&tensors[t], t, checks, &g->entry[t]);
  if (status)
    attune__gmem_free(g);
  else
    *out = g;
  return status;
}

void attune__gmem_free(attune__gmem *g) {
  for (uint32_t t = 0; g && t < g->count; t++) free(g->entry[t].read), free(g->entry[t].written);
  free(g);
}

uint64_t attune__gmem_pointer(const attune__gmem *g, uint32_t t) {
  return g->entry[t].tagged;
}

/* ---- places -----------------------------------------------------------------------------------
 */

/* Finds the row that holds [offset, offset + bytes), trying axes from the largest stride on: *start
 * gets the row's offset, *dense its place in the packed tensor. 0: no row does. */
static int locate(const entry *x, int k, uint64_t offset, uint32_t bytes, uint64_t *start,
                  uint64_t *dense) {
  if (k == x->axes || k == AXES) return offset < x->row_bytes && bytes <= x->row_bytes - offset;
  int a = x->axis[k];
  uint64_t stride = (uint64_t)x->tensor.stride[a] * x->tensor.element_bytes;
  uint64_t index = offset / stride, last = (uint64_t)x->tensor.extent[a] - 1;
  if (index > last) index = last;
  for (;; index--) {
    uint64_t rest = offset - index * stride;
    if (rest >= x->span[k + 1]) return 0;
    if (locate(x, k + 1, rest, bytes, start, dense)) {
      *start += index * stride;
      *dense += index * x->dense[a];
      return 1;
    }
    if (index == 0) return 0;
  }
}

/* "o[1, 65, 0, 12]" of a byte of the packed tensor. */
static const char *element_name(const entry *x, uint64_t dense, char out[128]) {
  uint64_t index[AXES];
  for (int a = 0; a < AXES; a++) {
    index[a] = x->dense[a] ? dense / x->dense[a] : 0;
    dense -= index[a] * x->dense[a];
  }
  snprintf(out, 128, "%s[%llu, %llu, %llu, %llu]", x->tensor.name, (unsigned long long)index[0],
           (unsigned long long)index[1], (unsigned long long)index[2],
           (unsigned long long)index[3]);
  return out;
}

_Noreturn static void out_of_bounds(attune__warp *w, int lane, const entry *x, uint64_t address,
                                    uint32_t bytes, const char *what) {
  const attune__tensor *t = &x->tensor;
  attune__fault(w, lane,
                "%s: %u bytes at byte %lld of %s are no elements of it: its shape is [%lld, %lld, "
                "%lld, %lld], its strides [%lld, %lld, %lld, %lld] elements of %u bytes",
                what, bytes, (long long)(address - x->tagged), t->name, (long long)t->extent[0],
                (long long)t->extent[1], (long long)t->extent[2], (long long)t->extent[3],
                (long long)t->stride[0], (long long)t->stride[1], (long long)t->stride[2],
                (long long)t->stride[3], t->element_bytes);
}

static void find_row(attune__warp *w, int lane, const entry *x, uint64_t address, uint32_t bytes,
                     const char *what, attune__gmem_row *row) {
  uint64_t start = 0, dense = 0, offset = address - x->tagged;
  if (offset >= x->span[0] || x->bytes == 0 || !locate(x, 0, offset, bytes, &start, &dense))
    out_of_bounds(w, lane, x, address, bytes, what);
  row->begin = x->tagged + start;
  row->end = row->begin + x->row_bytes;
  row->dense = dense;
}

/* ---- touched bytes ----------------------------------------------------------------------------
 */

/* Sets the bits of [at, at + bytes), at most 64; 1 when one was set before. */
static int mark(atomic_ullong *map, uint64_t at, uint32_t bytes, int must_know) {
  uint64_t all = bytes < 64 ? (UINT64_C(1) << bytes) - 1 : UINT64_MAX;
  uint64_t part[2] = {all << (at & 63), at & 63 ? all >> (64 - (at & 63)) : 0};
  int before = 0;
  for (int k = 0; k < 2 && part[k]; k++) {
    atomic_ullong *word = &map[at / 64 + (unsigned)k];
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    if (must_know || (old & part[k]) != part[k])
      old = atomic_fetch_or_explicit(word, part[k], memory_order_relaxed);
    before |= (old & part[k]) != 0;
  }
  return before;
}

static void note_read(attune__warp *w, int lane, const entry *x, uint64_t dense, uint32_t bytes,
                      const char *what) {
  char name[128];
  if (!(x->tensor.kind & ATTUNE__TENSOR_READ))
    attune__fault(w, lane, "%s reads %s, which is an output", what, element_name(x, dense, name));
  mark(x->read, dense, bytes, 0);
  w->engine->gmem.read[x->index] += bytes;
}

/* Whether the byte of the packed tensor is of a row in use. */
static int in_use(const entry *x, uint64_t dense) {
  return !x->tensor.in_use || x->tensor.in_use[dense / x->use_bytes];
}

static void note_write(attune__warp *w, int lane, const entry *x, uint64_t dense, uint32_t bytes,
                       const char *what) {
  char name[128];
  if (!(x->tensor.kind & ATTUNE__TENSOR_WRITE))
    attune__fault(w, lane, "%s stores to %s, which is an input", what,
                  element_name(x, dense, name));
  if (!in_use(x, dense))
    attune__fault(w, lane, "%s writes %s, a row that is of no sequence or behind the rows in use",
                  what, element_name(x, dense, name));
  int once = x->tensor.kind & ATTUNE__TENSOR_ONCE;
  if (mark(x->written, dense, bytes, once) && once)
    attune__fault(w, lane, "%s writes %s, which was written before", what,
                  element_name(x, dense, name));
  w->engine->gmem.write[x->index] += bytes;
}

/* ---- accesses ---------------------------------------------------------------------------------
 */

unsigned char *attune__gmem_access(attune__warp *w, int lane, uint64_t address, uint32_t bytes,
                                   int store, const char *what) {
  const attune__gmem *g = w->engine->launch->gmem;
  uint32_t t = (uint32_t)(address >> ATTUNE__TAG_SHIFT) - 1;
  if (t >= g->count)
    attune__fault(w, lane, "%s: address 0x%llx belongs to no tensor of the launch", what,
                  (unsigned long long)address);
  const entry *x = &g->entry[t];
  attune__gmem_row *row = &w->engine->gmem.row[t];
  if (address < row->begin || address >= row->end || bytes > row->end - address)
    find_row(w, lane, x, address, bytes, what, row);
  if (address & (bytes - 1))
    attune__fault(w, lane, "%s: byte %lld of %s is not aligned to %u", what,
                  (long long)(address - x->tagged), x->tensor.name, bytes);
  if (g->checks) {
    uint64_t dense = row->dense + (address - row->begin);
    if (lane < 0 ? !w->alone : !(w->alone >> lane & 1))
      attune__fault(w, lane,
                    "%s of %s, which what is ahead in the stream may still use: the kernel is "
                    "launched early and has not come to griddepcontrol.wait",
                    what, x->tensor.name);
    if (store)
      note_write(w, lane, x, dense, bytes, what);
    else
      note_read(w, lane, x, dense, bytes, what);
  }
  return x->tensor.base + (address - x->tagged);
}

void attune__gmem_sectors(attune__warp *w, uint32_t active, const uint64_t address[ATTUNE__LANES],
                          uint32_t bytes, int store) {
  uint64_t sector[2 * ATTUNE__LANES];
  uint32_t count = 0, tensor = (uint32_t)(address[attune__first(active)] >> ATTUNE__TAG_SHIFT) - 1;
  for (uint32_t l = 0; l < ATTUNE__LANES; l++) {
    if (!(active >> l & 1)) continue;
    for (uint64_t s = address[l] / 32; s <= (address[l] + bytes - 1) / 32; s++) {
      uint32_t k = count;
      while (k > 0 && sector[k - 1] != s) k--;
      if (k == 0) sector[count++] = s;
    }
  }
  uint64_t *sum = store ? w->engine->gmem.sectors_write : w->engine->gmem.sectors_read;
  sum[tensor] += count;
}

/* ---- after the launch -------------------------------------------------------------------------
 */

void attune__gmem_add(attune__gmem *g, const attune__gmem_thread *thread) {
  for (uint32_t t = 0; t < g->count; t++) {
    attune_cpu_tensor *c = &g->entry[t].count;
    c->requested_read += thread->read[t];
    c->requested_write += thread->write[t];
    c->sectors_read += thread->sectors_read[t];
    c->sectors_write += thread->sectors_write[t];
  }
}

static uint64_t bits_of(const atomic_ullong *map, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t k = 0; map && k <= bytes / 64; k++)
    sum += (unsigned)__builtin_popcountll(atomic_load_explicit(&map[k], memory_order_relaxed));
  return sum;
}

void attune__gmem_counters(const attune__gmem *g, attune_cpu_counters *out) {
  out->tensors = (int32_t)g->count;
  for (uint32_t t = 0; t < g->count; t++) {
    const entry *x = &g->entry[t];
    out->tensor[t] = x->count;
    out->tensor[t].name = x->tensor.name;
    out->tensor[t].compulsory_read = bits_of(x->read, x->bytes);
    out->tensor[t].compulsory_write = bits_of(x->written, x->bytes);
  }
}

attune_status attune__gmem_finish(const attune__gmem *g, const char *kernel) {
  char name[128];
  for (uint32_t t = 0; t < g->count; t++) {
    const entry *x = &g->entry[t];
    if (!g->checks || !(x->tensor.kind & ATTUNE__TENSOR_ALL)) continue;
    for (uint64_t at = 0; at < x->bytes; at++)
      if (!(atomic_load_explicit(&x->written[at / 64], memory_order_relaxed) >> at % 64 & 1) &&
          in_use(x, at))
        return attune_fail(ATTUNE_MISMATCH, "kernel %s: %s was never written", kernel,
                           element_name(x, at, name));
  }
  return ATTUNE_OK;
}
