/* model_cost.c - time of a launch by ceiling, and the total that orders tiles.
 * In: the work that a model adds up, the board. Out: clocks of one SM. A model, not a measurement:
 * it has to order tiles, not to predict milliseconds. */
#include "model_cost.h"

/* What a block alone on its SM waits for, in clocks. Round numbers for all boards, after published
 * microbenchmarks of Turing to Hopper (device memory 400 to 700 clocks, barriers about 30). */
static const double device_memory_wait = 600, barrier_wait = 30;
/* Warps on an SM from which its units are kept busy: two per scheduler, as one stalls on its
 * loads from shared memory between its runs of multiply-adds. */
static const double warps_to_saturate = 8;
/* Share of the other ceilings that does not hide behind the largest. Assumed: warps of one block
 * run in step between barriers, so units idle in turn. */
static const double exposed = 0.25;
/* An SM's link to L2, bytes per clock (NVIDIA A100 white paper: 64 bytes/clk/SM). */
static const double l2_link = 64;

/* A tile's start and end, alone: Q in, O out. */
static double tile_start(void) {
  return 2 * device_memory_wait + barrier_wait;
}

static double largest(double a, double b) {
  return a > b ? a : b;
}
static double smallest(double a, double b) {
  return a < b ? a : b;
}
static double ceiling(double value) {
  double whole = (double)(int64_t)value;
  return whole < value ? whole + 1 : whole;
}

int attune__blocks_by_registers(int warps, int registers) {
  return 4 * (16384 / 32 / registers) / warps;
}

double attune__kv_bytes(const attune_variant *v, const attune_shape *s) {
  double pair = (v->head_dim_qk + v->head_dim_v) * (double)attune__dtype_bytes(v->dtype_kv);
  return pair * (double)s->len_k * (double)s->heads_kv / largest((double)s->heads_q, 1);
}

/* Blocks that fit on an SM at once, by threads, registers and shared memory (1 KB more per block
 * from compute capability 8.0 on). */
static double resident_blocks(const attune_board *b, const attune_work *w) {
  double threads = 32.0 * w->warps, reserved = attune__arch_cc(b->arch) >= 80 ? 1024 : 0;
  double blocks = smallest(b->blocks_sm, b->threads_sm / threads);
  blocks = smallest(blocks, attune__blocks_by_registers(w->warps, w->registers));
  blocks = smallest(blocks, b->smem_sm_kb * 1024.0 / largest(w->smem_bytes + reserved, 1));
  return largest(1, (double)(int)blocks);
}

/* Clocks for the board's device memory. What is read again is served by L2 as far as K and V of the
 * heads in flight fit in it; everything requested crosses the SM's link to L2. */
static double device_memory(const attune_board *b, const attune_work *w,
                            const attune_traffic *traffic, double resident) {
  double heads = largest(1, smallest(w->blocks, resident * b->sms) / w->blocks_per_head);
  double l2 = b->l2_mb * 1048576.0, reread = traffic->requested - traffic->compulsory;
  double missed = 1 - smallest(1, l2 / largest(heads * w->kv_bytes, 1));
  double bytes_per_clock = b->dram_gbs * 1e9 / (b->mhz * 1e6);
  double dram = (traffic->compulsory + reread * missed) / bytes_per_clock;
  return largest(dram, traffic->requested / (l2_link * b->sms));
}

/* The clocks that the units need: the largest ceiling, and what of the others shows beside it. */
static double work_clocks(attune_cost *c, double share) {
  const struct {
    double clocks;
    const char *name;
  } unit[] = {{c->fma, "fma"},
              {c->tensor, "tensor"},
              {c->exponential, "exponential"},
              {c->shared_memory, "shared memory"},
              {c->issue, "issue"},
              {c->device_memory, "device memory"}};
  double most = 0, sum = 0;
  for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
    sum += unit[i].clocks;
    if (unit[i].clocks > most) most = unit[i].clocks, c->binds = unit[i].name;
  }
  return most + share * (sum - most);
}

/* The order of tiles. Blocks run in waves of `occupancy` per SM. A wave of r blocks takes r times
 * what one block keeps the units busy (with its share of barriers, which other blocks cover only in
 * part), and no less than one block takes alone: its waits (start-up, and one per load of the loop)
 * and its work at the rate that its own warps reach. The last wave has fewer blocks. So few big
 * blocks lose by idle SMs, small ones by their traffic. */
static double total(const attune_board *b, const attune_work *w, const attune_cost *c,
                    double clocks_busy) {
  double slots = c->occupancy * b->sms, whole = (double)(int64_t)(w->blocks / slots);
  double loads = w->steps / w->blocks * w->step_waits, barriers = loads * 2 * barrier_wait;
  barriers += w->steps / w->blocks * w->step_latency;
  double busy = clocks_busy * b->sms / w->blocks + barriers / c->occupancy;
  busy += w->steps / w->blocks * w->step_clocks;
  double alone =
      loads * device_memory_wait + barriers + busy * largest(1, warps_to_saturate / w->warps);
  double rest = ceiling((w->blocks - whole * slots) / b->sms);
  alone += (1 - w->ahead) * tile_start();
  double clocks = whole * largest(c->occupancy * busy, alone) + w->ahead * tile_start();
  return rest > 0 ? clocks + largest(rest * busy, alone) : clocks;
}

void attune__work_cost(const attune_board *b, const attune_work *w, const attune_traffic *traffic,
                       attune_cost *out) {
  *out = (attune_cost){.binds = "nothing"};
  if (w->blocks <= 0) return; /* an empty launch */
  double sms = b->sms;
  out->occupancy = resident_blocks(b, w);
  out->waves = ceiling(w->blocks / (out->occupancy * sms));
  out->startup = tile_start() * (w->ahead + (1 - w->ahead) * out->waves);
  out->fma = w->fma / b->fp32_lanes / sms;
  out->tensor = w->tensor / b->tensor_flop / sms;
  out->exponential = w->exponentials / b->mufu_lanes / sms;
  out->shared_memory = w->wavefronts / sms;
  out->issue = w->instructions / 4 / sms;
  out->device_memory = device_memory(b, w, traffic, out->occupancy);
  double share = w->exposed > 0 ? w->exposed : exposed;
  share += w->exposed_by_warp / (w->warps * smallest(out->occupancy, ceiling(w->blocks / sms)));
  out->total = w->start + total(b, w, out, work_clocks(out, smallest(share, 1)));
}
