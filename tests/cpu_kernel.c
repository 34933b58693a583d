/* cpu_kernel.c - see cpu_kernel.h. */
#include "cpu_kernel.h"

#include "../gen/nvrtc.h"
#include "../runtime/variant.h"
#include "test.h"

enum { RANDOM_RUNS = 20, RANDOM_FAULTS = 4 };

enum { SOURCE_MAX = 1 << 16 };

static void append(char *source, const char *file) {
  char path[128];
  snprintf(path, sizeof path, "tests/cpu/%s", file);
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "%s: not found", path);
  size_t used = strlen(source);
  size_t bytes = fread(source + used, 1, SOURCE_MAX - used - 1, f);
  fclose(f);
  ck_assert(used + bytes < SOURCE_MAX - 1);
  source[used + bytes] = 0;
}

cpu_kernel cpu_kernel_make(const char *file, const char *name, const char *arch, int fault) {
  cpu_kernel k = {.name = name, .source = malloc(SOURCE_MAX)};
  size_t bytes;
  ck_assert_ptr_nonnull(k.source);
  snprintf(k.source, SOURCE_MAX, "#define FAULT %d\n", fault);
  append(k.source, "prim.cuh");
  append(k.source, file);
  attune_status status =
      attune__nvrtc_ptx(k.source, name, attune__arch_parse(arch), &k.ptx, &bytes);
  ck_assert_msg(status == ATTUNE_OK, "%s: %s", name, attune_error());
  status = attune__ptx_parse(k.ptx, bytes, name, &k.program);
  ck_assert_msg(status == ATTUNE_OK, "%s: %s", name, attune_error());
  return k;
}

void cpu_kernel_free(cpu_kernel *k) {
  attune__ptx_free(k->program);
  free(k->ptx);
  free(k->source);
}

static attune_status make_gmem(const cpu_launch *l, uint64_t *pointer, attune__gmem **out) {
  attune__tensor tensor[ATTUNE_CPU_TENSORS];
  for (uint32_t k = 0; k < l->tensors; k++)
    tensor[k] = (attune__tensor){.name = l->tensor[k].name,
                                 .kind = l->tensor[k].kind,
                                 .base = l->tensor[k].data,
                                 .element_bytes = 1,
                                 .extent = {1, 1, 1, (int64_t)l->tensor[k].bytes},
                                 .stride = {0, 0, 0, 1}};
  attune_status status = attune__gmem_make(tensor, l->tensors, !l->unchecked, out);
  for (uint32_t k = 0; !status && k < l->tensors; k++) pointer[k] = attune__gmem_pointer(*out, k);
  return status;
}

attune_status cpu_kernel_run(const cpu_kernel *k, const cpu_launch *l) {
  uint64_t pointer[ATTUNE_CPU_TENSORS];
  attune__gmem *gmem;
  ck_assert_int_eq(make_gmem(l, pointer, &gmem), ATTUNE_OK);
  l->bind(l->params, pointer);
  size_t room = (l->params_bytes + 127) / 128 * 128;
  unsigned char *params = aligned_alloc(128, room);
  ck_assert_ptr_nonnull(params);
  memcpy(params, l->params, l->params_bytes);
  attune__cpu_launch launch = {.program = k->program,
                               .kernel = k->name,
                               .params = params,
                               .grid = l->grid,
                               .threads = l->threads,
                               .smem_bytes = l->smem_bytes,
                               .cluster = l->cluster ? l->cluster : 1,
                               .gmem = gmem,
                               .options = {.size = sizeof(attune_cpu_options),
                                           .arch = "sm_90a",
                                           .unchecked = l->unchecked,
                                           .schedule_seed = l->seed,
                                           .landing = l->landing,
                                           .threads = 1}};
  attune_status status = attune__cpu_run(&launch, l->counters);
  if (!status) status = attune__gmem_finish(gmem, k->name);
  if (l->counters) attune__gmem_counters(gmem, l->counters);
  attune__gmem_free(gmem);
  free(params);
  return status;
}

/* Run k of the series: late, early, then random ones. */
static void vary(cpu_launch *l, uint64_t k) {
  l->landing = k == 0   ? ATTUNE_CPU_LAND_LATE
               : k == 1 ? ATTUNE_CPU_LAND_EARLY
                        : ATTUNE_CPU_LAND_RANDOM;
  l->seed = k < 2 ? 0 : k;
}

void cpu_kernel_clean(const cpu_kernel *k, cpu_launch launch, void (*check)(void)) {
  for (uint64_t run = 0; run < 2 + RANDOM_RUNS; run++) {
    vary(&launch, run);
    attune_status status = cpu_kernel_run(k, &launch);
    ck_assert_msg(status == ATTUNE_OK, "run %d: %s", (int)run, attune_error());
    check();
  }
  vary(&launch, 0);
  launch.unchecked = 1;
  ck_assert_msg(cpu_kernel_run(k, &launch) == ATTUNE_OK, "unchecked: %s", attune_error());
  check();
}

/* Whether one of the texts, which '|' separates, is in the report. */
static int has_text(const char *report, const char *texts) {
  while (*texts) {
    char text[160];
    size_t size = strcspn(texts, "|");
    snprintf(text, sizeof text, "%.*s", (int)size, texts);
    if (strstr(report, text)) return 1;
    texts += size + (texts[size] == '|');
  }
  return 0;
}

/* Whether the report names a line with the fault's mark; or no line has it. */
static int names_marked_line(const char *source, int fault, const char *report) {
  char mark[32], where[32];
  int line = 1, marks = 0;
  snprintf(mark, sizeof mark, "/*@%d*/", fault);
  for (const char *p = source; *p; p++) {
    line += *p == '\n';
    if (strncmp(p, mark, strlen(mark)) != 0) continue;
    marks++;
    snprintf(where, sizeof where, ".cu:%d", line);
    const char *at = strstr(report, where);
    if (at && strchr(": ", at[strlen(where)])) return 1;
  }
  return marks == 0;
}

void cpu_kernel_faulty(const cpu_kernel *k, cpu_launch launch, int fault, const char *texts) {
  for (uint64_t run = 0; run < 2 + RANDOM_FAULTS; run++) {
    vary(&launch, run);
    attune_status status = cpu_kernel_run(k, &launch);
    const char *report = attune_error();
    ck_assert_msg(status == ATTUNE_MISMATCH, "fault %d, run %d: status %d %s", fault, (int)run,
                  (int)status, status ? report : "");
    ck_assert_msg(has_text(report, texts), "fault %d, run %d: wanted \"%s\", got: %s", fault,
                  (int)run, texts, report);
    ck_assert_msg(names_marked_line(k->source, fault, report),
                  "fault %d, run %d: not a line marked for it: %s", fault, (int)run, report);
    if (getenv("ATTUNE_TEST_REPORTS") && run == 0) printf("fault %d: %s\n", fault, report);
  }
}
